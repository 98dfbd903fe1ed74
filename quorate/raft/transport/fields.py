"""The fields of a frame, each taken as the type that it must be."""

from collections.abc import Mapping, Sequence
from typing import Final, NoReturn

from quorate.error_code import ErrorCode
from quorate.raft.quorum_errors import PeerProtocolError
from quorate.raft.transport.frames import Field
from quorate.types import Endpoint, Epoch, EpochEnd, NodeId, Offset, ReplicaKey, SnapshotId

INT32: Final = 2**31
INT64: Final = 2**63
_MAX_VOTERS = 1000
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
_BY_NUMBER: Final[Mapping[int | None, ErrorCode]] = {int(code): code for code in QUORUM_CODES}


def quorum_code(number: int | None) -> ErrorCode:
    """Raises `PeerProtocolError` for a number that is none of `QUORUM_CODES`."""
    code = _BY_NUMBER.get(number)
    if code is None:
        raise PeerProtocolError(
            f"an answer has the error code {number}, which is of a newer version or not the quorum's"
        )
    return code


class FieldReader:
    """Takes a frame's fields one by one, each as the type it must be. Fields beyond those taken are of a
    newer version and are skipped. Raises `PeerProtocolError`."""

    __slots__ = ("_fields", "_kind", "_position")

    def __init__(self, kind: int, fields: Sequence[Field]) -> None:
        self._kind = kind
        self._fields = fields
        self._position = 0

    def _take(self) -> Field:
        position = self._position
        if position >= len(self._fields):
            self._refuse(f"has only {position} fields")
        self._position = position + 1
        return self._fields[position]

    def _refuse(self, what: str) -> NoReturn:
        raise PeerProtocolError(f"a frame of kind {self._kind} {what} (field {self._position})")

    @property
    def has_more(self) -> bool:
        """Whether the sender's version has another field; else it is older than the field."""
        return self._position < len(self._fields)

    def integer(self, limit: int = INT64) -> int:
        value = self._take()
        if type(value) is not int or not 0 <= value < limit:
            self._refuse(f"has {value!r:.50} where a number from 0 below {limit} belongs")
        return value

    def optional_integer(self, limit: int = INT64) -> int | None:
        value = self._take()
        if value is None:
            return None
        if type(value) is not int or not 0 <= value < limit:
            self._refuse(f"has {value!r:.50} where a number from 0 below {limit} belongs")
        return value

    def boolean(self) -> bool:
        value = self._take()
        if not isinstance(value, bool):
            self._refuse(f"has {value!r:.50} where true or false belongs")
        return value

    def text(self) -> str:
        value = self._take()
        if not isinstance(value, str):
            self._refuse(f"has {value!r:.50} where text belongs")
        return value

    def integers(self) -> tuple[int, ...]:
        value = self._take()
        if (
            not isinstance(value, list)
            or len(value) > _MAX_VOTERS
            or not all(type(item) is int and 0 <= item < INT64 for item in value)
        ):
            self._refuse(f"has {value!r:.50} where a list of numbers belongs")
        return tuple(item for item in value if isinstance(item, int))

    def arrays(self) -> tuple[list[Field], ...]:
        value = self._take()
        if not isinstance(value, list) or len(value) > _MAX_VOTERS:
            self._refuse(f"has {value!r:.50} where a list of arrays belongs")
        arrays = tuple(item for item in value if isinstance(item, list))
        if len(arrays) < len(value):
            self._refuse(f"has {value!r:.50} where a list of arrays belongs")
        return arrays

    def node(self) -> NodeId:
        return NodeId(self.integer(INT32))

    def destination(self) -> NodeId:
        """Below 0: whoever listens there, of whom the sender knows no more than the address."""
        value = self._take()
        if type(value) is not int or not -INT32 <= value < INT32:
            self._refuse(f"has {value!r:.50} where a node id belongs")
        return NodeId(value)

    def optional_node(self) -> NodeId | None:
        value = self.optional_integer(INT32)
        return None if value is None else NodeId(value)

    def error_code(self) -> ErrorCode:
        return quorum_code(self.integer(INT32))

    def epoch(self) -> Epoch:
        return Epoch(self.integer(INT32))

    def offset(self) -> Offset:
        return Offset(self.integer())

    def optional_offset(self) -> Offset | None:
        value = self.optional_integer()
        return None if value is None else Offset(value)

    def key(self) -> ReplicaKey:
        node, directory = self.node(), self._take()
        if directory is not None and not isinstance(directory, str):
            self._refuse(f"has {directory!r:.50} where a directory id belongs")
        return ReplicaKey(node, directory)

    def endpoint(self) -> Endpoint | None:
        match self._take():
            case None:
                return None
            case [str(host), int(port)] if 0 < port <= 65535:
                return Endpoint(host, port)
            case value:
                return self._refuse(f"has {value!r:.50} where [host, port] belongs")

    def epoch_end(self) -> EpochEnd | None:
        match self._take():
            case None:
                return None
            case [int(epoch), int(end)] if 0 <= epoch < INT32 and 0 <= end < INT64:
                return EpochEnd(Epoch(epoch), Offset(end))
            case value:
                return self._refuse(f"has {value!r:.50} where [epoch, end offset] belongs")

    def snapshot(self) -> SnapshotId:
        snapshot = self.optional_snapshot()
        return self._refuse("has no snapshot id") if snapshot is None else snapshot

    def optional_snapshot(self) -> SnapshotId | None:
        match self._take():
            case None:
                return None
            case [int(end), int(epoch)] if 0 <= end < INT64 and 0 <= epoch < INT32:
                return SnapshotId(Offset(end), Epoch(epoch))
            case value:
                return self._refuse(f"has {value!r:.50} where [end offset, epoch] belongs")
