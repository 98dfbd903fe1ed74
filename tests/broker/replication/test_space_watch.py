"""A directory that is almost full is told of before it is full, once for each crossing."""

import trio
from captured_logs import captured_logs

from quorate.error_code import ErrorCode
from quorate.runtime.disk import DiskSpace
from quorate.simulation.world.disk_faults import DiskOperation


async def told(cluster, monkeypatch, spaces, **config):
    """The names of the events while broker 1's file system has these (usable, total), a minute each."""
    cluster = cluster(brokers=1, min_isr=1, **config)
    now = spaces[0]
    monkeypatch.setattr(cluster[1].disk, "space", lambda path: DiskSpace(usable=now[0], total=now[1]))
    with captured_logs() as events:
        await cluster.start()
        for now in spaces:
            await trio.sleep(60)
            assert cluster[1].replicas.stats.usable_bytes == {"data": now[0]}
    return [each for each in events if "almost full" in each["event"] or "room again" in each["event"]]


async def test_a_warning_comes_once_with_what_to_do(make_brokers, autojump_clock, monkeypatch):
    spaces = [(500, 1000), (99, 1000), (50, 1000), (101, 1000), (99, 1000), (200, 1000), (90, 1000)]
    events = await told(make_brokers, monkeypatch, spaces)
    assert [(each["event"], each["usable_bytes"]) for each in events] == [
        ("a directory is almost full", 99),
        ("a directory has room again", 200),
        ("a directory is almost full", 90),
    ]
    assert events[0]["log_level"] == "warning"
    assert (events[0]["path"], events[0]["warned_below"]) == ("data", 100)
    assert "docs/how-to/move-between-disks.md" in events[0]["remedy"]


async def test_the_larger_of_both_thresholds_counts(make_brokers, autojump_clock, monkeypatch):
    events = await told(make_brokers, monkeypatch, [(300, 1000)], free_warn_bytes=400)
    assert [each["warned_below"] for each in events] == [400]


async def test_a_full_directory_is_told_with_its_remedy_in_the_log_and_in_the_answer(
    make_cluster, autojump_clock
):
    cluster = await make_cluster(1)
    cluster[1].disk.space_left = 10
    with captured_logs() as events:
        first = await cluster[1].produced("does not fit")
        second = await cluster[1].produced("refused")
        await cluster.until(lambda: cluster[1].errors)
    cluster[1].errors.clear()
    (line,) = [each for each in events if each["event"].startswith("a directory of log.dirs has failed")]
    assert line["path"] == "data"
    for told in (line["reason"], first.error_message, second.error_message):
        assert "data/t-0/00000000000000000000.log: no space left on the device" in told
        assert "move-between-disks.md" in told
        for key in ("retention.ms", "log.retention.bytes", "quorate.log.dir.free.warn.percent"):
            assert key in told


async def test_another_failure_of_a_disk_does_not_ask_for_room(make_cluster, autojump_clock):
    cluster = await make_cluster(1)
    cluster[1].disk.fail(DiskOperation.APPEND, path_part="t-0")
    answer = await cluster[1].produced("a")
    await cluster.until(lambda: cluster[1].errors)
    cluster[1].errors.clear()
    assert answer.error is ErrorCode.KAFKA_STORAGE_ERROR
    assert "retention" not in answer.error_message


async def test_zero_is_off(make_brokers, autojump_clock, monkeypatch):
    assert await told(make_brokers, monkeypatch, [(0, 1000)], free_warn_percent=0) == []
