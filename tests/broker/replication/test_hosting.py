import random
import uuid

import pytest
import trio
import trio.testing
from captured_logs import captured_logs

from quorate.broker.metadata.delta import apply_records
from quorate.broker.metadata.metadata_records import Partition, PartitionChange, Topic
from quorate.broker.replication.storage.log_directory import Directory
from quorate.broker.replication.storage.log_manager import LogManager
from quorate.broker.replication.storage.proofs import Proof
from quorate.error_code import ErrorCode
from quorate.log.checkpoints import HIGH_WATERMARKS, RECOVERY_POINTS, load_offsets
from quorate.quorum_state.meta_properties import load_meta_properties
from quorate.simulation.world.simulated_disk import DiskOperation

MARK = "data/.kafka_cleanshutdown"


async def closed(broker, *, clean=True):
    await broker.stop(clean=clean)
    return broker.disk.exists(MARK)


async def test_an_orderly_shutdown_leaves_its_mark_and_nothing_is_recovered(make_cluster, autojump_clock):
    cluster = await make_cluster(1)
    await cluster[1].produced("a")
    assert await closed(cluster[1])
    await cluster[1].start()
    assert not cluster[1].disk.exists(MARK)
    assert cluster[1].replicas.directories.proof.broker_epoch >= 0
    await cluster.opened()
    assert await cluster[1].consumed() == ["a"]


async def test_a_change_of_a_log_that_the_stop_cancels_is_no_disk_failure_and_leaves_no_mark(
    make_cluster, autojump_clock
):
    cluster = await make_cluster(1)
    await cluster[1].produced("a")
    opened = cluster[1].partition().log
    cluster[1].disk.stall()
    with trio.move_on_after(1):
        await opened.truncate_fully_and_start_at(opened.end_offset)
    cluster[1].disk.release()
    with captured_logs() as lines:
        assert not await closed(cluster[1])
    assert not [line for line in lines if line["log_level"] == "error"]
    await cluster[1].start()
    assert cluster[1].replicas.directories.proof.broker_epoch >= 0, (
        "it was killed, as far as the next start knows"
    )


@pytest.mark.bug("KAFKA-15375")
async def test_no_mark_is_left_by_a_broker_whose_logs_were_still_being_opened(make_cluster, autojump_clock):
    cluster = await make_cluster(1)
    await cluster[1].produced("a")
    await cluster[1].crash()

    async def release_later():
        await trio.sleep(5)
        cluster[1].disk.release()

    await cluster[1].start(unfence=False)
    cluster[1].disk.stall()
    assert not cluster[1].manager._parts.base.hosted.settled
    cluster.nursery.start_soon(release_later)
    assert not await closed(cluster[1])


@pytest.mark.bug("KAFKA-15375")
async def test_no_mark_is_left_by_a_broker_that_could_not_open_a_log(make_cluster, autojump_clock):
    cluster = await make_cluster(1)
    await cluster[1].crash()
    cluster[1].disk.fail(DiskOperation.OPEN, path_part="t-0/0000", times=100)
    await cluster[1].start(unfence=False)
    await trio.sleep(1)
    assert cluster[1].errors.pop()
    cluster[1].disk.clear_faults()
    assert not await closed(cluster[1])


async def test_shutdown_ends_though_the_disk_hangs_and_leaves_no_mark(make_cluster, autojump_clock):
    cluster = await make_cluster(1)
    cluster[1].disk.stall()
    await cluster[1].produced("a")
    with trio.fail_after(600):
        assert not await closed(cluster[1])


async def test_a_replica_that_is_taken_away_and_given_back_at_once_begins_anew(make_cluster, autojump_clock):
    cluster = await make_cluster(2)
    await cluster[1].produced("a")
    await cluster.caught_up()
    before = cluster[2].partition().log
    cluster.controller.change(replicas=(1,), isr=(1,))
    cluster.controller.change(replicas=(1, 2))
    await cluster.opened()
    await cluster.in_sync(1, 2)
    assert cluster[2].partition().log is not before
    await cluster[1].produced("b")
    await cluster.caught_up()
    assert await cluster[2].log_bytes() == await cluster[1].log_bytes()


@pytest.mark.bug("redpanda PR 7121")
async def test_a_topic_created_again_while_its_predecessor_is_opened_has_nothing_of_it(
    make_cluster, autojump_clock
):
    cluster = await make_cluster(1)
    await cluster[1].produced("old")
    await cluster[1].crash()
    await cluster[1].start()
    # Opening has begun, and waits for the disk.
    cluster.controller.delete()
    cluster.controller.create(replicas=(1,), number=2)
    await cluster.opened()
    assert cluster[1].partition().topic_id == cluster.controller.topic_id()
    assert await cluster[1].consumed() == []


async def test_a_topic_deleted_while_it_is_opened_leaves_nothing(make_brokers, autojump_clock):
    cluster = make_brokers(brokers=1, min_isr=1)
    await cluster.start()
    cluster.controller.create(replicas=(1,))
    await trio.lowlevel.checkpoint()
    cluster.controller.delete()
    await cluster.until(lambda: not cluster[1].manager._parts.base.hosted.by_name)
    assert not cluster[1].disk.exists("data/t-0")


async def test_checkpoints_of_a_deleted_topic_are_not_believed_of_its_successor(make_cluster, autojump_clock):
    cluster = await make_cluster(
        1, log_flush_offset_checkpoint_interval_ms=1000, replica_high_watermark_checkpoint_interval_ms=1000
    )
    await cluster[1].produce_each(["old"] * 20)
    disk = cluster[1].disk
    await cluster.until(lambda: load_offsets(disk, f"data/{RECOVERY_POINTS}") == {("t", 0): 20})
    await cluster.until(lambda: load_offsets(disk, f"data/{HIGH_WATERMARKS}") == {("t", 0): 20})
    cluster.controller.delete()
    cluster.controller.create(replicas=(1,), number=2)
    await cluster.opened()
    await cluster[1].produced("new")
    await cluster.restart(1)
    assert await cluster[1].consumed() == ["new"]


@pytest.mark.bug("KAFKA-15391")
async def test_a_replica_is_removed_only_after_its_flush(make_cluster, autojump_clock):
    cluster = await make_cluster(1, log_flush_offset_checkpoint_interval_ms=1000)
    disk = cluster[1].disk
    await trio.sleep(0.5)
    await cluster[1].produced("a")
    disk.stall()
    await trio.sleep(1)
    cluster.controller.delete()
    await trio.sleep(0.1)
    disk.release()
    await cluster.until(lambda: not cluster[1].manager._parts.base.hosted.by_name)
    await trio.sleep(5)
    assert not cluster[1].errors
    assert cluster[1].replicas.counts().offline_replica_count == 0
    assert not disk.exists("data/t-0")
    cluster.controller.create(replicas=(1,), number=2)
    await cluster.opened()
    assert not (await cluster[1].produced("b")).error


async def test_settings_of_a_topic_hold_for_replicas_that_are_open(make_cluster, autojump_clock):
    cluster = await make_cluster()
    await cluster[1].produced("a")
    cluster.controller.configure(max_message_bytes=100)
    assert (await cluster[1].produced("x" * 200)).error is ErrorCode.MESSAGE_TOO_LARGE
    cluster.controller.configure(max_message_bytes=10_000, segment_bytes=300)
    await cluster[1].produce_each(["x" * 200] * 3)
    await cluster.caught_up()
    for broker in (1, 2, 3):
        assert cluster[broker].partition().log.segment_count == 4


async def test_settings_that_change_while_a_log_is_opened_are_not_missed(make_brokers, autojump_clock):
    cluster = make_brokers(brokers=1, min_isr=1)
    await cluster.start()
    cluster.controller.create(replicas=(1,))
    await trio.testing.wait_all_tasks_blocked()
    cluster.controller.configure(max_message_bytes=100)
    await cluster.opened()
    assert (await cluster[1].produced("x" * 200)).error is ErrorCode.MESSAGE_TOO_LARGE


async def test_a_lower_min_isr_lets_what_waits_go(make_cluster, autojump_clock):
    cluster = await make_cluster(replicas=(1, 2), isr=(1,))
    cluster.cut_off(1)
    pending = cluster[1].produce("a", acks=1)
    assert pending.done
    assert await cluster[1].consumed() == []
    cluster.controller.configure(min_insync_replicas=1)
    assert await cluster[1].consumed() == ["a"]


async def test_strays_of_a_broker_that_was_away_are_removed(make_cluster, autojump_clock):
    cluster = await make_cluster(2)
    await cluster[2].crash()
    cluster.controller.delete()
    await cluster[2].start()
    await cluster.until(lambda: not cluster[2].disk.exists("data/t-0"))


# What a broker proves of its life before


async def epoch_proved(broker):
    await broker.start()
    return broker.replicas.directories.proof.broker_epoch


async def test_a_broker_that_was_killed_has_all_its_data_while_its_host_runs_on(make_cluster, autojump_clock):
    cluster = await make_cluster(1)
    for _ in range(3):
        epoch = cluster[1].manager._parts.base.metadata.broker_epoch
        await cluster[1].produced("a")
        await cluster[1].crash()
        assert await epoch_proved(cluster[1]) == epoch
        await cluster.opened()
    assert await cluster[1].consumed() == ["a"] * 3


async def test_a_broker_whose_host_lost_power_proves_nothing(make_cluster, autojump_clock):
    cluster = await make_cluster(1)
    await cluster[1].crash(power=True)
    assert await epoch_proved(cluster[1]) == -1
    await cluster[1].crash()
    cluster[1].disk.lose_power(random.Random(1))
    assert await epoch_proved(cluster[1]) == -1, "lost by the host after the process had ended"


async def test_an_orderly_shutdown_is_proved_across_a_boot_and_by_whoever_is_killed_before_it_registers(
    make_cluster, autojump_clock
):
    cluster = await make_cluster(1)
    epoch = cluster[1].manager._parts.base.metadata.broker_epoch
    assert await closed(cluster[1])
    disk = cluster[1].disk
    disk.lose_power(random.Random(1))
    runtime = cluster[1].host.runtime()
    directory = Directory(path="data", id=load_meta_properties(disk, "data").directory_id)
    for _ in range(2):
        logs = await LogManager.open(disk, [directory], now_ms=lambda: 0, boot_id=runtime.boot_id)
        assert logs.proof.broker_epoch == epoch
        disk.crash_process()
    disk.lose_power(random.Random(1))
    boot_id = cluster[1].host.runtime().boot_id
    logs = await LogManager.open(disk, [directory], now_ms=lambda: 0, boot_id=boot_id)
    assert logs.proof.broker_epoch == -1, "it began to write, for all that is known"


async def test_a_broker_whose_disk_failed_proves_nothing(make_cluster, autojump_clock):
    cluster = await make_cluster(1)
    cluster[1].disk.fail(DiskOperation.APPEND, path_part="t-0")
    assert (await cluster[1].produced("a")).error is ErrorCode.KAFKA_STORAGE_ERROR
    await cluster[1].crash()
    assert await epoch_proved(cluster[1]) == -1


async def test_a_broker_that_could_not_write_a_checkpoint_proves_nothing(make_cluster, autojump_clock):
    cluster = await make_cluster(1, replica_high_watermark_checkpoint_interval_ms=1000)
    cluster[1].disk.fail(DiskOperation.SYNC, path_part=HIGH_WATERMARKS)
    await cluster[1].produced("a")
    await trio.sleep(2)
    cluster[1].manager.registered(cluster[1].manager._parts.base.metadata.broker_epoch)
    await cluster[1].crash()
    assert await epoch_proved(cluster[1]) == -1


async def test_a_new_folder_of_log_dirs_takes_nothing_from_what_the_others_prove(
    make_cluster, autojump_clock
):
    cluster = await make_cluster(1)
    manager = cluster[1].manager
    before = Proof(
        manager._parts.base.metadata.broker_epoch, frozenset(manager.replicas.directories.online_ids)
    )
    await cluster[1].crash()
    await cluster[1].start(log_dirs=("data", "more"))
    manager = cluster[1].manager
    assert manager.replicas.directories.proof == before
    after = Proof(
        manager._parts.base.metadata.broker_epoch, frozenset(manager.replicas.directories.online_ids)
    )
    assert after.directories > before.directories
    await cluster[1].crash()
    await cluster[1].start(log_dirs=("data", "more"))
    assert cluster[1].replicas.directories.proof == after


async def test_metadata_that_arrives_while_the_broker_ends_begins_nothing(make_cluster, autojump_clock):
    cluster = await make_cluster(2)
    manager = cluster[1].manager
    image = cluster.controller.image.copy()
    cluster[1]._scope.cancel()

    def hear(number):
        topic_id = uuid.UUID(int=number)
        records = [
            Topic(name=f"late-{number}", topic_id=topic_id),
            Partition(topic_id=topic_id, partition_id=0, replicas=(1, 2), isr=(1, 2), leader=number % 2 + 1),
            PartitionChange(topic_id=cluster.controller.topic_id(), partition_id=0, leader=number % 2 + 1),
        ]
        delta = apply_records(image, records, base_offset=image.offset + 1, epoch=1)
        manager.intake.apply(delta, image)

    for number in range(2, 40):
        hear(number)
        await trio.lowlevel.checkpoint()
    assert cluster[1]._ended.is_set()
    assert not cluster[1].errors
