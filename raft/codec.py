"""Core messages to frames and back. What arrives is validated into types here, at the door."""

from collections.abc import Sequence
from typing import NoReturn, TypeVar

from quorate.raft.core.messages import (
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
    EndQuorumEpochRequest,
    EndQuorumEpochResponse,
    ErrorCode,
    FetchRequest,
    FetchResponse,
    Message,
    Request,
    Response,
    VoteRequest,
    VoteResponse,
)
from quorate.raft.core.types import BatchSpan, Endpoint, Epoch, EpochEnd, NodeId, Offset, ReplicaKey
from quorate.raft.errors import PeerProtocolError
from quorate.raft.frames import RESPONSE, Field, Frame, Kind, encode_frame
from quorate.runtime.disk import Buffer

_MAX_VOTERS = 1000
_INT32 = 2**31
_INT64 = 2**63

Value = TypeVar("Value")


def encode(message: Message, records: Buffer = b"") -> list[Buffer]:
    """The buffers to send. A FetchResponse's records, its own or those given beside it, are passed by
    identity."""
    match message:
        case FetchRequest():
            return encode_frame(
                Kind.FETCH,
                message.correlation,
                [
                    *_request(message),
                    *_key(message.replica),
                    message.epoch,
                    message.offset,
                    message.last_fetched_epoch,
                    message.max_wait_ms,
                    message.max_bytes,
                    message.high_watermark,
                ],
            )
        case FetchResponse():
            diverging = message.diverging
            payload = records or message.records
            return encode_frame(
                Kind.FETCH + RESPONSE,
                message.correlation,
                [
                    *_response(message),
                    message.high_watermark,
                    message.log_start_offset,
                    None if diverging is None else [diverging.epoch, diverging.end_offset],
                ],
                [payload] if len(payload) else (),
            )
        case VoteRequest():
            return encode_frame(
                Kind.VOTE,
                message.correlation,
                [
                    *_request(message),
                    *_key(message.voter),
                    *_key(message.candidate),
                    message.epoch,
                    message.last_epoch,
                    message.end_offset,
                    message.pre_vote,
                ],
            )
        case VoteResponse():
            return encode_frame(
                Kind.VOTE + RESPONSE,
                message.correlation,
                [*_response(message), message.granted, message.pre_vote],
            )
        case BeginQuorumEpochRequest():
            return encode_frame(
                Kind.BEGIN_QUORUM_EPOCH,
                message.correlation,
                [*_request(message), *_key(message.voter), message.epoch, _endpoint(message.endpoint)],
            )
        case BeginQuorumEpochResponse():
            return encode_frame(Kind.BEGIN_QUORUM_EPOCH + RESPONSE, message.correlation, _response(message))
        case EndQuorumEpochRequest():
            return encode_frame(
                Kind.END_QUORUM_EPOCH,
                message.correlation,
                [*_request(message), message.epoch, list(message.preferred_successors)],
            )
        case EndQuorumEpochResponse():
            return encode_frame(Kind.END_QUORUM_EPOCH + RESPONSE, message.correlation, _response(message))


def _request(message: Request) -> list[Field]:
    return [message.source, message.destination, message.cluster_id]


def _response(message: Response) -> list[Field]:
    return [
        message.source,
        message.destination,
        int(message.error),
        message.epoch,
        message.leader,
        _endpoint(message.leader_endpoint),
    ]


def _key(key: ReplicaKey) -> list[Field]:
    return [key.id, key.directory_id]


def _endpoint(endpoint: Endpoint | None) -> Field:
    return None if endpoint is None else [endpoint.host, endpoint.port]


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

    def integer(self, limit: int = _INT64) -> int:
        value = self._take()
        if type(value) is not int or not 0 <= value < limit:
            self._refuse(f"has {value!r:.50} where a number from 0 below {limit} belongs")
        return value

    def optional_integer(self, limit: int = _INT64) -> int | None:
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
            or not all(type(item) is int and 0 <= item < _INT64 for item in value)
        ):
            self._refuse(f"has {value!r:.50} where a list of numbers belongs")
        return tuple(item for item in value if isinstance(item, int))

    def node(self) -> NodeId:
        return NodeId(self.integer(_INT32))

    def optional_node(self) -> NodeId | None:
        value = self.optional_integer(_INT32)
        return None if value is None else NodeId(value)

    def epoch(self) -> Epoch:
        return Epoch(self.integer(_INT32))

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
            case [int(epoch), int(end)] if 0 <= epoch < _INT32 and 0 <= end < _INT64:
                return EpochEnd(Epoch(epoch), Offset(end))
            case value:
                return self._refuse(f"has {value!r:.50} where [epoch, end offset] belongs")


def kind_of(message: Message) -> Kind:
    """Of a request."""
    match message:
        case FetchRequest():
            return Kind.FETCH
        case VoteRequest():
            return Kind.VOTE
        case BeginQuorumEpochRequest():
            return Kind.BEGIN_QUORUM_EPOCH
        case EndQuorumEpochRequest():
            return Kind.END_QUORUM_EPOCH
        case _:
            raise AssertionError(f"{type(message).__name__} is no request")


def is_core_message(frame: Frame) -> bool:
    return Kind.VOTE <= frame.kind <= Kind.FETCH + RESPONSE


def decode(frame: Frame, *, spans: Sequence[BatchSpan] = ()) -> Message:
    """A core message. `spans` describe a FetchResponse's payload, which the caller has checked.

    Raises `PeerProtocolError`.
    """
    read = FieldReader(frame.kind, frame.fields)
    correlation = frame.correlation
    source, destination = read.node(), read.node()
    if frame.kind & RESPONSE:
        return _decode_response(frame, read, correlation, source, destination, spans)
    cluster_id = read.text()
    match frame.kind:
        case Kind.FETCH:
            return FetchRequest(
                source=source,
                destination=destination,
                correlation=correlation,
                cluster_id=cluster_id,
                replica=read.key(),
                epoch=read.epoch(),
                offset=read.offset(),
                last_fetched_epoch=read.epoch(),
                max_wait_ms=read.integer(_INT32),
                max_bytes=read.integer(_INT32),
                high_watermark=read.optional_offset(),
            )
        case Kind.VOTE:
            return VoteRequest(
                source=source,
                destination=destination,
                correlation=correlation,
                cluster_id=cluster_id,
                voter=read.key(),
                candidate=read.key(),
                epoch=read.epoch(),
                last_epoch=read.epoch(),
                end_offset=read.offset(),
                pre_vote=read.boolean(),
            )
        case Kind.BEGIN_QUORUM_EPOCH:
            return BeginQuorumEpochRequest(
                source=source,
                destination=destination,
                correlation=correlation,
                cluster_id=cluster_id,
                voter=read.key(),
                epoch=read.epoch(),
                endpoint=read.endpoint(),
            )
        case Kind.END_QUORUM_EPOCH:
            return EndQuorumEpochRequest(
                source=source,
                destination=destination,
                correlation=correlation,
                cluster_id=cluster_id,
                epoch=read.epoch(),
                preferred_successors=tuple(NodeId(node) for node in read.integers()),
            )
    raise PeerProtocolError(f"frames of kind {frame.kind} are not known to this version")


def _decode_response(
    frame: Frame,
    read: FieldReader,
    correlation: int,
    source: NodeId,
    destination: NodeId,
    spans: Sequence[BatchSpan],
) -> Message:
    try:
        error = ErrorCode(read.integer(_INT32))
    except ValueError as unknown:
        raise PeerProtocolError(f"a response has an error code of a newer version: {unknown}") from unknown
    epoch, leader, endpoint = read.epoch(), read.optional_node(), read.endpoint()
    match frame.kind - RESPONSE:
        case Kind.FETCH:
            return FetchResponse(
                source=source,
                destination=destination,
                correlation=correlation,
                error=error,
                epoch=epoch,
                leader=leader,
                leader_endpoint=endpoint,
                high_watermark=read.optional_offset(),
                log_start_offset=read.offset(),
                diverging=read.epoch_end(),
                batches=tuple(spans),
                records=frame.payload,
            )
        case Kind.VOTE:
            return VoteResponse(
                source=source,
                destination=destination,
                correlation=correlation,
                error=error,
                epoch=epoch,
                leader=leader,
                leader_endpoint=endpoint,
                granted=read.boolean(),
                pre_vote=read.boolean(),
            )
        case Kind.BEGIN_QUORUM_EPOCH:
            return BeginQuorumEpochResponse(
                source=source,
                destination=destination,
                correlation=correlation,
                error=error,
                epoch=epoch,
                leader=leader,
                leader_endpoint=endpoint,
            )
        case Kind.END_QUORUM_EPOCH:
            return EndQuorumEpochResponse(
                source=source,
                destination=destination,
                correlation=correlation,
                error=error,
                epoch=epoch,
                leader=leader,
                leader_endpoint=endpoint,
            )
    raise PeerProtocolError(f"frames of kind {frame.kind} are not known to this version")
