"""LIST_SNAPSHOTS and READ_SNAPSHOT: the snapshots of a node, for clients that read its metadata.

Each names the cluster first. The list is the response's payload, as it would not fit a header: an array of
`[[end offset, epoch], size, timestamp of the last record]`. A chunk is a payload too; the size of the whole
stands where an append has its base offset.
"""

from dataclasses import dataclass
from typing import Final

from quorate.cbor import dump, sequence
from quorate.raft.quorum_errors import PeerProtocolError
from quorate.raft.transport.append_frames import decode_outcome, encode_outcome
from quorate.raft.transport.frame_fields import FRAME, INT32, INT64, TEXT, FieldReader
from quorate.raft.transport.frames import Frame, FrameKind, load
from quorate.runtime import Buffer
from quorate.types import Offset, SnapshotId

MAX_LISTED: Final = 10_000


@dataclass(frozen=True, slots=True)
class ListedSnapshot:
    """A snapshot on a node's disk."""

    snapshot: SnapshotId
    size_bytes: int
    last_timestamp_ms: int
    """The timestamp of the last record that it holds."""


@dataclass(frozen=True, slots=True)
class SnapshotRead:
    """A request for a piece of a snapshot."""

    cluster_id: str
    snapshot: SnapshotId
    position: int
    max_bytes: int


_SNAPSHOT: Final = FRAME.kind(SnapshotId)
_LISTED: Final = sequence(FRAME.kind(ListedSnapshot), most=MAX_LISTED)


def snapshot_read_fields(snapshot: SnapshotId, position: int, max_bytes: int) -> list[object]:
    """Return the fields after the cluster id of a READ_SNAPSHOT request."""
    return [_SNAPSHOT.encode(snapshot), position, max_bytes]


def decode_snapshot_read(frame: Frame) -> SnapshotRead:
    """Raises `PeerProtocolError`."""
    read = FieldReader(frame)
    return SnapshotRead(read.take(TEXT), read.take(_SNAPSHOT), read.take(INT64), read.take(INT32))


def encode_listed(correlation: int, listed: tuple[ListedSnapshot, ...]) -> list[Buffer]:
    """Encode the answer to a LIST_SNAPSHOTS request: the newest, if there are too many."""
    payload = dump(_LISTED.encode(listed[-MAX_LISTED:]))
    return encode_outcome(FrameKind.LIST_SNAPSHOTS, correlation, payload=[payload])


def decode_listed(frame: Frame) -> tuple[ListedSnapshot, ...]:
    """Raises `PeerProtocolError`, or what was answered as a `QuorumError`."""
    decode_outcome(frame, FrameKind.LIST_SNAPSHOTS)
    return FieldReader(frame, [load(bytes(frame.payload))]).take(_LISTED)


def encode_chunk(correlation: int, chunk: bytes, size_bytes: int) -> list[Buffer]:
    """The answer to a READ_SNAPSHOT request."""
    return encode_outcome(FrameKind.READ_SNAPSHOT, correlation, offset=Offset(size_bytes), payload=[chunk])


def decode_chunk(frame: Frame) -> tuple[bytes, int]:
    """The bytes, and the size of the whole. Raises as `decode_listed`."""
    _, _, size = decode_outcome(frame, FrameKind.READ_SNAPSHOT)
    if size is None:
        raise PeerProtocolError("a chunk of a snapshot comes without the size of the whole")
    return bytes(frame.payload), size
