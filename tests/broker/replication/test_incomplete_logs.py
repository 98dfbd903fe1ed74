"""A log that is shorter after a kill than it was before: its replica does not lead, and no replica cuts
acknowledged records. All are above the recovery point, where a start cuts them after a power loss."""

import pytest
import trio
from captured_logs import captured_logs

from quorate.broker.metadata.metadata_records import NO_LEADER
from quorate.broker.replication.foundation.errors import PartitionError
from quorate.error_code import ErrorCode
from quorate.log.checkpoints import HIGH_WATERMARKS, load_offsets
from tests.broker.replication.conftest import FIRST, refused_with

VALUES = [f"{value}" for value in range(5)]


async def filled(make_cluster, brokers=3):
    """Five records, which every replica has and knows to be committed. Broker 1's directory says so soon."""
    cluster = await make_cluster(brokers, replica_high_watermark_checkpoint_interval_ms=500)
    await cluster[1].produce_each(VALUES)
    await cluster.caught_up()
    return cluster


async def killed(cluster, *broker_ids):
    for each in broker_ids:
        await cluster[each].crash()
        cluster.controller.fence(each)


def flip_third_batch(disk):
    disk.flip(FIRST, disk.open(FIRST).size // 2, bit=1)


def remove_log(disk):
    for name in disk.list("data/t-0"):
        if name.startswith("0000"):
            disk.remove(f"data/t-0/{name}")


def cut_at_a_batch(disk):
    disk.open(FIRST).truncate(disk.open(FIRST).size * 2 // 5)


def remove_folder(disk):
    for name in disk.list("data/t-0"):
        disk.remove(f"data/t-0/{name}")
    disk.remove_folder("data/t-0")


SHORTENED = pytest.mark.parametrize("shorten", [flip_third_batch, cut_at_a_batch, remove_log, remove_folder])


@SHORTENED
async def test_a_replica_whose_log_lost_records_while_its_broker_was_down_does_not_lead(
    make_cluster, shorten, autojump_clock
):
    """It was killed last, proves what it had, and is back first. The others cut nothing and lead, and it is
    whole again without help."""
    cluster = await filled(make_cluster)
    await trio.sleep(2)
    assert load_offsets(cluster[1].disk, f"data/{HIGH_WATERMARKS}") == {("t", 0): 5}
    await killed(cluster, 3, 2, 1)
    shorten(cluster[1].disk)
    with captured_logs() as lines:
        await cluster[1].start()
        await trio.sleep(5)
    assert cluster.controller.state().leader in (1, NO_LEADER)
    with refused_with(ErrorCode.KAFKA_STORAGE_ERROR):
        cluster[1].partition()
    assert cluster[1].replicas.counts().damaged_replica_count == 1
    (line,) = [line for line in lines if line["event"] == "a replica is damaged"]
    assert "only killed" in line["reason"]
    assert line["remedy"]
    await cluster.start(2, 3)
    await cluster.in_sync(1, 2, 3)
    await cluster.caught_up()
    assert cluster.controller.state().leader != 1
    leader = cluster[cluster.controller.state().leader]
    assert await leader.consumed() == VALUES
    assert cluster[1].replicas.counts().damaged_replica_count == 0


@SHORTENED
async def test_a_replica_that_nobody_counts_on_is_cut_and_follows(make_cluster, shorten, autojump_clock):
    cluster = await filled(make_cluster)
    await trio.sleep(2)
    await killed(cluster, 1)
    shorten(cluster[1].disk)
    await cluster[1].start()
    await cluster.in_sync(1, 2, 3)
    await cluster.caught_up()
    assert await cluster[2].consumed() == VALUES


async def test_a_sole_replica_does_not_go_on_with_fewer_records_than_it_acknowledged(
    make_cluster, autojump_clock
):
    """Until a person says so: without the mark of the page cache the broker counts as one that may have lost
    records."""
    cluster = await filled(make_cluster, 1)
    await killed(cluster, 1)
    flip_third_batch(cluster[1].disk)
    for _ in range(2):
        await cluster[1].start()
        await trio.sleep(5)
        with pytest.raises(PartitionError):
            cluster[1].partition()
        await cluster[1].stop()
    cluster[1].disk.remove("data/.quorate_page_cache")
    await cluster[1].start()
    await cluster.opened()
    assert await cluster[1].consumed() == VALUES[:2]


async def test_a_torn_append_of_a_killed_broker_is_cut_and_it_leads(make_cluster, autojump_clock):
    """It was not acknowledged, as no follower had it."""
    cluster = await filled(make_cluster)
    cluster.cut_off(1)
    cluster[1].produce("torn")
    await killed(cluster, 3, 2, 1)
    cluster.heal()
    disk = cluster[1].disk
    disk.open(FIRST).truncate(disk.open(FIRST).size - 1)
    await cluster[1].start()
    await cluster.opened()
    assert cluster.controller.state().leader == 1
    await cluster.start(2, 3)
    await cluster.in_sync(1, 2, 3)
    await cluster.until(lambda: cluster[1].partition().high_watermark == 5)
    assert await cluster[1].consumed() == VALUES


async def test_records_that_a_power_loss_took_are_cut(make_cluster, autojump_clock):
    """The broker proves nothing then. If no other is left, it leads with the rest, and says so."""
    cluster = await filled(make_cluster, 1)
    await cluster[1].manager._parts.storage.upkeep.flush_all()
    assert not (await cluster[1].produced("lost")).error
    await cluster.restart(1, power=True, fence=True)
    assert (await cluster[1].consumed())[:5] == VALUES


async def test_a_topic_made_again_is_not_taken_for_one_whose_folder_is_gone(make_cluster, autojump_clock):
    """The checkpoint names the high watermark of the one before, which was removed in order."""
    cluster = await filled(make_cluster, 1)
    await trio.sleep(2)
    cluster.controller.delete()
    await cluster.until(lambda: not cluster[1].disk.exists("data/t-0"))
    await trio.sleep(2)
    await killed(cluster, 1)
    cluster.controller.create(replicas=(1,), number=2, isr=(1,))
    await cluster[1].start()
    await cluster.opened()
    assert not (await cluster[1].produced("new")).error
