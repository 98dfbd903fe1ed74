"""A consumer that waits asks the same again and again: that costs no read, and hides no change."""

import struct
from types import SimpleNamespace

import pytest
import trio
import trio.lowlevel

from quorate.broker.replication.serving.partition_reader import PartitionReader
from quorate.broker.wire.codecs.fetch_codec import decode_fetch_response_steps
from quorate.error_code import ErrorCode
from quorate.runtime import at_once
from quorate.runtime.network import Address

WAIT_MS = 400
FRESH_ID = 7


def request(number, *offsets, wait_ms=WAIT_MS):
    """Fetch, version 11, of the first partitions of `t`."""
    body = struct.pack(">hhih8s", 1, 11, number, 8, b"consumer")
    body += struct.pack(">iiiibii", -1, wait_ms, 1, 50 << 20, 0, 0, -1)
    body += struct.pack(">ih1si", 1, 1, b"t", len(offsets))
    for partition, offset in enumerate(offsets):
        body += struct.pack(">iiqqi", partition, -1, offset, -1, 1 << 20)
    body += struct.pack(">ih", 0, 0)
    return struct.pack(">i", len(body)) + body


class Consumer:
    """One connection."""

    def __init__(self, stream):
        self.stream = stream
        self.number = 0

    async def ask(self, *offsets, number=None):
        """Return the frame of the answer behind its correlation id."""
        self.number = self.number + 1 if number is None else number
        await self.stream.send([request(self.number, *offsets)])
        return await self.answer()

    async def answer(self):
        head = await self._exactly(8)
        size, number = struct.unpack(">ii", head)
        assert number == self.number
        return await self._exactly(size - 4)

    async def _exactly(self, size):
        data = b""
        while len(data) < size:
            piece = await self.stream.receive_some(size - len(data))
            assert piece, "the connection is closed"
            data += piece
        return data


@pytest.fixture
def reads(monkeypatch):
    """Every read of a partition."""
    seen = []
    read = PartitionReader.read

    async def counted(self, item, options, **limits):
        seen.append(item)
        return await read(self, item, options, **limits)

    monkeypatch.setattr(PartitionReader, "read", counted)
    return seen


@pytest.fixture
async def cluster(make_cluster):
    cluster = await make_cluster(2, partitions=3)
    await cluster[1].produced("a")
    await cluster.caught_up()
    return cluster


async def connected(cluster, name="consumer", broker=1):
    return Consumer(await cluster.network.for_node(name).connect(Address(f"b{broker}", 9092)))


def partitions(frame):
    (topic,) = at_once(decode_fetch_response_steps(memoryview(frame), 11)).topics
    return topic.partitions


async def waiting(cluster):
    """A consumer at the end of a log that has asked often enough to be known."""
    consumer = await connected(cluster)
    for _ in range(4):
        last = await consumer.ask(1)
    (part,) = partitions(last)
    assert (part.high_watermark, part.error, part.records) == (1, 0, ())
    return consumer, last


async def test_a_poll_asked_again_reads_nothing_and_ends_in_time(cluster, reads, autojump_clock):
    consumer, last = await waiting(cluster)
    reads.clear()
    for _ in range(3):
        began = trio.current_time()
        assert await consumer.ask(1) == last
        assert WAIT_MS / 1000 <= trio.current_time() - began < WAIT_MS / 1000 + 0.1
    assert [item for item in reads if item.fetch_offset == 1 and item.max_bytes == 1 << 20] == []


CHANGES = {
    "records": lambda cluster: cluster[1].produced("b"),
    "the log start": lambda cluster: cluster[1].deleted(1),
    "the leader": lambda cluster: elected(cluster, 2),
    "the leader and back": lambda cluster: elected(cluster, 2, 1),
    "the topic is deleted": lambda cluster: deleted(cluster),
    "the topic is another": lambda cluster: deleted(cluster, again=True),
    "the replica has failed": lambda cluster: failed(cluster),
    "records are damaged": lambda cluster: damaged(cluster),
    "the broker is cut off": lambda cluster: cut_off(cluster),
    "nothing": lambda cluster: cluster.caught_up(),
}


async def elected(cluster, *leaders):
    for leader in leaders:
        await cluster.lead(leader)
    await trio.sleep(1)


async def deleted(cluster, *, again=False):
    cluster.controller.delete()
    await trio.sleep(1)
    if again:
        cluster.controller.create(replicas=(1, 2), number=2)
        await cluster.opened()


async def failed(cluster):
    cluster[1].partition().fail("the disk is gone")


async def damaged(cluster):
    partition = cluster[1].partition()
    partition.damage.found("x", [SimpleNamespace(path="x", position=0, start_offset=0, end_offset=9)])


async def cut_off(cluster):
    cluster.cut_off(2)
    await trio.sleep(20)
    cluster[1].replicas.lookups._controller_silent_s = lambda: 100.0


@pytest.mark.parametrize("during", [False, True], ids=["between two polls", "during a poll"])
@pytest.mark.parametrize("change", CHANGES)
async def test_a_poll_asked_again_is_answered_as_a_new_one(cluster, change, during, nursery, autojump_clock):
    consumer, _ = await waiting(cluster)
    if during:
        consumer.number += 1
        await consumer.stream.send([request(consumer.number, 1)])
        await trio.sleep(0.01)
    with trio.move_on_after(60) as scope:
        await CHANGES[change](cluster)
    assert not scope.cancelled_caught
    if during:
        await consumer.answer()
    fresh = await connected(cluster, "another")
    expected = await fresh.ask(1, number=FRESH_ID)
    for _ in range(4):
        assert await consumer.ask(1) == expected


async def test_new_records_end_a_poll_that_is_asked_again(cluster, nursery, autojump_clock):
    consumer, last = await waiting(cluster)
    consumer.number += 1
    await consumer.stream.send([request(consumer.number, 1)])
    await trio.sleep(WAIT_MS / 2000)
    began = trio.current_time()
    await cluster[1].produced("b")
    (part,) = partitions(await consumer.answer())
    assert trio.current_time() - began < 0.1
    assert (part.high_watermark, bool(part.records)) == (2, True)
    assert await consumer.ask(2) != last


async def test_a_consumer_that_asks_for_something_else_is_answered_that(cluster, autojump_clock):
    consumer, last = await waiting(cluster)
    two = await consumer.ask(1, 0)
    assert [part.index for part in partitions(two)] == [0, 1]
    assert bool(partitions(await consumer.ask(0))[0].records)
    assert partitions(await consumer.ask(5))[0].error == ErrorCode.OFFSET_OUT_OF_RANGE
    for _ in range(4):
        assert await consumer.ask(1) == last


async def test_a_consumer_that_leaves_is_waited_for_no_longer(cluster, autojump_clock):
    consumer, _ = await waiting(cluster)
    await consumer.stream.send([request(consumer.number + 1, 1, wait_ms=WAIT_MS)])
    await trio.sleep(0.01)
    assert cluster[1].replicas.counts().delayed_fetches == 1 + 1, "it, and the follower"
    consumer.stream.close()
    await trio.sleep(0.01)
    assert cluster[1].replicas.counts().delayed_fetches == 1
    await cluster[1].produced("b")
