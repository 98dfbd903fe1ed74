"""`view=decoded`: every record with all its fields, in the struct of its type."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import fields
from typing import Final, get_args

import numpy as np
import pyarrow as pa

from quorate.broker.metadata.metadata_records import PartitionChange, Record
from quorate.broker.metadata.record_codec import RecordDecodeError, decode, encode
from quorate.history import DamagedRecordError
from quorate.history.entries import UNKNOWN, head_of
from quorate.runtime import uuid_text
from quorate.spark_source.changes.partition_table import NAME_START, name_end, partition_name
from quorate.spark_source.chunks import PLACE_FIELDS, Chunk, Places
from quorate.spark_source.columns import columns, fields_of, struct_array
from quorate.spark_source.record_types import TypeNames, later_version

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
_NAMED: Final = ("topic_id", "partition_id")
_SAID: Final = tuple(fields_of(PartitionChange, without=_NAMED))
_KNOWN_MAX: Final = 1 << 16


class DecodedView:
    """A record of a type or version that came later has the type `Unknown` and its bytes in `value`, or is an
    error, by the option."""

    schema: Final = DECODED

    def __init__(self, *, mark_unknown: bool, types: frozenset[str] | None = None) -> None:
        """`types`: those that are asked for, if not all."""
        self._mark_unknown = mark_unknown
        self._wanted = types
        self._types = TypeNames()
        self._named: dict[bytes, tuple[str, int]] = {}
        """The topic's id and the partition's number, by the bytes of a PartitionChange that name them."""
        self._said: dict[bytes, PartitionChange] = {}
        """Changes by their other bytes."""

    def rows(self, chunk: Chunk) -> Iterator[pa.RecordBatch]:
        """Yield the rows of these records, those of a type together."""
        for memo in (self._named, self._said):
            if len(memo) > _KNOWN_MAX:
                memo.clear()
        places = chunk.places
        changes: list[int] = []
        names: list[tuple[str, int]] = []
        said: list[bytes] = []
        others: dict[str, tuple[list[int], list[Record]]] = {}
        unknown: list[int] = []
        wanted = self._wanted
        find_named, find_said = self._named.get, self._said.get
        for at, value in enumerate(chunk.values):
            if wanted is not None and (
                at in chunk.keys or self._types.of(value, int(places.offsets[at])) not in wanted
            ):
                continue
            end = name_end(value)
            key = value[:NAME_START] + value[end:]
            named = find_named(value[NAME_START:end])
            if named is None or find_said(key) is None:
                if at in chunk.keys:
                    continue
                record = self._decoded(value, places, at)
                if record is None:
                    unknown.append(at)
                    continue
                if not isinstance(record, PartitionChange):
                    index, records = others.setdefault(type(record).__name__, ([], []))
                    index.append(at)
                    records.append(record)
                    continue
                named = uuid_text(record.topic_id), record.partition_id
                key = self._learn(value, record, named)
            changes.append(at)
            names.append(named)
            said.append(key)
        if changes:
            yield self._batch(places, changes, "PartitionChange", self._change_struct(names, said))
        for name, (index, records) in others.items():
            struct = None
            if name in _STRUCTS:
                of = _STRUCTS[name][1]
                struct = struct_array(columns(records, list(of)), of)
            yield self._batch(places, index, name, struct)
        if unknown:
            yield self._unknown(places, unknown, [chunk.values[at] for at in unknown])

    def _learn(self, value: bytes, record: PartitionChange, named: tuple[str, int]) -> bytes:
        """Remember the parts of a change, and return the bytes that stand for what it says."""
        name = partition_name(record.topic_id, record.partition_id)
        if not value.startswith(name, NAME_START):
            value = encode(record)
        said = value[:NAME_START] + value[NAME_START + len(name) :]
        self._named[name] = named
        self._said[said] = record
        return said

    def _decoded(self, value: bytes, places: Places, at: int) -> Record | None:
        try:
            return decode(value)
        except RecordDecodeError as error:
            if error.__cause__ is not None:
                raise DamagedRecordError(f"the record at offset {places.offsets[at]}: {error}") from error
        if not self._mark_unknown:
            raise later_version(int(places.offsets[at]), value)
        return None

    def _change_struct(self, names: Sequence[tuple[str, int]], said: Sequence[bytes]) -> pa.Array:
        numbers: dict[bytes, int] = {}
        index = np.fromiter((numbers.setdefault(each, len(numbers)) for each in said), np.int64, len(said))
        of = _STRUCTS["PartitionChange"][1]
        shared = columns([self._said[each] for each in numbers], _SAID)
        by_name = {
            "topic_id": pa.array([each[0] for each in names], pa.string()),
            "partition_id": pa.array([each[1] for each in names], pa.int32()),
            **{field.name: column.take(pa.array(index)) for field, column in zip(_SAID, shared, strict=True)},
        }
        return struct_array([by_name[each.name] for each in of], of)

    def _batch(
        self, places: Places, index: Sequence[int], name: str, struct: pa.Array | None
    ) -> pa.RecordBatch:
        count = len(index)
        arrays = [
            *places.take(np.array(index)).columns().values(),
            pa.repeat(pa.scalar(name), count),
            pa.repeat(pa.scalar(0, pa.int32()), count),
            pa.nulls(count, pa.binary()),
        ]
        arrays += [
            struct if each == name and struct is not None else pa.nulls(count, of)
            for each, (_, of) in _STRUCTS.items()
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=DECODED)

    def _unknown(self, places: Places, index: Sequence[int], values: Sequence[bytes]) -> pa.RecordBatch:
        count = len(index)
        return pa.RecordBatch.from_arrays(
            [
                *places.take(np.array(index)).columns().values(),
                pa.repeat(pa.scalar(UNKNOWN), count),
                pa.array([head_of(each).version for each in values], pa.int32()),
                pa.array(values, pa.binary()),
                *(pa.nulls(count, of) for _, of in _STRUCTS.values()),
            ],
            schema=DECODED,
        )
