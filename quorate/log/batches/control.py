"""Control records: what Raft itself writes into the log and into snapshots, in Kafka's bytes.

LeaderChange (KIP-595), SnapshotHeader and SnapshotFooter (KIP-630), KRaftVersion and KRaftVoters (KIP-853).
A value begins with its version; what a newer version appends as tagged fields is skipped. Some of ours
have one: the digest of the state, or the state version, which is the version of the state machine's code that
records may need.
"""

import enum
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar
from uuid import UUID

from quorate.kafka_bytes.primitives import Cursor, Pieces
from quorate.log.batches.batch import Batch
from quorate.log.batches.records import Record, RecordContent, build_keyed_batch, records_of
from quorate.log.log_errors import NEWER_WROTE_IT, InvalidBatchError
from quorate.runtime import parse_uuid, uuid_text
from quorate.types import Endpoint, NodeId, Offset, ReplicaKey, StateDigest, Voter, VotersAt, VoterSet

LISTENER_NAME = "CONTROLLER"
"""The listener name of the one endpoint of a voter."""
KRAFT_VERSION = 1
"""The `kraft.version` that voters in the log mean (KIP-853); 0 is a static set."""
_OWN_TAG = 10_000
"""The tagged field that is ours, far above Kafka's, which skips it: of a SnapshotFooter the digest of the
state, of a SnapshotHeader and a KRaftVersion the state version."""
_KEY = struct.Struct(">hh")
_Value = TypeVar("_Value")


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
    directory_ids: tuple[str | None, ...] = ()
    """The directory ids of the `voters`, in their order. Empty: version 0, which has none."""


def control_type_of(record: Record) -> ControlType | None:
    """None for a type that this version does not know. Raises `ValueError` for a key that is none."""
    if record.key is None or len(record.key) < _KEY.size:
        raise ValueError(f"the control record at offset {record.offset} has no key")
    kind: int = _KEY.unpack_from(record.key)[1]
    return ControlType(kind) if kind in ControlType.__members__.values() else None


# Batches


def leader_change_batch(
    *,
    base_offset: int,
    epoch: int,
    timestamp_ms: int,
    leader: int,
    voters: Sequence[int],
    granting_voters: Sequence[int],
    directory_ids: Mapping[int, str] | None = None,
    voter_set: VoterSet | None = None,
) -> bytes:
    """A control batch with a LeaderChange; with `voter_set`, KRaftVersion and KRaftVoters follow in it.

    `directory_ids` by node, where they are known; those in `voter_set` need not be repeated. With any, the
    LeaderChange is of version 1.
    """
    known = dict(directory_ids or {})
    for voter in voter_set or ():
        if voter.key.directory_id is not None:
            known[voter.key.id] = voter.key.directory_id
    value = Pieces().int16(1 if known else 0).int32(leader)
    for ids in (voters, granting_voters):
        value.count(len(ids))
        for each in ids:
            value.int32(each)
            if known:
                value.uuid(_uuid_of(known.get(each)))
            value.tags()
    records = [_control(ControlType.LEADER_CHANGE, value)]
    if voter_set is not None:
        records += _voter_records(voter_set, first=True)
    return _batch(records, base_offset=base_offset, epoch=epoch, timestamp_ms=timestamp_ms)


def voters_batch(*, base_offset: int, epoch: int, timestamp_ms: int, voters: VoterSet, first: bool) -> bytes:
    """A control batch with KRaftVoters; two records if `first`: KRaftVersion comes before."""
    records = _voter_records(voters, first=first)
    return _batch(records, base_offset=base_offset, epoch=epoch, timestamp_ms=timestamp_ms)


def state_version_batch(
    *, base_offset: int, epoch: int, timestamp_ms: int, kraft_version: int, state_version: int
) -> bytes:
    """A control batch with a KRaftVersion that changes nothing but the state version. `kraft_version`: the
    one in effect."""
    value = Pieces().int16(0).int16(kraft_version)
    records = [_control(ControlType.KRAFT_VERSION, value, _version_tags(state_version))]
    return _batch(records, base_offset=base_offset, epoch=epoch, timestamp_ms=timestamp_ms)


def _version_tags(state_version: int) -> list[tuple[int, bytes]]:
    return [(_OWN_TAG, Pieces().int32(state_version).joined())] if state_version else []


def snapshot_header_batch(
    *,
    base_offset: int,
    epoch: int,
    timestamp_ms: int,
    leader_change: bytes | None = None,
    state_version: int = 0,
) -> bytes:
    """A control batch with a SnapshotHeader. `timestamp_ms`: of the last record that the snapshot holds.
    `leader_change`: the value of a LeaderChange record of the log, which then follows in it.
    `state_version`: the one in effect at its end."""
    value = Pieces().int16(0).int64(timestamp_ms)
    records = [_control(ControlType.SNAPSHOT_HEADER, value, _version_tags(state_version))]
    if leader_change is not None:
        records.append(RecordContent(_KEY.pack(0, ControlType.LEADER_CHANGE), leader_change))
    return _batch(records, base_offset=base_offset, epoch=epoch, timestamp_ms=timestamp_ms)


def snapshot_footer_batch(
    *, base_offset: int, epoch: int, timestamp_ms: int, state: StateDigest | None = None
) -> bytes:
    """A control batch with a SnapshotFooter. `state`: the digest of the snapshot's state."""
    tags = [] if state is None else [(_OWN_TAG, _encode_state(state))]
    records = [_control(ControlType.SNAPSHOT_FOOTER, Pieces().int16(0), tags)]
    return _batch(records, base_offset=base_offset, epoch=epoch, timestamp_ms=timestamp_ms)


def _encode_state(state: StateDigest) -> bytes:
    return Pieces().string(state.form).string(state.digest).tags().joined()


def _control(kind: ControlType, value: Pieces, tags: Sequence[tuple[int, bytes]] = ()) -> RecordContent:
    return RecordContent(_KEY.pack(0, kind), value.tags(tags).joined())


def _batch(records: Sequence[RecordContent], *, base_offset: int, epoch: int, timestamp_ms: int) -> bytes:
    return build_keyed_batch(
        base_offset=base_offset, epoch=epoch, timestamp_ms=timestamp_ms, records=records, control=True
    )


def _uuid_of(directory_id: str | None) -> UUID | None:
    """Raises `ValueError` for an id that is none."""
    return None if directory_id is None else parse_uuid(directory_id)


def _voter_records(voters: VoterSet, *, first: bool) -> list[RecordContent]:
    record = RecordContent(_KEY.pack(0, ControlType.KRAFT_VOTERS), encode_voters(voters))
    if not first:
        return [record]
    return [_control(ControlType.KRAFT_VERSION, Pieces().int16(0).int16(KRAFT_VERSION)), record]


def encode_voters(voters: VoterSet) -> bytes:
    """The value of a KRaftVoters record. Raises `ValueError` for a directory id that is none."""
    value = Pieces().int16(0).count(len(voters))
    for voter in voters:
        value.int32(voter.key.id).uuid(_uuid_of(voter.key.directory_id)).count(1)
        value.string(LISTENER_NAME).string(voter.endpoint.host).uint16(voter.endpoint.port).tags()
        value.int16(0).int16(KRAFT_VERSION).tags().tags()
    return value.tags().joined()


# Reading


def read_leader_change(value: bytes) -> LeaderChange:
    """Decode a LeaderChange record. Raises `ValueError`."""
    return _read("LeaderChange", value, _read_leader_change, newest=1)


def read_voters(value: bytes) -> VoterSet:
    """The value of a KRaftVoters record. Raises `ValueError`."""
    return _read("KRaftVoters", value, _read_voters, newest=0)


def read_kraft_version(value: bytes) -> int:
    """Raises `ValueError`, also for one that this version does not know: what voters mean then is not known
    here."""
    version = _read("KRaftVersion", value, lambda reader, _: reader.int16(), newest=0)
    if not 0 <= version <= KRAFT_VERSION:
        raise ValueError(
            f"kraft.version {version} is not known, only up to {KRAFT_VERSION}: {NEWER_WROTE_IT}"
        )
    return version


def read_snapshot_header(value: bytes) -> int:
    """The timestamp (ms) of the last record that the snapshot holds. Raises `ValueError`."""
    return _read("SnapshotHeader", value, lambda reader, _: reader.int64(), newest=0)


def read_snapshot_version(value: bytes) -> int:
    """The state version in a SnapshotHeader. Raises `ValueError`."""
    return _read("SnapshotHeader", value, lambda reader, _: _read_version(reader, reader.int64()), newest=0)


def state_version_in(batch: Batch) -> int | None:
    """The state version that a control batch sets. None: it sets none. Raises `InvalidBatchError`."""
    for record, kind in control_records_of(batch):
        if kind is ControlType.KRAFT_VERSION:
            try:
                version = _read(
                    "KRaftVersion",
                    record.value or b"",
                    lambda reader, _: _read_version(reader, reader.int16()),
                    newest=0,
                )
            except ValueError as error:
                raise InvalidBatchError(str(error), position=batch.header.position) from error
            return version or None
    return None


def read_snapshot_footer(value: bytes) -> StateDigest | None:
    """The digest of the snapshot's state. None: its writer made none. Raises `ValueError`."""
    return _read("SnapshotFooter", value, _read_footer, newest=0)


def control_records_of(batch: Batch) -> list[tuple[Record, ControlType | None]]:
    """The records of a control batch and what they are. Raises `InvalidBatchError`."""
    try:
        return [(record, control_type_of(record)) for record in records_of(batch)]
    except ValueError as error:
        raise InvalidBatchError(str(error), position=batch.header.position) from error


def voters_in(batch: Batch) -> VotersAt | None:
    """The voter set in a batch and the offset of its record; None if it has none, as any but a control batch.
    Raises `InvalidBatchError`, also for a kraft.version that this version does not know."""
    if not batch.header.is_control:
        return None
    found: VotersAt | None = None
    for record, kind in control_records_of(batch):
        value = record.value or b""
        try:
            if kind is ControlType.KRAFT_VOTERS:
                found = VotersAt(Offset(record.offset), read_voters(value))
            elif kind is ControlType.KRAFT_VERSION:
                read_kraft_version(value)
        except ValueError as error:
            raise InvalidBatchError(str(error), position=batch.header.position) from error
    return found


def leader_change_in(batch: Batch) -> bytes | None:
    """The value of the LeaderChange record in a control batch. Raises `InvalidBatchError`."""
    for record, kind in control_records_of(batch):
        if kind is ControlType.LEADER_CHANGE:
            return record.value or b""
    return None


def _read(name: str, value: bytes, read: Callable[[Cursor, int], _Value], *, newest: int) -> _Value:
    reader = Cursor(memoryview(value), flexible=True)
    try:
        version = reader.int16()
        if not 0 <= version <= newest:
            raise ValueError(f"version {version} is not known, only up to {newest}: {NEWER_WROTE_IT}")
        return read(reader, version)
    except ValueError as error:
        raise ValueError(f"not a {name} record: {error}") from error


def _read_leader_change(reader: Cursor, version: int) -> LeaderChange:
    leader = reader.int32()
    voters, granting = (_read_change_voters(reader, version) for _ in range(2))
    return LeaderChange(
        leader=leader,
        voters=tuple(voter for voter, _ in voters),
        granting_voters=tuple(voter for voter, _ in granting),
        directory_ids=tuple(directory for _, directory in voters) if version else (),
    )


def _read_version(reader: Cursor, _before: int) -> int:
    """Read the tagged fields behind the last field."""
    for tag, data in reader.tags():
        if tag == _OWN_TAG:
            return Cursor(data, flexible=True).int32()
    return 0


def _read_footer(reader: Cursor, _version: int) -> StateDigest | None:
    for tag, data in reader.tags():
        if tag == _OWN_TAG:
            fields = Cursor(data, flexible=True)
            return StateDigest(fields.string(), fields.string())
    return None


def _directory(reader: Cursor) -> str | None:
    directory = reader.uuid()
    return None if directory is None else uuid_text(directory)


def _read_change_voters(reader: Cursor, version: int) -> list[tuple[int, str | None]]:
    voters: list[tuple[int, str | None]] = []
    for _ in range(reader.count(1)):
        voter = reader.int32()
        voters.append((voter, _directory(reader) if version else None))
        reader.tags()
    return voters


def _read_voters(reader: Cursor, _version: int) -> VoterSet:
    voters = [_read_voter(reader) for _ in range(reader.count(1))]
    return VoterSet(tuple(sorted(voters, key=lambda voter: voter.key.id)))


def _read_voter(reader: Cursor) -> Voter:
    key = ReplicaKey(NodeId(reader.int32()), _directory(reader))
    endpoints: dict[str, Endpoint] = {}
    for _ in range(reader.count(1)):
        name, host, port = reader.string(), reader.string(), reader.uint16()
        reader.tags()
        endpoints.setdefault(name, Endpoint(host, port))
    for _ in ("oldest", "newest"):
        reader.int16()
    reader.tags()
    reader.tags()
    if not endpoints:
        raise ValueError(f"voter {key.id} has no endpoint")
    # Kafka's own listener may be named otherwise: the first is the default one.
    return Voter(key, endpoints.get(LISTENER_NAME) or next(iter(endpoints.values())))
