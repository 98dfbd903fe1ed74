"""Partition records that are decoded together mean what they mean one by one, to the same errors."""

import random
import uuid
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from quorate.broker.metadata import partition_runs, record_codec
from quorate.broker.metadata.batch_loader import BatchLoader, ImageLoader
from quorate.broker.metadata.delta import Changes, PartitionDelta
from quorate.broker.metadata.image import MetadataImage
from quorate.broker.metadata.metadata_records import (
    BeginTransaction,
    EndTransaction,
    LeaderRecoveryState,
    Partition,
    Record,
    RegisterBroker,
    ShrinkTopic,
    Topic,
)
from quorate.broker.metadata.partition_runs import PartitionRun, decode_runs
from quorate.broker.metadata.record_codec import RecordDecodeError, decode, encode
from quorate.broker.metadata.states import ImageError
from quorate.broker.metadata_cache import MetadataCache
from quorate.types import Epoch, Offset, SnapshotId
from tests.broker.controller.images import feed, feed_encoded, image_of

TOPICS = [uuid.UUID(int=each << 90) for each in (1, 2, 3)]
DIRECTORIES = [uuid.UUID(int=(9 << 100) + each) for each in range(9)]


def partition(number: int, *, topic: int = 0, seed: int = 0) -> Partition:
    """One of many ways that a partition may be, by `seed`."""
    entropy = random.Random(1000 * number + seed)
    replicas = tuple(entropy.sample((0, 1, 23, 24, 255, 256, 70_000), entropy.choice((1, 2, 3, 3, 3, 5))))
    adding = entropy.choice(((), (), (), replicas[:1]))
    return Partition(
        topic_id=TOPICS[topic],
        partition_id=number,
        replicas=replicas,
        isr=entropy.choice((replicas, replicas[1:], replicas[:1])),
        adding_replicas=adding,
        removing_replicas=replicas[-1:] if adding else (),
        leader=entropy.choice((-1, replicas[0], replicas[-1])),
        leader_recovery_state=entropy.choice(tuple(LeaderRecoveryState)),
        leader_epoch=Epoch(entropy.choice((0, 1, 23, 24, 300, 70_000, (1 << 31) - 1))),
        partition_epoch=entropy.choice((0, 5, 255, 256, 1 << 20)),
        directories=tuple(entropy.choices(DIRECTORIES, k=len(replicas))) if entropy.random() < 0.7 else (),
    )


def partitions(count: int, *, first: int = 0, topic: int = 0) -> list[Partition]:
    return [partition(number, topic=topic) for number in range(first, first + count)]


def one_by_one(records: Sequence[Record | PartitionRun]) -> list[Record]:
    return [
        single
        for each in records
        for single in (each.records() if isinstance(each, PartitionRun) else (each,))
    ]


def test_records_decoded_together_are_those_decoded_one_by_one() -> None:
    records: list[Record] = [
        Topic(name="a", topic_id=TOPICS[0]),
        *partitions(700),
        Topic(name="b", topic_id=TOPICS[1]),
        *partitions(3, topic=1),
        *partitions(40, topic=2),
        *partitions(40, first=3, topic=1),
    ]
    values = [encode(each) for each in records]
    found = decode_runs(values)
    assert one_by_one(found) == records == [decode(each) for each in values]
    assert [len(each) for each in found if isinstance(each, PartitionRun)] == [512, 188, 40, 40]


@pytest.mark.parametrize(
    "odd",
    [
        replace(partition(5), eligible_leader_replicas=(1,)),
        replace(partition(5), last_known_elr=(1,)),
        replace(partition(5), replicas=tuple(range(30)), isr=(), directories=()),
    ],
    ids=["eligible leaders", "a last leader", "many replicas"],
)
def test_a_record_that_is_not_plain_ends_a_run_and_no_more(odd: Partition) -> None:
    records = [*partitions(5), odd, *partitions(10, first=6)]
    found = decode_runs([encode(each) for each in records])
    assert one_by_one(found) == records


def test_a_gap_in_the_numbers_and_another_order_are_no_run() -> None:
    for numbers in ((0, 1, 2, 3, 5, 6), (5, 4, 3, 2, 1, 0), (7, 7, 7, 7)):
        records = [partition(number) for number in numbers]
        found = decode_runs([encode(each) for each in records])
        assert found == records


def test_every_damaged_byte_has_the_meaning_or_the_error_that_it_has_alone() -> None:
    values = [encode(each) for each in partitions(6)]
    for at in range(len(values[3])):
        for flip in (0x01, 0x02, 0x10, 0x80, 0xFF):
            damaged = bytearray(values[3])
            damaged[at] ^= flip
            assert outcome(decode_runs, values, bytes(damaged)) == outcome(alone, values, bytes(damaged))


@pytest.mark.parametrize("end", [b"", b"\x83\x05\x00", b"\x83\x05\x00\xa4"])
def test_two_records_in_the_place_of_one_are_not_read_as_two(end: bytes) -> None:
    values = [encode(each) for each in partitions(8)]
    values[2:4] = [values[2] + values[3], end]
    with pytest.raises(RecordDecodeError):
        decode_runs(values)


def alone(values: Sequence[bytes]) -> list[Record]:
    return [decode(each) for each in values]


def outcome(
    decoded: Callable[[Sequence[bytes]], Sequence[Record | PartitionRun]], values: list[bytes], damaged: bytes
) -> tuple[list[Record], str]:
    try:
        return one_by_one(decoded([*values[:3], damaged, *values[4:]])), ""
    except RecordDecodeError as error:
        return [], str(error)


# Applied


def cached(values: Sequence[bytes]) -> MetadataCache:
    cache = MetadataCache()
    feed_encoded(cache, values)
    return cache


def figures(image: MetadataImage) -> tuple[object, ...]:
    brokers = (0, 1, 23, 24, 255, 256, 70_000)
    return (
        image.partition_count(),
        image.leaderless_count,
        image.imbalanced_count,
        image.reassigning_count,
        image.has_elrs,
        sorted(image.isr_members()),
        dict(image.replica_homes()),
        [
            (image.leader_count(each), image.isr_count(each), image.elr_count(each), image.imbalance(each))
            for each in brokers
        ],
    )


def test_an_image_of_runs_has_the_partitions_and_the_counts_of_one_without() -> None:
    records: list[Record] = [
        Topic(name="a", topic_id=TOPICS[0]),
        *partitions(900),
        Topic(name="b", topic_id=TOPICS[1]),
        *partitions(1700, topic=1),
        ShrinkTopic(topic_id=TOPICS[1], num_partitions=1300),
        *(replace(each, leader_epoch=Epoch(9)) for each in partitions(300, first=1300, topic=1)),
    ]
    expected = image_of(records)
    image = cached([encode(each) for each in records]).image
    assert image == expected
    assert (image.offset, image.epoch) == (len(records) - 1, 1)
    assert figures(image) == figures(expected) == figures(image.copy())


def test_a_copy_of_an_image_does_not_change_with_the_run_that_the_image_takes() -> None:
    cache = cached([encode(each) for each in (Topic(name="a", topic_id=TOPICS[0]), *partitions(9))])
    copy = cache.image.copy()
    feed(cache, partitions(9, first=9))
    assert len(cache.image.partitions(TOPICS[0])) == 18
    assert len(copy.partitions(TOPICS[0])) == copy.partition_count() == 9


@pytest.mark.parametrize("first", [0, 1, 8, 10])
def test_a_run_that_does_not_fit_is_refused_as_its_first_record_is(first: int) -> None:
    before: list[Record] = [Topic(name="a", topic_id=TOPICS[0]), *partitions(9)]
    strays = partitions(6, first=first)
    image = image_of(before)
    with pytest.raises(ImageError) as expected:
        image.apply(strays[0], offset=10, epoch=1)
    (run,) = decode_runs([encode(each) for each in strays])
    assert isinstance(run, PartitionRun)
    with pytest.raises(ImageError, match=str(expected.value).replace("(", r"\(")):
        image.apply_run(run, offset=15, epoch=1)
    assert image == image_of(before)
    assert (image.offset, figures(image)) == (9, figures(image_of(before)))


def test_lists_of_directories_of_another_length_are_refused_in_a_run_too() -> None:
    records = partitions(8)
    records[4] = replace(records[4], replicas=(1, 23), isr=(1,), directories=tuple(DIRECTORIES[:3]))
    values = [encode(each) for each in (Topic(name="a", topic_id=TOPICS[0]), *records)]
    with pytest.raises(ImageError, match="2 replicas and 3 directories"):
        cached(values)


def test_a_delta_of_runs_says_what_one_of_single_records_does() -> None:
    records: list[Record] = [
        Topic(name="a", topic_id=TOPICS[0]),
        *partitions(20),
        ShrinkTopic(topic_id=TOPICS[0], num_partitions=12),
        *(replace(each, leader_epoch=Epoch(9)) for each in partitions(16, first=12)),
    ]

    def told(records: Sequence[Record | PartitionRun]) -> list[PartitionDelta]:
        changes = Changes(MetadataImage())
        changes.apply(records, base_offset=0, epoch=1)
        delta = changes.delta(base_offset=0, end_offset=len(records))
        first, again = list(delta.partitions), list(delta.partitions)
        assert first == again
        return first

    assert told(decode_runs([encode(each) for each in records])) == told(records)


def test_a_delta_of_many_keeps_what_was_when_its_image_goes_on() -> None:
    image = MetadataImage()
    changes = Changes(image)
    changes.apply([Topic(name="a", topic_id=TOPICS[0]), *partitions(1200)], base_offset=0, epoch=1)
    delta = changes.delta(base_offset=0, end_offset=1201)
    expected = list(image.partitions(TOPICS[0]))
    image.apply(ShrinkTopic(topic_id=TOPICS[0], num_partitions=1), offset=1201, epoch=1)
    assert [each.after for each in delta.partitions] == expected


def test_offsets_are_counted_through_runs_and_transactions() -> None:
    loader = BatchLoader()
    records: list[Record] = [
        Topic(name="a", topic_id=TOPICS[0]),
        *partitions(9),
        BeginTransaction(name="b"),
        Topic(name="b", topic_id=TOPICS[1]),
        *partitions(30, topic=1),
        EndTransaction(),
        RegisterBroker(broker_id=1, incarnation_id=DIRECTORIES[0], broker_epoch=42),
    ]
    deltas = loader.load(decode_runs([encode(each) for each in records]), base_offset=100, epoch=1)
    bounds = [(each.base_offset, each.end_offset) for each in deltas]
    assert bounds == [(100, 110), (110, 111), (111, 142), (142, 143), (143, 144)]
    assert loader.image.offset == 143
    assert [len(tuple(each.partitions)) for each in deltas] == [9, 0, 0, 30, 0]


def test_a_snapshot_within_a_transaction_has_its_runs_record_by_record() -> None:
    records: list[Record] = [
        Topic(name="a", topic_id=TOPICS[0]),
        *partitions(700),
        BeginTransaction(name="b"),
        Topic(name="b", topic_id=TOPICS[1]),
        *partitions(40, topic=1),
    ]
    cache = cached([encode(each) for each in records])
    assert [decode(each) for each in cache.take_snapshot()] == records
    loaded: list[BatchLoader] = []
    loader = ImageLoader(SnapshotId(Offset(len(records)), Epoch(1)), loaded.append)
    for chunk in cache.take_snapshot():
        loader.add(chunk)
    loader.install()
    (other,) = loaded
    assert other.image == cache.image and other.in_transaction
    assert figures(other.image) == figures(cache.image)
    feed(cache, [EndTransaction()])
    other.load([EndTransaction()], base_offset=len(records), epoch=1)
    assert other.image == cache.image


@pytest.mark.parametrize("last", [b"\x00", encode(partition(9))], ids=["no record", "no such topic"])
def test_the_last_chunks_of_a_snapshot_are_checked_before_it_is_installed(last: bytes) -> None:
    installed: list[BatchLoader] = []
    loader = ImageLoader(SnapshotId(Offset(1), Epoch(1)), installed.append)
    loader.add(last)
    with pytest.raises((RecordDecodeError, ImageError)):
        loader.install()
    assert not installed


def test_the_memory_of_runs_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    memos = {
        "broker_fields": record_codec.BrokerFields(8),
        "directory_lists": record_codec.DirectoryLists(8),
        "integers": record_codec.Integers(8),
    }
    for name, memo in memos.items():
        monkeypatch.setattr(partition_runs, name, memo)
    records = partitions(600)
    assert one_by_one(decode_runs([encode(each) for each in records])) == records
    for name, memo in memos.items():
        assert 0 < len(memo) <= 8 and len(memo._earlier) <= 8, name
