"""A topic that shrinks and grows again: nothing of a partition that is gone comes back under its number."""

import random

import pytest
import trio

from quorate.broker.controller.operations.number_of_partitions import create_partitions, shrink_topics
from quorate.broker.controller.rpc import (
    CreatePartitionsRequest,
    FewerPartitions,
    MorePartitions,
    ShrinkTopicsRequest,
)
from quorate.broker.metadata.image import MetadataImage
from quorate.broker.replication.foundation.errors import PartitionError
from quorate.broker.replication.storage.folders import (
    PARTITION_METADATA,
    PartitionIdentity,
    load_partition_metadata,
)
from quorate.runtime.slices import at_once


def shrinking(image: MetadataImage, count=1):
    request = ShrinkTopicsRequest(topics=(FewerPartitions(name="t", count=count),))
    return shrink_topics(image, request).records


def growing(image: MetadataImage, count=2):
    request = CreatePartitionsRequest(topics=(MorePartitions(name="t", count=count),))
    return at_once(create_partitions(image, request)).records


def regrow(controller, *, at_once: bool) -> None:
    """Partition 1 goes, and another one gets its number."""
    later = controller.image.copy()
    gone = shrinking(later)
    for offset, record in enumerate(gone, controller.end_offset):
        later.apply(record, offset=offset, epoch=1)
    new = growing(later)
    assert gone
    assert new
    if at_once:
        controller.commit(*gone, *new)
    else:
        controller.commit(*gone)
        controller.commit(*new)


async def settled(cluster, *broker_ids: int) -> None:
    """They are in their roles of the new partition, and no folder of another one is left."""
    await cluster.opened("t", 1)
    state = cluster.controller.state("t", 1)
    await cluster.until(lambda: all(cluster[each].manager._parts.base.hosted.settled for each in broker_ids))
    for each in broker_ids:
        assert load_partition_metadata(cluster[each].disk, "data/t-1") == PartitionIdentity(
            cluster.controller.topic_id(), cluster.controller.image.topic("t").first_epoch(1)
        )
    assert state.leader_epoch > 0


@pytest.mark.parametrize("at_once", [True, False], ids=["in one delta", "in two"])
async def test_brokers_that_run_begin_a_partition_of_a_gone_ones_number_anew(
    at_once: bool, make_cluster, autojump_clock
) -> None:
    cluster = await make_cluster(2, partitions=2)
    await cluster[1].produced("kept")
    await cluster[1].produced("gone", partition_id=1)
    before = cluster[1].partition("t", 1)
    regrow(cluster.controller, at_once=at_once)
    await settled(cluster, 1, 2)
    assert cluster[1].partition("t", 1) is not before
    leader = cluster[cluster.controller.state("t", 1).leader]
    assert await leader.consumed(partition_id=1) == []
    await leader.produced("new", partition_id=1)
    assert await leader.consumed(partition_id=1) == ["new"]
    assert await cluster[1].consumed() == ["kept"]


@pytest.mark.parametrize("leads", [True, False], ids=["and leads", "and follows"])
@pytest.mark.parametrize("power", [True, False], ids=["after a power loss", "after a kill"])
async def test_a_broker_that_was_down_during_both_has_nothing_of_the_gone_partition(
    leads: bool, power: bool, make_cluster, autojump_clock
) -> None:
    cluster = await make_cluster(2, partitions=2)
    await cluster[1].produce_each(["gone"] * 3, partition_id=1)
    await cluster.until(
        lambda: cluster[2].partition("t", 1).log.end_offset == cluster[1].partition("t", 1).log.end_offset
    )
    cluster.controller.fence(2)
    await cluster[2].crash(power=power)
    regrow(cluster.controller, at_once=True)
    if not leads:
        await cluster.until(lambda: not cluster[1].partition("t", 1).log.end_offset)
        await cluster[1].produced("new", partition_id=1, acks=1)
    await cluster[2].start()
    if leads:
        cluster.controller.change(partition_id=1, isr=(1, 2))
        cluster.controller.elect(2, partition_id=1)
    await settled(cluster, 1, 2)
    leader = cluster[2 if leads else 1]
    await leader.produced("later", partition_id=1)
    expected = ["later"] if leads else ["new", "later"]
    await cluster.until(lambda: cluster[2].partition("t", 1).log.end_offset == len(expected))
    assert await leader.consumed(partition_id=1) == expected
    assert await cluster[2].log_bytes("t", 1) == await cluster[1].log_bytes("t", 1)


async def test_a_partition_that_began_late_is_its_own_after_a_restart(make_cluster, autojump_clock) -> None:
    cluster = await make_cluster(1, partitions=2)
    regrow(cluster.controller, at_once=True)
    await settled(cluster, 1)
    await cluster[1].produced("new", partition_id=1)
    for clean in (True, False):
        if clean:
            await cluster[1].stop()
        else:
            await cluster[1].crash()
        assert cluster[1].disk.exists(f"data/t-1/{PARTITION_METADATA}")
        await cluster[1].start()
        await cluster.opened("t", 1)
        assert await cluster[1].consumed(partition_id=1) == ["new"]


async def test_an_empty_log_of_a_gone_partition_is_not_taken_for_the_new_ones(
    make_cluster, autojump_clock
) -> None:
    """Retention had removed its records: no leader epoch in it tells it from the new one, but its start."""
    cluster = await make_cluster(1, partitions=2)
    await cluster[1].produced("gone", partition_id=1)
    held = cluster[1].partition("t", 1).log
    await held.truncate_fully_and_start_at(held.end_offset)
    await cluster[1].crash()
    regrow(cluster.controller, at_once=True)
    await cluster[1].start()
    await settled(cluster, 1)
    assert cluster[1].partition("t", 1).log.log_start_offset == 0


@pytest.mark.parametrize("seed", range(12))
async def test_whatever_happens_only_records_of_the_present_partition_are_read(
    seed: int, make_cluster, autojump_clock
) -> None:
    """Topics shrink and grow, leaders change, brokers are killed and late with their metadata."""
    draw = random.Random(seed)
    cluster = await make_cluster(partitions=3, min_isr=1, seed=seed)
    controller, life = cluster.controller, 0
    for step in range(25):
        broker = cluster[draw.randint(1, 3)]
        match draw.choice(["regrow", "regrow", "shrink", "grow", "down", "up", "hold", "release", "produce"]):
            case "regrow" if len(controller.image.partitions(controller.topic_id())) > 1:
                regrow(controller, at_once=draw.random() < 0.5)
                life += 1
            case "shrink":
                controller.commit(*shrinking(controller.image, draw.randint(1, 3)))
                life += 1
            case "grow":
                controller.commit(*growing(controller.image, draw.randint(1, 4)))
            case "down" if broker.running and sum(each.running for each in cluster.brokers.values()) > 1:
                controller.fence(broker.id)
                await broker.crash(power=draw.random() < 0.5)
            case "up" if not broker.running:
                await broker.start()
            case "hold" if broker.running:
                broker.hold_metadata()
            case "release" if broker.running:
                broker.release_metadata()
            case "produce" if broker.running:
                for partition_id in range(1, len(controller.image.partitions(controller.topic_id()))):
                    try:
                        broker.produce(f"{life}.{step}", partition_id=partition_id, acks=1)
                    except PartitionError:
                        continue
            case _:
                pass
        await trio.sleep(draw.choice([0, 0.01, 0.5]))
    for broker in cluster.brokers.values():
        if not broker.running:
            await broker.start()
        broker.release_metadata()
    life += 1
    count = len(controller.image.partitions(controller.topic_id()))
    regrow(controller, at_once=True) if count > 1 else controller.commit(*growing(controller.image))
    for partition_id in range(1, len(controller.image.partitions(controller.topic_id()))):
        await cluster.opened("t", partition_id)
        leader = cluster[controller.state("t", partition_id).leader]
        assert not [
            value
            for value in await leader.consumed(partition_id=partition_id)
            if int(value.split(".")[0]) < life
        ], partition_id
