"""The kinds of fields in a frame."""

from collections.abc import Sequence
from typing import Final, TypeVar, cast

from quorate.cbor import Array, Kind, SchemaError, integer, one_of, optional, text
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
"""What the quorum's nodes answer with. They take no other code from each other."""
MAX_VOTERS: Final = 1000

INT32: Final = integer(low=0)
INT64: Final = integer(bits=64, low=0)
TEXT: Final = text(most=1 << 20)
NODE: Final = cast("Kind[NodeId]", INT32)
DESTINATION: Final = cast("Kind[NodeId]", integer())
"""Below 0: whoever listens there, of whom the sender knows no more than the address."""
EPOCH: Final = cast("Kind[Epoch]", INT32)
OFFSET: Final = cast("Kind[Offset]", INT64)
ERROR: Final = one_of(ErrorCode, only=QUORUM_CODES)
KEY: Final = Array(ReplicaKey, id=NODE, directory_id=optional(TEXT))
ENDPOINT: Final = Array(Endpoint, host=TEXT, port=integer(low=1, high=65535)).kind(most=2)
EPOCH_END: Final = Array(EpochEnd, epoch=EPOCH, end_offset=OFFSET).kind(most=2)
SNAPSHOT: Final = Array(SnapshotId, end_offset=OFFSET, epoch=EPOCH).kind(most=2)


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
        return ReplicaKey(self.take(NODE), self.take(optional(TEXT)))
