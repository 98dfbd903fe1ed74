import pytest
import trio
from captured_logs import captured_logs

from quorate.broker.metadata.metadata_records import NO_LEADER, PartitionChange
from quorate.broker.replication.foundation.errors import AllDirectoriesFailedError
from quorate.error_code import ErrorCode
from quorate.log.checkpoints import HIGH_WATERMARKS, RECOVERY_POINTS, UnreadableCheckpointError, load_offsets
from quorate.runtime.disk import write_file_atomically
from quorate.simulation.world.simulated_disk import DiskOperation


async def test_a_follower_replicates_while_its_disk_syncs(make_cluster, autojump_clock):
    cluster = await make_cluster(min_isr=3, log_flush_offset_checkpoint_interval_ms=1000)
    await cluster[1].produced("a")
    cluster[2].disk.stall()
    await trio.sleep(2)
    before = cluster[2].replicas.stats.replicated_bytes
    assert not (await cluster[1].produced("b", timeout_ms=1000)).error
    once = cluster[2].replicas.stats.replicated_bytes - before
    assert once == cluster[1].replicas.stats.appended_bytes - before
    cluster[2].disk.release()
    await cluster.caught_up()


async def test_a_follower_keeps_no_copy_in_memory(make_cluster, autojump_clock):
    cluster = await make_cluster()
    await cluster[1].produced("a")
    await cluster.caught_up()
    assert cluster[1].partition().log.read_tail(0, 1 << 20)
    assert cluster[2].partition().log.read_tail(0, 1 << 20) is None


async def test_a_role_changes_while_the_disk_syncs(make_cluster, autojump_clock):
    cluster = await make_cluster(log_flush_offset_checkpoint_interval_ms=1000)
    await cluster[1].produced("a")
    cluster[2].disk.stall()
    await trio.sleep(2)
    cluster.controller.elect(2)
    with trio.fail_after(1):
        await cluster.opened()
    cluster[2].disk.release()


async def test_a_producer_snapshot_never_passes_what_is_durable(make_cluster, autojump_clock):
    cluster = await make_cluster(1, log_flush_offset_checkpoint_interval_ms=1000)
    await cluster[1].produced("a", producer=(7, 0, 0))
    cluster[1].disk.stall()
    await trio.sleep(2)
    await cluster[1].produced("b", producer=(7, 0, 1))
    cluster[1].disk.release()
    await trio.sleep(0.5)
    snapshots = [name for name in cluster[1].disk.list("data/t-0") if name.endswith(".producers")]
    assert snapshots == [f"{1:020}.producers"]


async def test_a_log_that_is_flushed_is_left_alone_until_it_changes(make_cluster, autojump_clock):
    cluster = await make_cluster(1, log_flush_offset_checkpoint_interval_ms=1000)
    log, flushes = cluster[1].partition().log, []
    flush = log.flush

    async def counted():
        flushes.append(log.end_offset)
        return await flush()

    log.flush = counted
    await cluster[1].produced("a")
    await trio.sleep(10)
    assert flushes == [1]
    await cluster[1].produced("b")
    await trio.sleep(10)
    assert flushes == [1, 2]
    await cluster[1].produced("c", producer=(7, 0, 0))
    await trio.sleep(3.5)
    assert len(flushes) >= 5 and set(flushes[2:]) == {3}, "a producer may expire"


async def test_a_recovery_point_is_never_written_above_a_cut_under_way(make_cluster, autojump_clock):
    """A flush has raised it in memory, a cut below begins, and the checkpoint is written in between."""
    cluster = await make_cluster(
        replicas=(1, 2), min_isr=1, log_flush_offset_checkpoint_interval_ms=100000000
    )
    await cluster[1].produce_each("abc")
    await cluster.caught_up(1, 2)
    cluster.cut_off(1)
    for value in "def":
        cluster[1].produce(value, acks=1)
    cut, logs, disk = cluster[1].partition(), cluster[1].manager._logs, cluster[1].disk
    await cut.log.flush()
    await cluster.lead(2, isr=(2,))
    disk.stall()
    cluster.heal()
    await cluster.until(lambda: cut.lock.locked())
    cluster.nursery.start_soon(logs.store_recovery_points)
    await trio.sleep(0.1)
    disk.release()
    await cluster.until(lambda: cut.log.end_offset == 3)
    await trio.sleep(1)
    assert load_offsets(disk, f"data/{RECOVERY_POINTS}")["t", 0] <= 3
    await cluster.restart(1)
    assert not cluster[1].errors


async def test_producers_that_fell_silent_are_forgotten(make_cluster, autojump_clock):
    cluster = await make_cluster(1, producer_id_expiration_ms=600000)
    await cluster[1].produced("a", producer=(7, 0, 0))
    await trio.sleep(300)
    assert len(cluster[1].partition().producers.producers) == 1
    await trio.sleep(600)
    assert not cluster[1].partition().producers.producers


@pytest.mark.bug("KAFKA-10778")
async def test_after_a_failed_write_nothing_is_appended_and_the_broker_stops(make_cluster, autojump_clock):
    cluster = await make_cluster()
    await cluster[1].produced("a")
    held = cluster[1].partition()
    cluster[1].disk.fail(DiskOperation.APPEND, path_part="t-0/")
    first, second = cluster[1].produce("b"), cluster[1].produce("c")
    assert [each.results()[0].error for each in (first, second)] == [ErrorCode.KAFKA_STORAGE_ERROR] * 2
    assert held.log.end_offset == 1
    await trio.sleep(1)
    error = cluster[1].errors.pop()
    assert error.split(AllDirectoriesFailedError)[0] is not None
    cluster.controller.fence(1)
    await cluster.opened()
    assert not (await cluster[2].produced("b")).error


async def test_a_failed_folder_takes_only_its_own_partitions_offline(make_cluster, autojump_clock):
    cluster = await make_cluster(1, log_dirs=("one", "two"), partitions=4)
    cluster[1].disk.fail(DiskOperation.APPEND, path_part="one/")
    errors = [cluster[1].produce("a", partition_id=each).results()[0].error for each in range(4)]
    errors = [cluster[1].produce("a", partition_id=each).results()[0].error for each in range(4)]
    assert sorted(errors) == [ErrorCode.NONE] * 2 + [ErrorCode.KAFKA_STORAGE_ERROR] * 2
    assert cluster[1].replicas.counts().offline_replica_count == 2
    await trio.sleep(1)
    assert not cluster[1].errors


async def test_a_failed_flush_takes_the_folder_offline(make_cluster, autojump_clock):
    cluster = await make_cluster(1, log_flush_offset_checkpoint_interval_ms=1000)
    await cluster[1].produced("a")
    cluster[1].disk.fail(DiskOperation.SYNC, path_part=".log")
    await trio.sleep(2)
    assert cluster[1].errors.pop()


async def test_a_failed_read_takes_the_folder_offline(make_cluster, autojump_clock):
    cluster = await make_cluster(1)
    cluster.controller.configure(max_message_bytes=3_000_000)
    await cluster[1].produced("x" * 2_000_000)
    cluster[1].disk.fail(DiskOperation.READ, path_part=".log", times=9)
    assert (await cluster[1].fetch(0)).error is ErrorCode.KAFKA_STORAGE_ERROR
    await trio.sleep(1)
    assert cluster[1].errors.pop()


async def test_a_followers_failed_append_takes_its_folder_offline(make_cluster, autojump_clock):
    cluster = await make_cluster()
    cluster[2].disk.fail(DiskOperation.APPEND, path_part="t-0/")
    assert not (await cluster[1].produced("a", acks=1)).error
    await trio.sleep(1)
    assert cluster[2].errors.pop()
    cluster.controller.fence(2)
    assert not (await cluster[1].produced("b")).error


async def test_retention_removes_what_is_old_and_a_followers_log_start_follows(make_cluster, autojump_clock):
    cluster = await make_cluster(2, log_retention_check_interval_ms=60000)
    cluster.controller.configure(segment_bytes=300, retention_bytes=600)
    await cluster[1].produce_each(["x" * 200] * 10)
    await cluster.caught_up()
    await trio.sleep(61)
    start = cluster[1].partition().log.log_start_offset
    assert start > 5
    await cluster.until(lambda: cluster[2].partition().log.log_start_offset == start)
    assert (await cluster[1].fetch(0)).error is ErrorCode.OFFSET_OUT_OF_RANGE


@pytest.mark.slow
async def test_power_loss_after_a_flush_loses_nothing_of_what_was_flushed(make_cluster, autojump_clock):
    for seed in range(10):
        cluster = await make_cluster(1, seed=seed, log_flush_offset_checkpoint_interval_ms=1000)
        await cluster[1].produced("a", producer=(7, 0, 0))
        await trio.sleep(2)
        await cluster[1].produced("b", producer=(7, 0, 1))
        await cluster.restart(1, power=True)
        assert (await cluster[1].consumed())[0] == "a"
        assert (await cluster[1].produced("a", producer=(7, 0, 0))).duplicate
        await cluster[1].crash()


@pytest.mark.parametrize("garbage", [b"\xff\x00garbage", b"0\n2\nt 0 5\n", b""])
async def test_garbage_for_high_watermarks_is_as_good_as_no_file(make_cluster, autojump_clock, garbage):
    cluster = await make_cluster(2)
    await cluster[1].produced("a", "b", "c")
    await trio.sleep(20)
    await cluster[2].stop()
    await write_file_atomically(cluster[2].disk, f"data/{HIGH_WATERMARKS}", garbage)
    with captured_logs() as lines:
        await cluster[2].start()
        await cluster.opened()
    (said,) = [line for line in lines if line["log_level"] == "warning" and HIGH_WATERMARKS in str(line)]
    assert "high watermarks are learned again" in said["event"]
    await trio.sleep(20)
    assert cluster[2].partition().high_watermark == 3
    assert load_offsets(cluster[2].disk, f"data/{HIGH_WATERMARKS}") == {("t", 0): 3}


async def test_high_watermarks_of_a_newer_version_are_left_as_they_are(make_cluster, autojump_clock):
    cluster = await make_cluster(1)
    await cluster[1].stop()
    await write_file_atomically(cluster[1].disk, f"data/{HIGH_WATERMARKS}", b"1\n0\n")
    with pytest.raises(UnreadableCheckpointError, match="a newer quorate wrote it"):
        await cluster[1].start()


@pytest.mark.slow
async def test_many_empty_logs_are_closed_without_a_sync_for_each_and_told_in_one_line(
    make_brokers, autojump_clock
):
    cluster = make_brokers(brokers=1, min_isr=1)
    with captured_logs() as lines:
        await cluster.with_topic(replicas=(1,), partitions=300)
        topic_id = cluster.controller.topic_id()
        cluster.controller.commit(
            *(PartitionChange(topic_id=topic_id, partition_id=each, leader=NO_LEADER) for each in range(300))
        )
        await trio.sleep(1)
        synced = []
        cluster[1].disk.on_sync = synced.append
        await cluster[1].stop()
    assert not [path for path in synced if "/t-" in path], "an empty log has nothing to lose"
    assert len(synced) < 20
    told = [line for line in lines if line["log_level"] == "info"]
    assert len([line for line in told if line["event"] == "replica is now"]) <= 50
    more = sum(line["replicas"] for line in told if line["event"] == "more replicas changed their roles")
    assert len([line for line in lines if line["event"] == "replica is now"]) == more + 50
    cluster[1].disk.on_sync = None
    await cluster[1].start()
    await cluster.opened(partition_id=299)
    assert (await cluster[1].produced("a", partition_id=299)).error is ErrorCode.NONE
