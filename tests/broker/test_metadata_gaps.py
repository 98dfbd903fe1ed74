"""What each node does with 100,000 partitions of metadata holds nobody up, by the processor's time."""

from collections.abc import Iterator, Sequence

import pytest
import trio
from gaps import BUDGET_MS, within_gap
from large_metadata import PARTITIONS, TOPICS, large_image, no_full_collection, topic_id

from quorate.broker.metadata.delta import MetadataDelta
from quorate.broker.metadata.image import MetadataImage
from quorate.broker.metadata.metadata_records import (
    BeginTransaction,
    EndTransaction,
    Partition,
    PartitionChange,
    Record,
    RemoveTopic,
    Topic,
)
from quorate.broker.metadata.record_codec import encode
from quorate.broker.metadata_cache import MetadataCache, whole_image
from quorate.broker.replication.hosting.metadata_intake import CHANGED, LOOKED_AT, Backlog
from quorate.log import Log, LogConfig
from quorate.log.batches.records import build_batch
from quorate.log.snapshots.snapshots import SnapshotStore
from quorate.raft.snapshots.snapshot_loading import load_snapshot
from quorate.raft.snapshots.snapshot_slices import SnapshotSlices
from quorate.raft.state_machine.append_queue import AppendQueue, QueuedAppend
from quorate.raft.state_machine.applier import Applier
from quorate.raft.state_machine.interface import CommittedBatch
from quorate.simulation.world.simulated_disk import SimulatedDisk
from quorate.types import Epoch, Offset, SnapshotId

pytestmark = pytest.mark.real_time

STEP = 128
"""Partitions in one batch of the controller's."""


@pytest.fixture(autouse=True)
def _no_full_collection() -> Iterator[None]:
    with no_full_collection():
        yield


@pytest.fixture(scope="module")
def large() -> MetadataImage:
    return large_image()


@pytest.fixture(scope="module")
def changes() -> list[list[bytes]]:
    """A broker leaves every ISR, as the controller appends it."""
    everywhere = [(number, each) for number in range(TOPICS) for each in range(PARTITIONS)]
    return [
        [
            encode(
                PartitionChange(topic_id=topic_id(number), partition_id=each, isr=(2, 3), leader=2 + each % 2)
            )
            for number, each in everywhere[start : start + STEP]
        ]
        for start in range(0, len(everywhere), STEP)
    ]


def cache_of(image: MetadataImage) -> MetadataCache:
    return MetadataCache(image.copy())


class Waiter:
    def applied(self, *_: object) -> None:
        pass

    def failed(self, error: Exception) -> None:
        raise error


async def test_committed_changes_are_applied_in_slices_from_memory(large, changes, nursery) -> None:
    """All of it commits in one step: a follower was away, and comes back."""
    log = await Log.open(SimulatedDisk(), "log-0", LogConfig(), now_ms=lambda: 0)
    cache, appends = cache_of(large), AppendQueue(max_batch_bytes=1, max_pending_bytes=1 << 30)
    applier = Applier(cache, log, appends, on_applied=lambda *_: None)
    for batch in changes:
        base = log.end_offset
        built = build_batch(base_offset=base, epoch=1, timestamp_ms=1, values=batch)
        log.append_own(built, base_offset=base, end_offset=base + len(batch), epoch=1)
        appends.add(QueuedAppend(batch, sum(map(len, batch)), Waiter()))
        number, proposal = appends.next_proposal()
        proposal.base_offset, proposal.end_offset, proposal.epoch = base, log.end_offset, Epoch(1)
        appends.in_log.append(appends.take(number))
    nursery.start_soon(applier.run)
    end = log.end_offset

    async def commit() -> None:
        applier.advance(end)
        applier.catch_up()
        with trio.fail_after(60):
            while applier.applied_offset < end:
                await trio.lowlevel.checkpoint()

    await within_gap(commit(), what="applying what committed at once")
    assert cache.image.isr_count(1) == 0
    nursery.cancel_scope.cancel()


async def test_a_snapshot_is_begun_and_written_in_slices_while_changes_are_applied(large, changes) -> None:
    cache = cache_of(large)
    written: list[bytes] = []

    async def write() -> None:
        chunks, slices = cache.take_snapshot(), SnapshotSlices(rests=False)
        for number, batch in enumerate(changes):
            base = Offset(cache.offset + 1)
            cache.apply(CommittedBatch(base_offset=base, epoch=Epoch(1), timestamp_ms=1, records=batch))
            if number == 3:
                break
            await trio.lowlevel.checkpoint()
        for chunk in chunks:
            written.append(chunk)
            await slices.pause(len(chunk))

    await within_gap(write(), what="writing a snapshot")
    assert written == [encode(each) for each in large.records()]


async def test_a_snapshot_is_loaded_and_acted_upon_in_slices(large, changes, nursery) -> None:
    disk = SimulatedDisk()
    disk.make_folder("log-0")
    store = await SnapshotStore.open(disk, "log-0")
    snapshot = SnapshotId(Offset(large.offset + 1), Epoch(1))
    writer = store.write(snapshot, last_timestamp_ms=0, voters=None)
    for record in large.records():
        writer.append(encode(record))
    await writer.freeze()
    behind = MetadataImage()
    for offset, record in enumerate(large.records()):
        if isinstance(record, Partition) and record.partition_id % 10 == 0:
            record = Partition(
                topic_id=record.topic_id,
                partition_id=record.partition_id,
                replicas=record.replicas,
                isr=record.isr,
                leader=record.replicas[1],
            )
        behind.apply(record, offset=offset, epoch=1)
    cache, backlog = cache_of(behind), Backlog()
    found: list[int] = []

    def act(delta: MetadataDelta) -> Iterator[int]:
        for each in delta.looks():
            found.append(each is not None)
            yield CHANGED if each is not None else LOOKED_AT

    cache.subscribe(lambda delta, image: backlog.add(act(delta)))
    nursery.start_soon(backlog.run)

    async def load() -> None:
        (await load_snapshot(cache, store, snapshot, urgent=True)).install()
        while not backlog.empty:
            await trio.lowlevel.checkpoint()

    await within_gap(load(), what="loading a snapshot")
    assert cache.image == large
    assert (sum(found), len(found)) == (TOPICS * PARTITIONS // 10, TOPICS * (PARTITIONS + 1))
    nursery.cancel_scope.cancel()


async def test_a_new_listener_gets_the_whole_image_in_pieces(large, nursery) -> None:
    backlog, told = Backlog(), []

    def act(delta: MetadataDelta) -> Iterator[int]:
        for each in delta.looks():
            told.append(each)
            yield CHANGED

    nursery.start_soon(backlog.run)

    async def listen() -> None:
        backlog.add(act(whole_image(large)))
        while not backlog.empty:
            await trio.lowlevel.checkpoint()

    await within_gap(listen(), what="telling of a whole image")
    assert len(told) == TOPICS * PARTITIONS
    nursery.cancel_scope.cancel()


async def test_a_large_topic_is_checked_and_applied_in_pieces(large, nursery) -> None:
    """By its leader, and by a follower that has only the bytes."""
    new, step = topic_id(TOPICS), 128
    whole = [BeginTransaction(name="large"), Topic(name="large", topic_id=new)]
    whole += [
        Partition(topic_id=new, partition_id=number, replicas=(1, 2, 3), isr=(1, 2, 3), leader=1)
        for number in range(10_000)
    ]
    encoded = [encode(record) for record in (*whole, EndTransaction())]
    leader, follower = cache_of(large), cache_of(large)
    backlog, told = Backlog(), []

    def act(delta: MetadataDelta) -> Iterator[int]:
        for each in delta.looks():
            told.append(each)
            yield CHANGED

    follower.subscribe(lambda delta, image: backlog.add(act(delta)))
    nursery.start_soon(backlog.run)

    async def create() -> None:
        for start in range(0, len(encoded), step):
            batch = encoded[start : start + step]
            leader.check(batch)
            await trio.lowlevel.checkpoint()
            for cache in (leader, follower):
                base = Offset(cache.offset + 1)
                cache.apply(CommittedBatch(base_offset=base, epoch=Epoch(1), timestamp_ms=1, records=batch))
                await trio.lowlevel.checkpoint()
        while not backlog.empty:
            await trio.lowlevel.checkpoint()

    await within_gap(create(), what="a topic of 10,000 partitions", budget_ms=BUDGET_MS / 2)
    assert leader.image.partitions(new) == follower.image.partitions(new)
    assert len(told) == 10_000
    nursery.cancel_scope.cancel()


async def test_a_topic_of_100_000_partitions_is_removed_in_one_short_step(large) -> None:
    new, count = topic_id(TOPICS), 100_000
    records: list[Record] = [Topic(name="large", topic_id=new)]
    records += [
        Partition(topic_id=new, partition_id=number, replicas=(1, 2, 3), isr=(1, 2, 3), leader=1 + number % 3)
        for number in range(count)
    ]
    encoded = [encode(record) for record in records]
    cache = cache_of(large)

    def apply(batch: list[bytes]) -> None:
        base = Offset(cache.offset + 1)
        cache.apply(CommittedBatch(base_offset=base, epoch=Epoch(1), timestamp_ms=1, records=batch))

    for start in range(0, len(encoded), STEP):
        apply(encoded[start : start + STEP])
    assert cache.image.partition_count() == TOPICS * PARTITIONS + count

    async def remove() -> None:
        apply([encode(RemoveTopic(topic_id=new))])
        assert cache.image.leader_count(1) == large.leader_count(1)

    await within_gap(remove(), what="removing a topic of 100,000 partitions", budget_ms=BUDGET_MS / 2)
    assert cache.image == large


async def test_a_new_controller_gets_its_image_at_once(large) -> None:
    async def copy() -> Sequence[MetadataImage]:
        return [large.copy() for _ in range(10)]

    assert all(twin == large for twin in await within_gap(copy(), what="ten copies"))
