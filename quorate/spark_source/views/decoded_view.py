"""`view=decoded`: every record with all its fields, in the struct of its type."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import fields
from typing import Final, get_args

import numpy as np
import pyarrow as pa

from quorate.broker.metadata.metadata_records import PartitionChange, Record
from quorate.broker.metadata.record_codec import RecordDecodeError, decode
from quorate.history import DamagedRecordError
from quorate.history.entries import UNKNOWN, head_of
from quorate.runtime import uuid_text
from quorate.spark_source.chunks import PLACE_FIELDS, Chunk, Longs, Places, all_but
from quorate.spark_source.columns import columns, fields_of, nulls, struct_array
from quorate.spark_source.partition_records import KINDS, PartitionRecords, numbered, partition_records
from quorate.spark_source.record_types import later_version, types_of

_TYPES: Final[tuple[type[Record], ...]] = tuple(each for each in get_args(Record) if fields(each))


def _snake_case(name: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()


_STRUCTS: Final = {each.__name__: (_snake_case(each.__name__), pa.struct(fields_of(each))) for each in _TYPES}
"""The column of each type that has fields: its name, and its type."""
DECODED: Final = pa.schema(
    [
        *PLACE_FIELDS,
        pa.field("type", pa.string(), nullable=False),
        pa.field("version", pa.int32(), nullable=False),
        pa.field("value", pa.binary()),
        *(pa.field(name, of) for name, of in _STRUCTS.values()),
    ]
)
_NAME: Final = ("topic_id", "partition_id")


class DecodedView:
    """A record of a type or version that came later has the type `Unknown` and its bytes in `value`, or is an
    error, by the option."""

    schema: Final = DECODED

    def __init__(self, *, mark_unknown: bool, types: frozenset[str] | None = None) -> None:
        """`types`: those that are asked for, if not all."""
        self._mark_unknown = mark_unknown
        self._wanted = types

    def rows(self, chunk: Chunk) -> Iterator[pa.RecordBatch]:
        """Yield the rows of these records, those of a type together."""
        if chunk.keys:
            chunk = chunk.without_control()
        if self._wanted is not None:
            chunk = chunk.take(np.flatnonzero(types_of(chunk).are_in(self._wanted)))
        places = chunk.places
        parts = partition_records(chunk)
        said = [self._decoded(chunk, at) for at in parts.examples]
        kind_of = np.array([isinstance(each, PartitionChange) for each in said], np.int64)
        for number, kind in enumerate(KINDS):
            index = np.flatnonzero(kind_of[parts.said] == number)
            if len(index):
                yield self._batch(places, parts.at[index], kind.__name__, _struct(parts, said, index, kind))
        others: dict[str, tuple[list[int], list[Record]]] = {}
        unknown: list[int] = []
        for at in all_but(parts.at, len(chunk)).tolist():
            record = self._decoded(chunk, at)
            if record is None:
                unknown.append(at)
                continue
            index_of, records = others.setdefault(type(record).__name__, ([], []))
            index_of.append(at)
            records.append(record)
        for name, (index_of, records) in others.items():
            struct = None
            if name in _STRUCTS:
                of = _STRUCTS[name][1]
                struct = struct_array(columns(records, list(of)), of)
            yield self._batch(places, np.array(index_of), name, struct)
        if unknown:
            yield self._unknown(places, np.array(unknown), [chunk.value(at) for at in unknown])

    def _decoded(self, chunk: Chunk, at: int) -> Record | None:
        value, offset = chunk.value(at), int(chunk.places.offsets[at])
        try:
            return decode(value)
        except RecordDecodeError as error:
            if error.__cause__ is not None:
                raise DamagedRecordError(f"the record at offset {offset}: {error}") from error
        if not self._mark_unknown:
            raise later_version(offset, value)
        return None

    def _batch(self, places: Places, index: Longs, name: str, struct: pa.Array | None) -> pa.RecordBatch:
        count = len(index)
        arrays = [
            *places.take(index).columns().values(),
            pa.repeat(pa.scalar(name), count),
            pa.repeat(pa.scalar(0, pa.int32()), count),
            nulls(count, pa.binary()),
        ]
        arrays += [
            struct if each == name and struct is not None else nulls(count, of)
            for each, (_, of) in _STRUCTS.items()
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=DECODED)

    def _unknown(self, places: Places, index: Longs, values: Sequence[bytes]) -> pa.RecordBatch:
        count = len(index)
        return pa.RecordBatch.from_arrays(
            [
                *places.take(index).columns().values(),
                pa.repeat(pa.scalar(UNKNOWN), count),
                pa.array([head_of(each).version for each in values], pa.int32()),
                pa.array(values, pa.binary()),
                *(nulls(count, of) for _, of in _STRUCTS.values()),
            ],
            schema=DECODED,
        )


def _struct(
    parts: PartitionRecords, said: Sequence[Record | None], index: Longs, kind: type[Record]
) -> pa.Array:
    """The fields of those records in `parts` of which `index` has the places there, all of one kind."""
    numbers, places = numbered(parts.said[index])
    of = _STRUCTS[kind.__name__][1]
    fields = fields_of(kind, without=_NAME)
    shared = columns([said[each] for each in numbers.tolist()], fields)
    by_name = {
        "topic_id": pa.array([uuid_text(each) for each in parts.topic_ids], pa.string()).take(
            pa.array(parts.topics[index])
        ),
        "partition_id": pa.array(parts.numbers[index].astype(np.int32)),
        **{each.name: column.take(pa.array(places)) for each, column in zip(fields, shared, strict=True)},
    }
    return struct_array([by_name[each.name] for each in of], of)
