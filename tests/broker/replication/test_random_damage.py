"""Bits flip in old segments while brokers crash and leaders change: nothing acknowledged is lost while one
member of the ISR is whole, and in the end every replica is."""

import random

import pytest
import trio

from quorate.broker.replication.foundation.errors import PartitionError

SEEDS = 8


def old_batches(broker):
    """(path, start, size) of each batch in the closed segments of the replica."""
    held = broker.partition().log
    for base in held.bases():
        path = f"{held.folder}/{base:020}.log"
        data, position = broker.disk.content(path), 0
        while position < len(data):
            size = int.from_bytes(data[position + 8 : position + 12], "big") + 12
            yield path, position, size
            position += size


def whole(cluster):
    """Return whether all replicas are in sync, and none has damage that is known."""
    return sorted(cluster.controller.state().isr) == [1, 2, 3] and all(
        broker.running and broker.replicas.counts().damaged_replica_count == 0
        for broker in cluster.brokers.values()
    )


async def run(cluster, source, seconds=25):
    """Return the acknowledged values, by offset, and how many bits have flipped."""
    await cluster.start()
    cluster.controller.create()
    cluster.controller.configure(segment_bytes=700, index_interval_bytes=200)
    await cluster.opened()
    acknowledged, sent = {}, 0
    flips = 0
    end = trio.current_time() + seconds
    while trio.current_time() < end:
        await trio.sleep(source.random() * 0.4)
        leader = cluster[cluster.controller.state().leader] if cluster.controller.state().leader > 0 else None
        match source.choice(("produce",) * 8 + ("rot",) * 3 + ("crash", "stop", "elect")):
            case "produce" if leader is not None and leader.running:
                for _ in range(source.randrange(1, 8)):
                    sent += 1
                    value = f"value {sent}"
                    try:
                        result = await leader.produced(value, timeout_ms=500)
                    except PartitionError:
                        break
                    if not result.error:
                        acknowledged[result.base_offset] = value
            case "rot" if whole(cluster) and not await is_rotten(cluster):
                broker = cluster[source.choice((1, 2, 3))]
                batches = list(old_batches(broker))
                if batches:
                    path, start, size = source.choice(batches)
                    flips += 1
                    broker.disk.flip(path, start + source.randrange(size), bit=source.randrange(8))
            case "crash" | "stop" as how:
                broker = cluster[source.choice((1, 2, 3))]
                if (
                    all(each.running for each in cluster.brokers.values())
                    and len(cluster.controller.state().isr) == 3
                ):
                    if how == "crash":
                        await broker.crash()
                        cluster.controller.fence(broker.id)
                    else:
                        await broker.stop()
                    await trio.sleep(source.random() * 2)
                    await broker.start()
            case "elect" if leader is not None:
                cluster.controller.elect(source.choice(cluster.controller.state().isr))
    await cluster.until(lambda: whole(cluster), within_s=300)
    return acknowledged, flips


async def is_rotten(cluster):
    """Whether anything that flipped is still there, known or not."""
    for broker in cluster.brokers.values():
        held = broker.partition().log
        for base in held.bases():
            findings = await held.verify_segment(base, pace=unpaced)
            if findings is not None and findings.damaged:
                return True
    return False


async def unpaced(size):
    """Let the scrub read as fast as it can."""


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(SEEDS))
async def test_nothing_acknowledged_is_lost_to_flipped_bits(make_brokers, autojump_clock, seed):
    source = random.Random(seed)
    cluster = make_brokers(
        seed=seed,
        scrub_interval_ms=2000,
        scrub_io_max_bytes_per_second=1 << 20,
        replica_refetch_damaged=True,
        replica_lag_time_max_ms=3000,
    )
    acknowledged, flips = await run(cluster, source)
    # The last flip may not have been looked at yet.
    await trio.sleep(80)
    await cluster.until(lambda: whole(cluster), within_s=300)
    await cluster.opened()
    await cluster.caught_up()
    assert flips and not await is_rotten(cluster)
    logs = [await each.log_bytes() for each in cluster.brokers.values()]
    assert logs[0] == logs[1] == logs[2]
    leader = cluster[cluster.controller.state().leader]
    values = await leader.consumed()
    assert {offset: values[offset] for offset in acknowledged} == acknowledged
