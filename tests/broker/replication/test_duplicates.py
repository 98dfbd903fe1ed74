"""The same batch of an idempotent producer is never accepted twice, though clocks, leaders and disks fail."""

import random
import struct
from collections import Counter

import pytest
import trio
from crc32c import crc32c

from quorate.broker.replication.foundation.errors import PartitionError
from quorate.broker.replication.foundation.requests import ProduceItem
from quorate.broker.replication.producing.producer_snapshot import decode_steps
from quorate.broker.replication.producing.producer_state import KeptBatch, ProducerState
from quorate.broker.wire.budget import MemoryBudget
from quorate.error_code import ErrorCode
from quorate.log.batches.batch import read_headers
from quorate.runtime.slices import at_once
from tests.broker.replication.conftest import batch

DAY_S = 86_400.0
JUMPS_MS = tuple(sign * step for sign in (-1, 1) for step in (3_600_000, 86_400_000, 30 * 86_400_000))


async def sequences_of(broker):
    """(producer id, epoch, first sequence) of every batch in its log."""
    data = await broker.log_bytes()
    return [
        (header.producer_id, header.producer_epoch, header.base_sequence)
        for header in read_headers(data, dense=False)
        if header.producer_id >= 0
    ]


@pytest.mark.slow
@pytest.mark.costly
@pytest.mark.parametrize("silent_broker", [1, 2])
async def test_a_monotonic_clock_that_jumps_a_month_makes_no_batch_new(
    make_cluster, autojump_clock, silent_broker
):
    """A paused machine that comes back, or a tool that fakes time: to the leader, or to its follower that
    leads afterwards, the producer has been silent for long, and it is about to send its batch again."""
    cluster = await make_cluster(2)
    sent = await cluster[1].produced("a", producer=(7, 0, 0))
    await cluster.caught_up(1, 2)
    autojump_clock.jump(30 * DAY_S)
    await trio.sleep(200)  # every chore has run
    if silent_broker == 2:
        await cluster.lead(2, isr=(1, 2))
    again = await cluster[silent_broker].produced("a", producer=(7, 0, 0))
    assert (again.error, again.base_offset, again.duplicate) == (ErrorCode.NONE, sent.base_offset, True)
    assert await sequences_of(cluster[silent_broker]) == [(7, 0, 0)]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(12))
async def test_retries_under_jumping_clocks_add_nothing(make_cluster, autojump_clock, seed):
    """Answers get lost, so each batch is sent until an answer arrives, while wall clocks jump by hours and
    days, monotonic ones ahead, leaders change, and brokers restart from their snapshots of producers."""
    draw = random.Random(seed)
    cluster = await make_cluster(seed=seed, log_flush_offset_checkpoint_interval_ms=500)
    sequence = 0
    acknowledged: list[tuple[int, int]] = []
    for _ in range(60):
        for _ in range(draw.choice((0, 1, 1, 2))):
            await disturb(cluster, autojump_clock, draw)
        while True:
            leader = cluster[cluster.controller.state().leader]
            try:
                result = await leader.produced(
                    f"value {sequence}", producer=(7, 0, sequence), timeout_ms=3000
                )
            except PartitionError:
                result = None
            if result is not None and not result.error and draw.random() < 0.6:
                break
            await disturb(cluster, autojump_clock, draw)
        acknowledged.append((sequence, result.base_offset))
        sequence += 1
    await cluster.in_sync(1, 2, 3)
    await cluster.caught_up()
    leader = cluster[cluster.controller.state().leader]
    found = await sequences_of(leader)
    twice = [each for each, times in Counter(found).items() if times > 1]
    assert not twice, f"in the log more than once: {twice}"
    assert found == [(7, 0, each) for each in range(sequence)]
    assert len({offset for _, offset in acknowledged}) == sequence


async def disturb(cluster, clock, draw):
    broker = cluster[draw.randint(1, 3)]
    match draw.choice(("wall", "wall", "monotonic", "elect", "restart", "crash", "wait")):
        case "wall":
            broker.host.wall_clock.offset_ms += draw.choice(JUMPS_MS)
        case "monotonic":
            clock.jump(draw.choice((3600.0, DAY_S, 30 * DAY_S)))
        case "elect":
            state = cluster.controller.state()
            if broker.id in state.isr:
                cluster.controller.elect(broker.id)
        case "restart":
            await broker.stop()
            await broker.start()
        case "crash":
            await broker.crash()
            cluster.controller.fence(broker.id)
            await broker.start()
        case "wait":
            await trio.sleep(draw.uniform(0, 2))
    await cluster.until(lambda: cluster.controller.state().leader > 0)
    await cluster.opened()
    await cluster.in_sync(1, 2, 3)


async def test_a_batch_sent_again_is_answered_with_the_time_that_it_got_at_first(
    make_cluster, autojump_clock
):
    """message.timestamp.type=LogAppendTime, as Kafka: by the leader, after its restart from what it saved of
    producers, and by the next leader."""
    cluster = await make_cluster(2, log_flush_offset_checkpoint_interval_ms=500)

    async def times(broker, *sequences):
        found = []
        for sequence in sequences:
            item = ProduceItem("t", 0, batch("a", producer=(7, 0, sequence)))
            pending = await cluster[broker].replicas.produces.produce(
                [item], acks=-1, timeout_ms=5000, zstd=True, memory=MemoryBudget(1 << 20)
            )
            await pending.wait()
            (result,) = pending.results()
            assert result.error is ErrorCode.NONE
            found.append(result.append_time_ms)
        return found

    own = await times(1, 0)
    assert own == [-1], "the records have their producer's time"
    cluster.controller.configure(message_timestamp_type="LogAppendTime")
    first = await times(1, 1)
    await trio.sleep(60)
    second = await times(1, 2)
    assert second[0] >= first[0] + 60_000
    await trio.sleep(5)
    expected = own + first + second
    assert await times(1, 0, 1, 2) == expected
    await cluster.caught_up(1, 2)
    await cluster[1].crash()
    cluster.controller.fence(1)
    await cluster.opened()
    assert await times(2, 0, 1, 2) == expected
    await cluster[1].start()
    await cluster.caught_up(1, 2)
    await cluster.lead(1, isr=(1, 2))
    assert await times(1, 0, 1, 2) == expected


def test_a_snapshot_of_the_version_before_is_read_without_times():
    """Version 2, made by hand."""
    body = struct.pack(">i", 1) + struct.pack(">qhqb", 7, 3, 500, 2)
    body += struct.pack(">iiqq", 10, 11, 100, 101) + struct.pack(">iiqq", 12, 12, 102, 102)
    data = struct.pack(">3sbI", b"QPS", 2, crc32c(body)) + body
    state = ProducerState(now_ms=lambda: 0)
    at_once(decode_steps(state, data))
    producer = state.producers[7]
    assert (producer.epoch, state.silent_ms(producer)) == (3, 500)
    assert list(producer.batches) == [KeptBatch(10, 11, 100, 101, -1), KeptBatch(12, 12, 102, 102, -1)]
