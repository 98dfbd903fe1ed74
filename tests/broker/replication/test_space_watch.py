"""A directory that is almost full is told of before it is full, once for each crossing."""

import trio

from quorate.runtime.disk import DiskSpace
from quorate.simulation.world.logs import captured_logs


async def told(cluster, monkeypatch, spaces, **config):
    """The names of the events while broker 1's file system has these (usable, total), a minute each."""
    cluster = cluster(brokers=1, min_isr=1, **config)
    now = spaces[0]
    monkeypatch.setattr(cluster[1].disk, "space", lambda path: DiskSpace(usable=now[0], total=now[1]))
    with captured_logs() as events:
        await cluster.start()
        for now in spaces:
            await trio.sleep(60)
            assert cluster[1].manager.stats.usable_bytes == {"data": now[0]}
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


async def test_zero_is_off(make_brokers, autojump_clock, monkeypatch):
    assert await told(make_brokers, monkeypatch, [(0, 1000)], free_warn_percent=0) == []
