"""Control records: what Raft itself writes into the log, in Kafka's bytes (ControlRecordTypeSchema,
LeaderChangeMessage version 0)."""

import enum
import struct
from collections.abc import Sequence
from dataclasses import dataclass

from quorate.log.records import KeyValue, Record, build_keyed_batch, unsigned_varint

_KEY = struct.Struct(">hh")
_LEADER = struct.Struct(">hi")


class ControlType(enum.IntEnum):
    ABORT = 0
    COMMIT = 1
    LEADER_CHANGE = 2
    SNAPSHOT_HEADER = 3
    SNAPSHOT_FOOTER = 4
    KRAFT_VERSION = 5
    KRAFT_VOTERS = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderChange:
    """The first record of an epoch (KIP-595)."""

    leader: int
    voters: tuple[int, ...]
    granting_voters: tuple[int, ...]


def control_type_of(record: Record) -> ControlType | None:
    """None for a type that this version does not know. Raises `ValueError` for a key that is none."""
    if record.key is None or len(record.key) < _KEY.size:
        raise ValueError(f"the control record at offset {record.offset} has no key")
    kind: int = _KEY.unpack_from(record.key)[1]
    return ControlType(kind) if kind in ControlType.__members__.values() else None


def leader_change_batch(
    *,
    base_offset: int,
    epoch: int,
    timestamp_ms: int,
    leader: int,
    voters: Sequence[int],
    granting_voters: Sequence[int],
) -> bytes:
    """A control batch with one LeaderChange."""
    value = _LEADER.pack(0, leader) + _voters(voters) + _voters(granting_voters) + b"\x00"
    return build_keyed_batch(
        base_offset=base_offset,
        epoch=epoch,
        timestamp_ms=timestamp_ms,
        records=[KeyValue(_KEY.pack(0, ControlType.LEADER_CHANGE), value)],
        control=True,
    )


def _voters(voters: Sequence[int]) -> bytes:
    # A compact array of {voterId int32, no tagged fields}.
    return unsigned_varint(len(voters) + 1) + b"".join(struct.pack(">ib", voter, 0) for voter in voters)


def read_leader_change(value: bytes) -> LeaderChange:
    """Versions 0 and 1 (whose directory ids are skipped). Raises `ValueError`."""
    try:
        version, leader = _LEADER.unpack_from(value)
        voters, position = _read_voters(value, _LEADER.size, version)
        granting, _ = _read_voters(value, position, version)
    except (struct.error, IndexError) as error:
        raise ValueError(f"not a LeaderChange record: {error}") from error
    return LeaderChange(leader=leader, voters=voters, granting_voters=granting)


def _read_voters(value: bytes, position: int, version: int) -> tuple[tuple[int, ...], int]:
    count, position = _read_unsigned(value, position)
    voters: list[int] = []
    for _ in range(count - 1):
        voters.append(struct.unpack_from(">i", value, position)[0])
        position += 4 if version == 0 else 20
        tags, position = _read_unsigned(value, position)
        for _ in range(tags):
            _tag, position = _read_unsigned(value, position)
            size, position = _read_unsigned(value, position)
            position += size
    return tuple(voters), position


def _read_unsigned(value: bytes, position: int) -> tuple[int, int]:
    result = shift = 0
    while True:
        byte = value[position]
        position += 1
        result |= (byte & 0x7F) << shift
        if byte < 0x80:
            return result, position
        shift += 7
