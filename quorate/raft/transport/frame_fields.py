"""The kinds of fields in a frame."""

from collections.abc import Sequence
from typing import Final, TypeVar

from quorate.bounds import Integer, Most, Only
from quorate.cbor import Arrays, Kind, SchemaError, optional
from quorate.error_code import ErrorCode
from quorate.raft.quorum_errors import PeerProtocolError
from quorate.raft.transport.frames import Frame
from quorate.types import Endpoint, Epoch, EpochEnd, NodeId, Offset, ReplicaKey, SnapshotId

T = TypeVar("T")

QUORUM_CODES: Final = frozenset(
    {
        ErrorCode.NONE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.UNSUPPORTED_VERSION,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.SNAPSHOT_NOT_FOUND,
        ErrorCode.POSITION_OUT_OF_RANGE,
        ErrorCode.INCONSISTENT_CLUSTER_ID,
        ErrorCode.INVALID_VOTER_KEY,
        ErrorCode.DUPLICATE_VOTER,
        ErrorCode.VOTER_NOT_FOUND,
    }
)
"""The error codes in answers of the quorum's nodes. A node accepts no others."""

FRAME: Final = Arrays(
    {
        int: Integer(bits=64, low=0),
        str: Most(1 << 20),
        NodeId: Integer(low=0),
        Epoch: Integer(low=0),
        Offset: Integer(bits=64, low=0),
        ErrorCode: Only(QUORUM_CODES),
        Endpoint: Most(2),
        EpochEnd: Most(2),
        SnapshotId: Most(2),
    },
    flat=[ReplicaKey],
)
"""The fields of frames by their types, unless a field's own type says otherwise."""

INT32: Final = FRAME.kind(int, Integer(low=0))
INT64: Final = FRAME.kind(int)
TEXT: Final = FRAME.kind(str)
NODE: Final = FRAME.kind(NodeId)
EPOCH: Final = FRAME.kind(Epoch)
OFFSET: Final = FRAME.kind(Offset)
ERROR: Final = FRAME.kind(ErrorCode)
ENDPOINT: Final = FRAME.kind(Endpoint)
KEY: Final = FRAME.array(ReplicaKey)
_DIRECTORY_ID: Final = optional(TEXT)


class FieldReader:
    """Takes a frame's fields one by one, each as the kind it must be. Fields beyond those taken are of a
    newer version and are skipped. Raises `PeerProtocolError`."""

    __slots__ = ("_fields", "_kind", "_position")

    def __init__(self, frame: Frame, fields: Sequence[object] | None = None) -> None:
        """`fields`: in place of the frame's own."""
        self._kind = frame.kind
        self._fields = frame.fields if fields is None else fields
        self._position = 0

    @property
    def has_more(self) -> bool:
        """True if the sender's version has another field. Otherwise the sender is older than the field."""
        return self._position < len(self._fields)

    def take(self, kind: Kind[T]) -> T:
        if not self.has_more:
            raise PeerProtocolError(f"a frame of kind {self._kind} has only {self._position} fields")
        position = self._position
        self._position = position + 1
        try:
            return kind.decode_any(self._fields[position])
        except SchemaError as error:
            raise PeerProtocolError(f"a frame of kind {self._kind}, field {position}: {error}") from error

    def skip(self) -> None:
        self._position += 1

    def key(self) -> ReplicaKey:
        return ReplicaKey(self.take(NODE), self.take(_DIRECTORY_ID))
