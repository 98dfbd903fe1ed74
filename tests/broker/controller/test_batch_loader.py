"""Batches between a transaction's bounds are one change (KIP-868)."""

import itertools
import random
import uuid
from collections.abc import Sequence

import pytest

from quorate.broker.metadata.delta import MetadataDelta
from quorate.broker.metadata.image import MetadataImage
from quorate.broker.metadata.metadata_records import (
    AbortTransaction,
    BeginTransaction,
    Config,
    ConfigType,
    EndTransaction,
    Partition,
    PartitionChange,
    Record,
    RemoveTopic,
    Topic,
)
from quorate.broker.metadata.record_codec import encode
from quorate.broker.metadata.states import ImageError
from quorate.broker.metadata_cache import MetadataCache
from quorate.types import Epoch, Offset, SnapshotId
from tests.broker.controller.images import feed, image_of
from tests.kit.metadata_histories import HistoryMaker

OLD, NEW = uuid.UUID(int=1), uuid.UUID(int=2)


def partition(number: int, *, of: uuid.UUID = NEW) -> Partition:
    return Partition(topic_id=of, partition_id=number, replicas=(1, 2), isr=(1, 2), leader=1)


BEFORE: list[Record] = [Topic(name="old", topic_id=OLD), partition(0, of=OLD), partition(1, of=OLD)]
WITHIN: list[Record] = [
    Topic(name="new", topic_id=NEW),
    Config(resource_type=ConfigType.TOPIC, resource_name="new", name="retention.ms", value="1"),
    partition(0),
    partition(1),
    PartitionChange(topic_id=NEW, partition_id=0, leader=2),
    PartitionChange(topic_id=OLD, partition_id=1, leader=2),
    partition(2),
]
AFTER: list[Record] = [PartitionChange(topic_id=OLD, partition_id=0, isr=(1,))]
BEGIN, END, ABORT = BeginTransaction(name="n"), EndTransaction(), AbortTransaction(reason="r")


class Told:
    """A cache, and what it told."""

    def __init__(self) -> None:
        self.cache = MetadataCache()
        self.deltas: list[MetadataDelta] = []
        self.cache.subscribe(lambda delta, image: self.deltas.append(delta))

    def feed(self, records: Sequence[Record], *, together: int) -> None:
        for start in range(0, len(records), together):
            self.feed_batch(records[start : start + together])

    def feed_batch(self, records: Sequence[Record]) -> None:
        feed(self.cache, records)


@pytest.mark.parametrize("together", range(1, 14))
@pytest.mark.parametrize(("last", "outcome"), [(END, [*BEFORE, *WITHIN]), (ABORT, BEFORE)])
def test_nothing_of_a_transaction_is_seen_before_its_end_and_all_of_it_then(
    together: int, last: Record, outcome: list[Record]
) -> None:
    told = Told()
    told.feed(BEFORE, together=together)
    told.deltas.clear()
    ahead = [BEGIN, *WITHIN]
    for start in range(0, len(ahead), together):
        told.feed_batch(ahead[start : start + together])
        assert told.cache.image == image_of(BEFORE)
        assert told.cache.in_transaction
    # What nobody sees is applied all the same.
    assert told.cache.offset == len(BEFORE) + len(ahead) - 1
    assert [tuple(each.partitions) for each in told.deltas] == [()] * len(told.deltas)
    told.feed([last, *AFTER], together=together)
    assert told.cache.image == image_of([*outcome, *AFTER])
    assert not told.cache.in_transaction
    assert told.cache.image.leader_count(2) == image_of([*outcome, *AFTER]).leader_count(2)

    changed = {(each.topic, each.partition_id): each for delta in told.deltas for each in delta.partitions}
    created = [name for delta in told.deltas for name in delta.created_topics]
    if last is END:
        assert created == ["new"]
        assert {(name, number) for name, number in changed if name == "new"} == {("new", n) for n in range(3)}
        net = changed["new", 0]
        assert net.before is None
        assert net.after is not None
        assert net.after.leader == 2
    else:
        assert created == []
        assert [*changed] == [("old", 0)]
    offsets = [(each.base_offset, each.end_offset) for each in told.deltas]
    assert offsets[0][0] == len(BEFORE)
    assert all(end == base for (_, end), (base, _) in itertools.pairwise(offsets))


@pytest.mark.bug("KAFKA-17713")
@pytest.mark.parametrize("last", [END, ABORT])
@pytest.mark.parametrize("taken_after", range(len(BEFORE) + len(WITHIN) + 3))
def test_a_snapshot_may_be_taken_anywhere_in_a_transaction(taken_after: int, last: Record) -> None:
    records = [*BEFORE, BEGIN, *WITHIN, last, *AFTER]
    straight, loaded = Told(), Told()
    straight.feed(records[:taken_after], together=1)
    loader = loaded.cache.load_snapshot(SnapshotId(Offset(taken_after), Epoch(1)))
    chunks = straight.cache.take_snapshot()
    straight.feed(records[taken_after:], together=1)
    for chunk in chunks:
        loader.add(chunk)
    loader.install()
    assert loaded.cache.offset == taken_after - 1
    begun = len(BEFORE) < taken_after <= len(BEFORE) + 1 + len(WITHIN)
    assert loaded.cache.in_transaction == begun
    if begun:
        assert loaded.cache.image == image_of(BEFORE)
        assert not any("new" in delta.created_topics for delta in loaded.deltas)
        again = [*loaded.cache.take_snapshot()]
        assert again == [*image_chunks_of(BEFORE), *map(encode, records[len(BEFORE) : taken_after])]
    loaded.feed(records[taken_after:], together=3)
    assert loaded.cache.image == straight.cache.image
    assert loaded.cache.offset == straight.cache.offset
    assert {name for delta in loaded.deltas for name in delta.created_topics} == {
        name for delta in straight.deltas for name in delta.created_topics
    }


def image_chunks_of(records: Sequence[Record]) -> list[bytes]:
    return [encode(record) for record in image_of(records).records()]


@pytest.mark.parametrize(
    ("records", "said"),
    [
        ([BEGIN, BEGIN], "at offset 1, within another"),
        ([END], "no transaction is open"),
        ([ABORT], "no transaction is open"),
        ([BEGIN, END, END], "EndTransaction at offset 2"),
        ([BEGIN, RemoveTopic(topic_id=OLD)], "not there"),
    ],
)
def test_bounds_that_do_not_fit_stop_the_node(records: list[Record], said: str) -> None:
    with pytest.raises(ImageError, match=said):
        Told().feed(records, together=1)


@pytest.mark.parametrize("record", [BEGIN, END, ABORT])
def test_an_image_alone_takes_no_bounds(record: Record) -> None:
    with pytest.raises(ImageError, match="BatchLoader"):
        MetadataImage().apply(record, offset=0, epoch=1)


def test_many_changes_are_told_one_by_one_while_others_are_applied() -> None:
    told = Told()
    told.feed([BEGIN, Topic(name="new", topic_id=NEW), *map(partition, range(3000)), END], together=500)
    delta = told.deltas[-1]
    assert not isinstance(delta.partitions, tuple)
    told.feed_batch([PartitionChange(topic_id=NEW, partition_id=7, leader=2)])
    told.feed_batch([RemoveTopic(topic_id=NEW)])
    for _ in range(2):
        found = list(delta.partitions)
        assert [each.partition_id for each in found] == list(range(3000))
        assert {each.after.leader for each in found if each.after} == {1}
    removed = list(told.deltas[-1].partitions)
    assert [each.after for each in removed] == [None] * 3000


@pytest.mark.parametrize("seed", range(12))
def test_equal_images_have_equal_snapshots_however_a_node_got_them(seed: int) -> None:
    """The digests of nodes are compared: one that applied all records, and one that loaded snapshots."""
    maker = HistoryMaker(random.Random(seed))
    by_log, by_snapshots = MetadataCache(), MetadataCache()
    for _ in range(20):
        records = [maker.next() for _ in range(40)]
        for cache in (by_log, by_snapshots):
            feed(cache, records)
        snapshot = SnapshotId(Offset(by_snapshots.offset + 1), Epoch(1))
        chunks = [*by_snapshots.take_snapshot()]
        assert chunks == [*by_log.take_snapshot()]
        by_snapshots = MetadataCache()
        loader = by_snapshots.load_snapshot(snapshot)
        for chunk in chunks:
            loader.add(chunk)
        loader.install()
