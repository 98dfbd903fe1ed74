"""Partition records are decoded by their parts, found again: to the same records and errors as any other."""

import uuid
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from quorate.broker.metadata import record_codec
from quorate.broker.metadata.metadata_records import (
    UNASSIGNED,
    ChangeReason,
    LeaderRecoveryState,
    Partition,
    PartitionChange,
    Record,
)
from quorate.broker.metadata.record_codec import RecordDecodeError, decode, encode
from quorate.types import Epoch

general: Callable[[bytes], Record] = record_codec._RECORDS.decode
TOPICS = [uuid.UUID(int=each << 90) for each in (1, 2, 1 << 37)]
DIRECTORIES = [uuid.UUID(int=(9 << 100) + each) for each in range(40)]


def records() -> Iterator[Partition | PartitionChange]:
    """Alike in all ways but one, and each way."""
    for topic_id in TOPICS:
        for number in (0, 23, 24, 255, 256, 65_536):
            yield Partition(
                topic_id=topic_id, partition_id=number, replicas=(1, 2, 3), isr=(1, 2, 3), leader=1
            )
            yield PartitionChange(topic_id=topic_id, partition_id=number, leader=2, isr=(2, 3))
    topic_id, number = TOPICS[0], 7
    for epochs in ((0, 0), (5, 0), (0, 300), (70_000, 24), ((1 << 31) - 1, (1 << 31) - 1)):
        for lists in ((DIRECTORIES[:3],) * 2, ((), DIRECTORIES[1:4]), (DIRECTORIES[:2], [UNASSIGNED] * 3)):
            for directories in lists:
                yield Partition(
                    topic_id=topic_id,
                    partition_id=number,
                    replicas=(1, 200, 70_000),
                    isr=(1,),
                    leader=-1,
                    leader_epoch=Epoch(epochs[0]),
                    partition_epoch=epochs[1],
                    directories=tuple(directories),
                )
    for isr in ((), (1,), (1, 2), tuple(range(5)), tuple(range(6)), tuple(range(30))):
        for recovery in LeaderRecoveryState:
            yield Partition(
                topic_id=topic_id,
                partition_id=number,
                replicas=tuple(range(30)),
                isr=isr,
                adding_replicas=isr,
                leader=0,
                leader_recovery_state=recovery,
                directories=tuple(DIRECTORIES[:30]),
            )
            yield PartitionChange(
                topic_id=topic_id,
                partition_id=number,
                isr=isr,
                leader_recovery_state=recovery,
                reason=ChangeReason.REASSIGNMENT,
            )
    yield Partition(
        topic_id=topic_id, partition_id=1, replicas=(1, 2), isr=(1,), eligible_leader_replicas=(2,)
    )
    yield Partition(topic_id=topic_id, partition_id=1, replicas=(1, 2), isr=(), last_known_elr=(2,))
    yield PartitionChange(topic_id=topic_id, partition_id=1, eligible_leader_replicas=(2,), last_known_elr=())
    yield PartitionChange(topic_id=topic_id, partition_id=1, directories=tuple(DIRECTORIES[:3]))


def outcome(of: Callable[[bytes], Record], data: bytes) -> Record | str:
    try:
        return of(data)
    except RecordDecodeError as error:
        return str(error)


def spoiled(data: bytes) -> Iterator[bytes]:
    for at, byte in enumerate(data):
        for other in (byte ^ 1, (byte + 1) & 255, (byte - 1) & 255, 0, 0x18, 0x80, 0xA0, 0xFF):
            yield data[:at] + bytes([other]) + data[at + 1 :]
        yield data[:at] + data[at + 1 :]
        yield data[:at]
        yield data[:at] + b"\x07" + data[at:]
    yield data + b"\x00"


@pytest.mark.parametrize("lap", ["met for the first time", "met again"])
def test_a_record_is_what_was_written(lap: str) -> None:
    for record in records():
        assert decode(encode(record)) == record, lap


def test_the_common_parts_of_two_records_are_one_object() -> None:
    one, other = (
        decode(
            encode(
                Partition(
                    topic_id=topic_id,
                    partition_id=number,
                    replicas=(7, 8),
                    isr=(7,),
                    partition_epoch=number,
                    directories=tuple(DIRECTORIES[5:7]),
                )
            )
        )
        for number, topic_id in enumerate(TOPICS[:2], 1)
    )
    assert isinstance(one, Partition) and isinstance(other, Partition)
    decoded = decode(encode(one))
    assert isinstance(decoded, Partition)
    assert decoded.replicas is other.replicas and decoded.directories is other.directories


@pytest.mark.slow
def test_spoiled_bytes_have_the_same_outcome_as_without_a_memory() -> None:
    """Each way to spoil one byte of a record whose parts are all known."""
    for record in [*records()][::5]:
        data = encode(record)
        assert decode(data) == record
        for bad in spoiled(data):
            assert outcome(decode, bad) == outcome(general, bad), (record, bad.hex())


def test_parts_of_two_records_that_do_not_add_up_have_the_same_outcome() -> None:
    """The map says how many fields it has, and each part is known from a record that has it."""
    with_directories, without = (
        Partition(topic_id=TOPICS[0], partition_id=0, replicas=(1, 2), isr=(1, 2), leader=1, directories=ids)
        for ids in ((DIRECTORIES[0], DIRECTORIES[1]), ())
    )
    long, short = encode(with_directories), encode(without)
    assert (decode(long), decode(short)) == (with_directories, without)
    more, fewer = short[:3] + long[3:4] + short[4:], long[:3] + short[3:4] + long[4:]
    assert "not a metadata record" in str(outcome(decode, more)), "a field is missing"
    assert outcome(decode, more) == outcome(general, more)
    assert outcome(decode, fewer) == outcome(general, fewer) == without


def test_a_spoiled_record_teaches_nothing() -> None:
    """Its map ends before the leader, and whatever is behind a map is skipped."""
    whole = Partition(topic_id=TOPICS[0], partition_id=0, replicas=(91, 92), isr=(91, 92), leader=92)
    data = encode(whole)
    short = data[:3] + bytes([data[3] - 1]) + data[4:]
    assert decode(short) == Partition(topic_id=TOPICS[0], partition_id=0, replicas=(91, 92), isr=(91, 92))
    # Another one, which ends before the epoch: the sizes would add up with what was learned.
    later = encode(replace(whole, leader_epoch=Epoch(3)))
    assert decode(later[:3] + bytes([later[3] - 1]) + later[4:]) == whole
    assert decode(data) == whole
    assert decode(data) == whole


def test_the_memory_of_parts_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_codec, "_MOST_KNOWN", 8)
    memos = [record_codec.BrokerFields(8), record_codec.DirectoryLists(8), record_codec.Integers(8)]
    for name, memo in zip(("broker_fields", "directory_lists", "integers"), memos, strict=True):
        monkeypatch.setattr(record_codec, name, memo)
    for each in range(100):
        made = Partition(topic_id=TOPICS[0], partition_id=0, replicas=(each, each + 1), isr=(each,))
        made = replace(made, directories=(uuid.UUID(int=each + 1000), DIRECTORIES[0]))
        change = PartitionChange(topic_id=TOPICS[0], partition_id=0, isr=(each, 1000))
        for _ in range(2):
            assert (decode(encode(made)), decode(encode(change))) == (made, change)
    assert len(record_codec._known_changes) <= 8
    for memo in memos:
        assert 0 < len(memo) <= 8 and len(memo._earlier) <= 8, memo
