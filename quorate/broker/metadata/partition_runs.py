"""Partition records that follow one another in a topic, decoded together into columns.

A replay reads millions of them. One by one each costs an object, a look at its topic and a place in every
count; together they cost a fifth of that. Every byte is checked as for one record: whatever is not exactly as
`encode` writes it is decoded by `decode`, with its error.
"""

import contextlib
from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import Final
from uuid import UUID

from quorate.broker.metadata.metadata_records import Partition, Record
from quorate.broker.metadata.record_codec import (
    PARTITION_KIND,
    Row,
    UnlikeError,
    broker_fields,
    decode,
    directory_lists,
    encode_integer,
    integer_of,
    integers,
    row_of,
    rows_of,
)
from quorate.broker.metadata.states import PartitionState
from quorate.broker.metadata.topic_partitions import TopicPartitions
from quorate.cbor import decode_identifier

RUN_MAX: Final = 512
"""Records that are decoded together, in about a millisecond."""
_RUN_MIN: Final = 4
_NUMBERS_MAX: Final = 1 << 16

_KIND = itemgetter(slice(3))


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
        if kind != PARTITION_KIND:
            records += map(decode, group)
            continue
        partitions = list(group)
        for start in range(0, len(partitions), RUN_MAX):
            records += _decode_partitions(partitions[start : start + RUN_MAX])
    return records


def _decode_partitions(values: list[bytes]) -> Iterable[Record | PartitionRun]:
    if len(values) < _RUN_MIN:
        return map(decode, values)
    rows: list[Row] | list[Row | None] = rows_of(b"".join(values))
    if [row and row[0] for row in rows] != values:
        rows = [row_of(value) for value in values]
    records: list[Record | PartitionRun] = []
    start = 0
    for topic_id, group in groupby(rows, lambda row: row and row[2]):
        run = list(group)
        end = start + len(run)
        found = None
        if topic_id is not None and len(run) >= _RUN_MIN:
            with contextlib.suppress(UnlikeError):
                found = _run_of([row for row in run if row is not None])
        records += map(decode, values[start:end]) if found is None else (found,)
        start = end
    return records


def _run_of(rows: Sequence[Row]) -> PartitionRun:
    """Raises `UnlikeError`."""
    _, sizes, topic_ids, numbers, brokers, leader_epochs, partition_epochs, directories = zip(
        *rows, strict=True
    )
    first = integer_of(numbers[0])
    if numbers != _numbers(first, first + len(rows)):
        raise UnlikeError
    shapes = list(map(broker_fields.__getitem__, brokers))
    # A map's size has to count all its fields. In the order of their numbers none is there twice.
    counted = [
        (size[0] & 31) - held - (leader_epoch != b"") - (partition_epoch != b"") - (raw != b"")
        for size, (_, held), leader_epoch, partition_epoch, raw in zip(
            sizes, shapes, leader_epochs, partition_epochs, directories, strict=True
        )
    ]
    placed = list(map(directory_lists.__getitem__, directories))
    if counted.count(2) != len(counted) or any(
        ids and len(ids) != len(shape[0]) for ids, (shape, _) in zip(placed, shapes, strict=True)
    ):
        raise UnlikeError
    return PartitionRun(
        decode_identifier(topic_ids[0]),
        first,
        TopicPartitions.of(
            leader_epochs=array("i", map(integers.__getitem__, leader_epochs)),
            partition_epochs=array("i", map(integers.__getitem__, partition_epochs)),
            shapes=[shape for shape, _ in shapes],
            directories=placed,
        ),
    )


# A memo, not state.
_encoded_numbers: Final[list[bytes]] = []


def _numbers(first: int, end: int) -> tuple[bytes, ...]:
    """The numbers [first, end) as they are encoded."""
    if end > _NUMBERS_MAX:
        return tuple(map(encode_integer, range(first, end)))
    known = _encoded_numbers
    if len(known) < end:
        known += map(encode_integer, range(len(known), end))
    return tuple(known[first:end])
