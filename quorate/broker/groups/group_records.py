"""The records of `__consumer_offsets`, in Kafka's format.

OffsetCommitKey (version 1), OffsetCommitValue (version 3), GroupMetadataKey (version 2) and
GroupMetadataValue (version 3), so that Kafka's dump tool prints them. Older values are read too; versions
from 4 on are flexible, and nobody wrote them here.
"""

import struct
from dataclasses import dataclass
from typing import Final, TypeAlias

from quorate.kafka_bytes.primitives import Cursor, Pieces
from quorate.kafka_bytes.varints import MalformedError
from quorate.log.batches.records import RecordContent
from quorate.types import UNKNOWN_EPOCH, Epoch, Offset
from quorate.value import value as plain_value

OFFSET_KEY_VERSIONS = (0, 1)
GROUP_KEY_VERSION = 2
_OFFSET_VALUE_VERSION = 3
_GROUP_VALUE_VERSION = 3
_COMMIT: Final = struct.Struct(">hqih")
"""The newest offset's fields before its metadata: version, offset, leader epoch, bytes of metadata."""
_COMMIT_TIME: Final = struct.Struct(">q")
_PARTITION: Final = struct.Struct(">i")


@dataclass(frozen=True, slots=True)
class OffsetKey:
    group_id: str
    topic: str
    partition: int


@dataclass(frozen=True, slots=True)
class GroupKey:
    group_id: str


Key: TypeAlias = OffsetKey | GroupKey


@plain_value(frozen=True, slots=True, kw_only=True)
class OffsetValue:
    """A committed offset. `leader_epoch` -1: unknown."""

    offset: Offset
    leader_epoch: Epoch = UNKNOWN_EPOCH
    metadata: str = ""
    commit_timestamp_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberValue:
    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    subscription: bytes
    assignment: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupValue:
    """A group at the end of a rebalance."""

    protocol_type: str
    generation: int
    protocol: str | None
    leader: str | None
    state_timestamp_ms: int = -1
    members: tuple[MemberValue, ...] = ()


def offset_record(key: OffsetKey, value: OffsetValue | None) -> RecordContent:
    """Encode a record; a value of None is a tombstone."""
    out = Pieces(flexible=False)
    out.int16(1).string(key.group_id).string(key.topic).int32(key.partition)
    if value is None:
        return RecordContent(out.joined(), None)
    body = Pieces(flexible=False)
    body.int16(_OFFSET_VALUE_VERSION).int64(value.offset).int32(value.leader_epoch)
    body.string(value.metadata).int64(value.commit_timestamp_ms)
    return RecordContent(out.joined(), body.joined())


def group_record(key: GroupKey, value: GroupValue | None) -> RecordContent:
    """Encode a record; a value of None is a tombstone."""
    out = Pieces(flexible=False)
    out.int16(GROUP_KEY_VERSION).string(key.group_id)
    if value is None:
        return RecordContent(out.joined(), None)
    body = Pieces(flexible=False)
    body.int16(_GROUP_VALUE_VERSION).string(value.protocol_type).int32(value.generation)
    body.string(value.protocol).string(value.leader).int64(value.state_timestamp_ms)
    body.int32(len(value.members))
    for member in value.members:
        body.string(member.member_id).string(member.instance_id)
        body.string(member.client_id).string(member.client_host)
        body.int32(member.rebalance_timeout_ms).int32(member.session_timeout_ms)
        body.blob(member.subscription).blob(member.assignment)
    return RecordContent(out.joined(), body.joined())


def read_key(data: bytes) -> Key | None:
    """Decode a key; None for a kind of record that this version does not know. Raises `MalformedError`."""
    cursor = Cursor(memoryview(data), flexible=False)
    version = cursor.int16()
    if version in OFFSET_KEY_VERSIONS:
        return OffsetKey(cursor.string(), cursor.string(), cursor.int32())
    if version == GROUP_KEY_VERSION:
        return GroupKey(cursor.string())
    return None


def offset_prefix(key: OffsetKey, data: bytes) -> bytes | None:
    """Return the part of the key's encoding `data` that the keys of the topic's other partitions share: all
    but the partition. None where bytes follow the partition."""
    size = 2 + 2 + len(key.group_id.encode()) + 2 + len(key.topic.encode())
    return data[:size] if size + _PARTITION.size == len(data) else None


def partition_behind(data: bytes) -> int:
    """Return the partition of an offset's key whose `offset_prefix` is known."""
    (partition,) = _PARTITION.unpack_from(data, len(data) - _PARTITION.size)
    return int(partition)


def read_offset(data: bytes) -> OffsetValue:
    """Decode a committed offset. Raises `MalformedError`."""
    if len(data) == _COMMIT.size + _COMMIT_TIME.size:
        version, offset, leader_epoch, metadata_bytes = _COMMIT.unpack_from(data)
        if version == _OFFSET_VALUE_VERSION and not metadata_bytes:
            # As below, at a quarter of the cost: most commits are without metadata.
            (timestamp_ms,) = _COMMIT_TIME.unpack_from(data, _COMMIT.size)
            return OffsetValue(offset=offset, leader_epoch=leader_epoch, commit_timestamp_ms=timestamp_ms)
    return _read_offset(data)


def _read_offset(data: bytes) -> OffsetValue:
    cursor = Cursor(memoryview(data), flexible=False)
    version = cursor.int16()
    if not 0 <= version <= _OFFSET_VALUE_VERSION:
        raise MalformedError(f"an offset of version {version}")
    offset = Offset(cursor.int64())
    leader_epoch = Epoch(cursor.int32()) if version >= 3 else UNKNOWN_EPOCH
    return OffsetValue(
        offset=offset, leader_epoch=leader_epoch, metadata=cursor.string(), commit_timestamp_ms=cursor.int64()
    )


def read_group(data: bytes) -> GroupValue:
    """Decode a group. Raises `MalformedError`."""
    cursor = Cursor(memoryview(data), flexible=False)
    version = cursor.int16()
    if not 0 <= version <= _GROUP_VALUE_VERSION:
        raise MalformedError(f"a group of version {version}")
    protocol_type = cursor.string()
    generation = cursor.int32()
    protocol, leader = cursor.nullable_string(), cursor.nullable_string()
    timestamp_ms = cursor.int64() if version >= 2 else -1
    members: list[MemberValue] = []
    for _ in range(cursor.int32()):
        member_id = cursor.string()
        instance_id = cursor.nullable_string() if version >= 3 else None
        client_id, client_host = cursor.string(), cursor.string()
        rebalance_ms = cursor.int32() if version >= 1 else -1
        session_ms = cursor.int32()
        members.append(
            MemberValue(
                member_id=member_id,
                instance_id=instance_id,
                client_id=client_id,
                client_host=client_host,
                rebalance_timeout_ms=rebalance_ms if version >= 1 else session_ms,
                session_timeout_ms=session_ms,
                subscription=cursor.blob(),
                assignment=cursor.blob(),
            )
        )
    return GroupValue(
        protocol_type=protocol_type,
        generation=generation,
        protocol=protocol,
        leader=leader,
        state_timestamp_ms=timestamp_ms,
        members=tuple(members),
    )
