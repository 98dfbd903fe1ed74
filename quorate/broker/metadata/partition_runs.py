"""Partition records that follow one another in a topic, decoded together into columns.

A replay reads millions of them. One by one each costs an object, a look at its topic and a place in every
count; together they cost a fifth of that. Every byte is checked as for one record: whatever is not exactly as
`encode` writes it is decoded by `decode`, with its error.
"""

import contextlib
import re
from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import Final, TypeAlias
from uuid import UUID

from quorate.broker.metadata.metadata_records import Partition, Record
from quorate.broker.metadata.record_codec import (
    BROKER_FIELD,
    BROKER_FIELDS,
    INTEGER,
    RecordDecodeError,
    decode,
    encode_integer,
    integer_of,
)
from quorate.broker.metadata.states import PartitionState, as_eligible
from quorate.broker.metadata.topic_partitions import Directories, Remembered, Shape, TopicPartitions
from quorate.cbor import decode_identifier

RUN_MAX: Final = 512
"""Records that are decoded together, in about a millisecond."""
RUN_BYTES_MAX: Final = 512
"""The size of a record that is decoded with others."""
_RUN_MIN: Final = 4
_NUMBERS_MAX: Final = 1 << 16
_MOST_KNOWN: Final = 1 << 16

_KIND = itemgetter(slice(3))
_PARTITION_KIND: Final = b"\x83\x05\x00"
_ROW: Final = re.compile(
    rb"(\x83\x05\x00([\xa0-\xad])\x00\x50(.{16})\x01(%b)(%b)(?:\x08(%b))?(?:\x09(%b))?"
    rb"(?:\x0c([\x81-\x97](?:\x50.{16})+))?)" % (INTEGER, BROKER_FIELDS, INTEGER, INTEGER),
    re.DOTALL,
)
_Row: TypeAlias = tuple[bytes, bytes, bytes, bytes, bytes, bytes, bytes, bytes]
"""A record, and of it: the map's size, the topic's id, the number, the fields of brokers, the epochs, and the
directories; empty where it has none."""


@dataclass(frozen=True, slots=True)
class PartitionRun:
    """The partitions of `topic_id` from number `first` on, as their records say."""

    topic_id: UUID
    first: int
    states: TopicPartitions

    def __len__(self) -> int:
        return len(self.states)

    def records(self) -> Iterator[Partition]:
        """One by one."""
        for number, state in enumerate(self.states, self.first):
            yield partition_record(self.topic_id, number, state)


def partition_record(topic_id: UUID, number: int, state: PartitionState) -> Partition:
    """Return the record that says all of `state`."""
    return Partition(
        topic_id=topic_id,
        partition_id=number,
        replicas=state.replicas,
        isr=state.isr,
        removing_replicas=state.removing_replicas,
        adding_replicas=state.adding_replicas,
        leader=state.leader,
        leader_recovery_state=state.leader_recovery_state,
        leader_epoch=state.leader_epoch,
        partition_epoch=state.partition_epoch,
        eligible_leader_replicas=state.elr,
        last_known_elr=state.eligible.last_known,
        directories=state.directories,
    )


def records_in(records: Sequence[Record | PartitionRun]) -> int:
    """Return how many records those are, one by one."""
    return sum([len(each) if isinstance(each, PartitionRun) else 1 for each in records])


def decode_runs(values: Sequence[bytes]) -> list[Record | PartitionRun]:
    """The records in `values`, in order, every field checked. Raises `RecordDecodeError`."""
    records: list[Record | PartitionRun] = []
    for kind, group in groupby(values, _KIND):
        if kind != _PARTITION_KIND:
            records += map(decode, group)
            continue
        partitions = list(group)
        for start in range(0, len(partitions), RUN_MAX):
            records += _decode_partitions(partitions[start : start + RUN_MAX])
    return records


class _UnlikeError(Exception):
    """Bytes that are not as `encode` writes them: `decode` says whether they are a record at all."""


def _decode_partitions(values: list[bytes]) -> Iterable[Record | PartitionRun]:
    if len(values) < _RUN_MIN:
        return map(decode, values)
    rows: list[_Row] | list[_Row | None] = _ROW.findall(b"".join(values))
    if [row and row[0] for row in rows] != values:
        rows = [_row_of(value) for value in values]
    records: list[Record | PartitionRun] = []
    start = 0
    for topic_id, group in groupby(rows, lambda row: row and row[2]):
        run = list(group)
        end = start + len(run)
        found = None
        if topic_id is not None and len(run) >= _RUN_MIN:
            with contextlib.suppress(_UnlikeError):
                found = _run_of([row for row in run if row is not None])
        records += map(decode, values[start:end]) if found is None else (found,)
        start = end
    return records


def _row_of(value: bytes) -> _Row | None:
    match = _ROW.fullmatch(value) if len(value) <= RUN_BYTES_MAX else None
    if match is None:
        return None
    whole, size, topic_id, number, brokers, leader_epoch, partition_epoch, directories = match.groups(b"")
    return whole, size, topic_id, number, brokers, leader_epoch, partition_epoch, directories


def _run_of(rows: Sequence[_Row]) -> PartitionRun:
    """Raises `_UnlikeError`."""
    _, sizes, topic_ids, numbers, brokers, leader_epochs, partition_epochs, directories = zip(
        *rows, strict=True
    )
    first = integer_of(numbers[0])
    if numbers != _numbers(first, first + len(rows)):
        raise _UnlikeError
    shapes = list(map(_shapes.__getitem__, brokers))
    # A map's size has to count all its fields. In the order of their numbers none is there twice.
    counted = [
        (size[0] & 31) - held - (leader_epoch != b"") - (partition_epoch != b"") - (raw != b"")
        for size, (_, held), leader_epoch, partition_epoch, raw in zip(
            sizes, shapes, leader_epochs, partition_epochs, directories, strict=True
        )
    ]
    placed = list(map(_directories.__getitem__, directories))
    if counted.count(2) != len(counted) or any(
        ids and len(ids) != len(shape[0]) for ids, (shape, _) in zip(placed, shapes, strict=True)
    ):
        raise _UnlikeError
    return PartitionRun(
        decode_identifier(topic_ids[0]),
        first,
        TopicPartitions.of(
            leader_epochs=array("i", map(_integers.__getitem__, leader_epochs)),
            partition_epochs=array("i", map(_integers.__getitem__, partition_epochs)),
            shapes=[shape for shape, _ in shapes],
            directories=placed,
        ),
    )


# Memos, not state: whatever is forgotten is decoded again.


class _RunShapes(Remembered[bytes, tuple[Shape, int]]):
    """Shape and number of fields, by the encoded fields of brokers."""

    __slots__ = ()

    def _made(self, key: bytes) -> tuple[Shape, int]:
        held = len(BROKER_FIELD.findall(key))
        try:
            record = decode(
                _PARTITION_KIND + bytes((0xA2 + held,)) + b"\x00\x50" + bytes(16) + b"\x01\x00" + key
            )
        except RecordDecodeError:
            raise _UnlikeError from None
        if not isinstance(record, Partition) or not record.replicas:
            raise _UnlikeError
        shape = (
            record.replicas,
            record.isr,
            record.removing_replicas,
            record.adding_replicas,
            record.leader,
            record.leader_recovery_state,
            as_eligible(record.eligible_leader_replicas, record.last_known_elr),
        )
        return shape, held


class _DirectoryLists(Remembered[bytes, Directories]):
    __slots__ = ()

    def _made(self, key: bytes) -> Directories:
        """Decode a list: `key` has the number of ids, and for each a byte of its type and the id."""
        if key and len(key) != 1 + 17 * (key[0] & 31):
            raise _UnlikeError
        return tuple([decode_identifier(key[at : at + 16]) for at in range(2, len(key), 17)])


class _Integers(Remembered[bytes, int]):
    __slots__ = ()

    def _made(self, key: bytes) -> int:
        return integer_of(key) if key else 0


_shapes: Final = _RunShapes(_MOST_KNOWN)
_directories: Final = _DirectoryLists(_MOST_KNOWN)
_integers: Final = _Integers(_MOST_KNOWN)
_encoded_numbers: Final[list[bytes]] = []


def _numbers(first: int, end: int) -> tuple[bytes, ...]:
    """The numbers [first, end) as they are encoded."""
    if end > _NUMBERS_MAX:
        return tuple(map(encode_integer, range(first, end)))
    known = _encoded_numbers
    if len(known) < end:
        known += map(encode_integer, range(len(known), end))
    return tuple(known[first:end])
