"""Damage at rest: the scrub finds it, only that replica suffers, and what is whole is served."""

import pytest
import trio
from captured_logs import captured_logs

from quorate.broker.replication.upkeep.scrubber import SCRUB_CHECKPOINT
from quorate.error_code import ErrorCode
from quorate.log.checkpoints import LOG_STARTS, RECOVERY_POINTS, load_offsets, store_offsets
from quorate.simulation.world.simulated_disk import DiskOperation
from tests.broker.replication.conftest import FIRST, batch_size, with_old_segments


@pytest.mark.slow
async def test_a_scrub_finds_a_flipped_bit_and_says_where_and_what_to_do(make_cluster, autojump_clock):
    cluster = await with_old_segments(make_cluster)
    size = batch_size(cluster[2])
    cluster[2].disk.flip(FIRST, 3 * size + 70, bit=2)
    with captured_logs() as events:
        await trio.sleep(20)
    (told,) = [each for each in events if each["event"] == "a replica is damaged"]
    assert told["log_level"] == "error"
    assert (told["topic"], told["partition"], told["segment"]) == ("t", 0, FIRST)
    assert (told["position"], told["offsets"]) == (3 * size, "[3, 4)")
    assert "quorate log-dirs refetch --replica t:0:2" in told["remedy"]
    assert [each.replicas.counts().damaged_replica_count for each in cluster.brokers.values()] == [0, 1, 0]
    # Nothing else suffers.
    assert cluster[2].replicas.directories.unused_dirs == ()
    assert sorted(cluster.controller.state().isr) == [1, 2, 3]


@pytest.mark.slow
async def test_a_leader_serves_what_is_around_the_damage_and_refuses_the_rest(make_cluster, autojump_clock):
    cluster = await with_old_segments(make_cluster)
    cluster[1].disk.flip(FIRST, 3 * batch_size(cluster[1]) + 70)
    await trio.sleep(20)
    before = await cluster[1].fetch(0)
    assert not before.error
    assert b"".join(before.records).count(b"value") == 3
    for reader in ({}, {"replica_id": 2, "current_leader_epoch": 0}):
        refused = await cluster[1].fetch(3, **reader)
        assert refused.error is ErrorCode.CORRUPT_MESSAGE, refused
    assert (await cluster[1].consumed(4))[0] == "value 4"
    assert cluster[1].partition().leading is not None
    assert not (await cluster[1].produced("more")).error


async def test_a_read_that_meets_damage_has_the_segment_checked(make_cluster, autojump_clock):
    cluster = await with_old_segments(make_cluster, scrub_interval_ms=0)
    # Nothing of it is in this one's memory.
    await cluster.lead(2)
    # The length of the third batch: no walk gets past it.
    cluster[2].disk.flip(FIRST, 2 * batch_size(cluster[2]) + 8, bit=7)
    with captured_logs() as events:
        assert (await cluster[2].fetch(2)).error is ErrorCode.CORRUPT_MESSAGE
        await trio.sleep(1)
    assert [each["offsets"][:3] for each in events if each["event"] == "a replica is damaged"] == ["[2,"]
    damaged = cluster[2].partition().damage.ahead(0)
    assert (await cluster[2].consumed(damaged.end_offset))[-1] == "value 59"
    assert cluster[2].replicas.directories.unused_dirs == ()


@pytest.mark.slow
async def test_no_scrub_reads_nothing(make_cluster, autojump_clock):
    cluster = await with_old_segments(make_cluster, scrub_interval_ms=0)
    await trio.sleep(700)
    assert [each.replicas.stats.scrubbed_bytes for each in cluster.brokers.values()] == [0, 0, 0]
    assert not cluster[1].disk.exists(f"data/{SCRUB_CHECKPOINT}")


@pytest.mark.slow
async def test_the_rate_is_kept_and_each_segment_read_once_in_an_interval(make_cluster, autojump_clock):
    cluster = await with_old_segments(
        make_cluster, scrub_interval_ms=100_000, scrub_io_max_bytes_per_second=500
    )
    stats, held = cluster[1].replicas.stats, cluster[1].partition().log
    closed = sum(cluster[1].disk.open(f"data/t-0/{base:020}.log").size for base in held.bases())
    began = trio.current_time()
    await cluster.until(lambda: stats.scrubbed_bytes >= closed, within_s=300)
    least = closed / 500 - 1
    assert trio.current_time() - began >= least
    assert stats.scrubbed_bytes == closed
    await trio.sleep(30)
    assert stats.scrubbed_bytes == closed
    await trio.sleep(200)
    assert stats.scrubbed_bytes >= 2 * closed


@pytest.mark.slow
async def test_a_scrub_goes_on_where_a_restart_interrupted_it(make_cluster, autojump_clock):
    cluster = await with_old_segments(
        make_cluster, values=200, scrub_interval_ms=3_600_000, scrub_io_max_bytes_per_second=500
    )
    held = cluster[2].partition().log
    closed = sum(cluster[2].disk.open(f"data/t-0/{base:020}.log").size for base in held.bases())
    await cluster.until(lambda: cluster[2].replicas.stats.scrubbed_bytes > closed / 2, within_s=300)
    first = cluster[2].replicas.stats.scrubbed_bytes
    await cluster.restart(2, stop=True)
    await trio.sleep(300)
    second = cluster[2].replicas.stats.scrubbed_bytes
    # The segment that was being read is read again.
    assert closed <= first + second <= closed + 2000, (closed, first, second)


@pytest.mark.slow
async def test_a_checkpoint_of_the_scrub_that_makes_no_sense_is_begun_anew(make_cluster, autojump_clock):
    cluster = await with_old_segments(make_cluster)
    await trio.sleep(10)
    await cluster[2].stop()
    path = f"data/{SCRUB_CHECKPOINT}"
    file = cluster[2].disk.open(path)
    file.truncate(3)
    file.append([b"\xff\xff"])
    await cluster[2].start()
    with captured_logs() as events:
        await trio.sleep(20)
    assert any("the scrub begins anew" in each["event"] for each in events)
    assert cluster[2].replicas.stats.scrubbed_bytes > 0


@pytest.mark.slow
async def test_a_checkpoint_of_the_scrub_from_the_future_puts_nothing_off(make_cluster, autojump_clock):
    cluster = await with_old_segments(make_cluster, scrub_interval_ms=10_000)
    await cluster[2].stop()
    file = cluster[2].disk.open(f"data/{SCRUB_CHECKPOINT}", create=True)
    file.truncate(0)
    file.append([f"0\n1\nt 0 {10**17} 0\n".encode()])
    await cluster[2].start()
    await trio.sleep(30)
    assert cluster[2].replicas.stats.scrubbed_bytes > 0


@pytest.mark.slow
async def test_a_segment_that_the_device_cannot_read_is_damage_of_that_replica(make_cluster, autojump_clock):
    cluster = await with_old_segments(make_cluster)
    cluster[2].disk.fail(DiskOperation.READ, path_part=FIRST)
    with captured_logs() as events:
        await trio.sleep(10)
    (told,) = [each for each in events if each["event"] == "a replica is damaged"]
    assert "can't be read" in told["reason"]
    # The device gives it again.
    await trio.sleep(10)
    assert cluster[2].replicas.counts().damaged_replica_count == 0


async def test_damage_met_at_a_start_takes_no_other_replica_offline(make_cluster, autojump_clock):
    cluster = await with_old_segments(make_cluster)
    cluster.controller.create("u", number=2)
    await cluster.opened("u")
    await cluster[2].stop()
    file = cluster[2].disk.open(FIRST)
    file.truncate(file.size - 7)
    with captured_logs() as events:
        await cluster[2].start()
        await cluster.until(lambda: cluster[2].partition("u").log)
        await trio.sleep(5)
    (told,) = [each for each in events if each["event"] == "a replica is damaged"]
    assert "quorate log-dirs refetch --replica t:0:2" in told["remedy"]
    assert cluster[2].replicas.directories.unused_dirs == ()
    assert cluster[2].replicas.counts().damaged_replica_count == 1
    assert (await cluster[2].fetch(0)).error is ErrorCode.KAFKA_STORAGE_ERROR


@pytest.mark.slow
async def test_a_damaged_leader_lets_another_lead_when_it_can_not_open_its_log(make_cluster, autojump_clock):
    cluster = await with_old_segments(make_cluster)
    await cluster[1].stop()
    await cluster.opened()
    file = cluster[1].disk.open(FIRST)
    file.truncate(file.size - 7)
    cluster.controller.elect(1, isr=(2, 3, 1))
    await cluster[1].start()
    await cluster.until(lambda: cluster.controller.state().leader in (2, 3))
    leader = cluster[cluster.controller.state().leader]
    await cluster.until(lambda: leader.partition().leading is not None)
    assert len(await leader.consumed()) == 60


async def test_log_starts_that_contradict_the_log_are_damage_and_nothing_is_dropped(
    make_cluster, autojump_clock
):
    cluster = await with_old_segments(make_cluster)
    await cluster[2].stop()
    before = cluster[2].disk.content(FIRST)
    await store_offsets(cluster[2].disk, f"data/{LOG_STARTS}", {("t", 0): 1000})
    await cluster[2].start()
    await trio.sleep(5)
    assert cluster[2].replicas.counts().damaged_replica_count == 1
    assert cluster[2].disk.content(FIRST) == before


async def test_recovery_points_that_contradict_the_log_are_damage_and_nothing_is_cut(
    make_cluster, autojump_clock
):
    cluster = await with_old_segments(make_cluster)
    await cluster[2].crash()
    before = cluster[2].disk.content(FIRST)
    path = f"data/{RECOVERY_POINTS}"
    known = load_offsets(cluster[2].disk, path)
    await store_offsets(cluster[2].disk, path, known | {("t", 0): 1000})
    await cluster[2].start()
    await trio.sleep(5)
    assert cluster[2].replicas.counts().damaged_replica_count == 1
    assert cluster[2].disk.content(FIRST) == before
