"""Batches of the metadata log, taken apart into entries."""

import enum
import json
from collections.abc import Iterator
from dataclasses import dataclass, fields, is_dataclass
from functools import cache
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias
from uuid import UUID

from quorate.broker.metadata.metadata_records import Record
from quorate.broker.metadata.record_codec import (
    MAX_RECORD_BYTES,
    TYPE_NUMBERS,
    RecordDecodeError,
    decode,
    encode,
    type_of,
)
from quorate.cbor import SchemaError, load
from quorate.history.history_errors import DamagedRecordError
from quorate.log import InvalidBatchError
from quorate.log.batches.batch import Batch, BatchHeader
from quorate.log.batches.control import (
    ControlType,
    LeaderChange,
    control_type_of,
    read_kraft_version,
    read_leader_change,
    read_snapshot_header,
    read_voters,
)
from quorate.log.batches.records import Record as LogRecord
from quorate.log.batches.records import records_of
from quorate.runtime import uuid_text
from quorate.types import (
    HIDDEN,
    SecretBytes,
    VoterSet,
)

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

_ARRAY_OF_THREE: Final = 0x83
_SMALL: Final = 24
"""CBOR integers below this are one byte."""
UNKNOWN: Final = "Unknown"


@dataclass(frozen=True, slots=True)
class KRaftVersion:
    """1 from when the voters are in the log."""

    version: int


@dataclass(frozen=True, slots=True)
class SnapshotHeader:
    """A snapshot's first record."""

    last_timestamp_ms: int
    """The timestamp of the last record of the log that it holds."""


ControlRecord: TypeAlias = LeaderChange | VoterSet | KRaftVersion | SnapshotHeader


class Entry(NamedTuple):
    """One record of the log."""

    offset: int
    epoch: int
    timestamp_ms: int
    batch_offset: int
    """Base offset of its batch: what one append wrote together."""
    control: bool
    type: str
    """The record's type by name, `Unknown` for one of a later version of quorate."""
    version: int
    record: Record | ControlRecord | None
    """None for a type or version that this version does not know, and where there is nothing to say."""
    value: bytes


@dataclass(frozen=True, slots=True)
class Head:
    number: int
    version: int


def head_of(data: bytes) -> Head:
    """Type number and version of an encoded record, without decoding the rest."""
    if len(data) > 3 and data[0] == _ARRAY_OF_THREE and data[1] < _SMALL and data[2] < _SMALL:
        return Head(data[1], data[2])
    match load(data, max_bytes=MAX_RECORD_BYTES):
        case [int(number), int(version), _]:
            return Head(number, version)
    raise SchemaError("a metadata record is [type, version, fields]")


def type_of_value(data: bytes) -> str:
    """Return the type of an encoded record by name, `Unknown` for one of a later version. Raises
    `SchemaError`."""
    head = head_of(data)
    of = type_of(head.number, head.version)
    return UNKNOWN if of is None else of.__name__


def type_number(example: Record) -> int:
    """The number that stands for this record's type in the log."""
    return head_of(encode(example)).number


def entries_of(batch: Batch, *, start: int, end: int, only: frozenset[int] | None = None) -> Iterator[Entry]:
    """Return the entries of `batch` with offsets in [start, end). `only` limits them to these record types,
    and to types that this version does not know. Other records, and control records, are skipped without
    decoding. Raises `DamagedRecordError`."""
    header = batch.header
    if header.is_control and only is not None:
        return
    skipped = None if only is None else TYPE_NUMBERS - only
    try:
        records = records_of(batch)
    except InvalidBatchError as error:
        raise DamagedRecordError(f"the batch at offset {header.base_offset}: {error}") from error
    for record in records:
        if record.offset < start or record.offset >= end:
            continue
        try:
            if header.is_control:
                yield _control_entry(header, record)
            elif skipped is None or head_of(record.value or b"").number not in skipped:
                yield _entry(header, record)
        except ValueError as error:
            # RecordDecodeError and SchemaError are ValueErrors.
            raise DamagedRecordError(f"the record at offset {record.offset}: {error}") from error


def _entry(header: BatchHeader, raw: LogRecord) -> Entry:
    value = raw.value or b""
    head = head_of(value)
    record: Record | None
    try:
        record = decode(value)
        name = type(record).__name__
    except RecordDecodeError as error:
        if error.__cause__ is not None:
            raise
        # Well-formed, but of a type or version that came later. A node has to stop there; a reader of
        # history can show it as it is.
        record, name = None, UNKNOWN
    return Entry(
        raw.offset,
        header.leader_epoch,
        raw.timestamp,
        header.base_offset,
        False,
        name,
        head.version,
        record,
        value,
    )


def _control_entry(header: BatchHeader, raw: LogRecord) -> Entry:
    value = raw.value or b""
    name, record = control_of(raw)
    return Entry(
        raw.offset,
        header.leader_epoch,
        raw.timestamp,
        header.base_offset,
        True,
        name,
        int.from_bytes(value[:2], "big"),
        record,
        value,
    )


def type_of_control(raw: LogRecord) -> str:
    """Return the type of a control record by name, `Unknown` for one of a later version. Raises
    `ValueError`."""
    kind = control_type_of(raw)
    return UNKNOWN if kind is None else _CONTROL_NAMES.get(kind) or _camel_case(kind.name)


def control_of(raw: LogRecord) -> tuple[str, ControlRecord | None]:
    """Return the type of a control record, and what it says; `Unknown` and None for one of a later version.
    Raises `ValueError`."""
    return type_of_control(raw), _control_record(control_type_of(raw), raw.value or b"")


_CONTROL_NAMES: Final = {
    ControlType.KRAFT_VERSION: "KRaftVersion",
    ControlType.KRAFT_VOTERS: "KRaftVoters",
}


def _camel_case(name: str) -> str:
    return "".join(word.capitalize() for word in name.split("_"))


def _control_record(kind: ControlType | None, value: bytes) -> ControlRecord | None:
    match kind:
        case ControlType.LEADER_CHANGE:
            return read_leader_change(value)
        case ControlType.KRAFT_VERSION:
            return KRaftVersion(read_kraft_version(value))
        case ControlType.KRAFT_VOTERS:
            return read_voters(value)
        case ControlType.SNAPSHOT_HEADER:
            return SnapshotHeader(read_snapshot_header(value))
        case _:
            return None


def record_json(entry: Entry) -> str | None:
    """Return all fields of a record as JSON, under quorate's names: UUIDs in Kafka's text form, enum members
    by name. For a record of an unknown type, return its CBOR fields under their numbers; for an unknown
    control record, None."""
    if entry.record is not None:
        return _dump(_plain(entry.record))
    if entry.control:
        return None
    match load(entry.value, max_bytes=MAX_RECORD_BYTES):
        case [number, _, body]:
            return _dump({"type": number, "fields": _plain(body)})
    return None


def _dump(value: object) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


@cache
def _names(of: "type[DataclassInstance]") -> tuple[str, ...]:
    return tuple(each.name for each in fields(of))


def _plain(value: object) -> object:
    match value:
        case enum.Enum():
            return value.name
        case None | bool() | int() | float() | str():
            return value
        case UUID():
            return uuid_text(value)
        case SecretBytes():
            return HIDDEN
        case bytes():
            return value.hex()
        case tuple() | list():
            return [_plain(each) for each in value]
        case dict():
            return {str(key): _plain(each) for key, each in value.items()}
    if not is_dataclass(value) or isinstance(value, type):
        raise TypeError(f"no JSON for {type(value).__name__}")
    return {name: _plain(getattr(value, name)) for name in _names(type(value))}
