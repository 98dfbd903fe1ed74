"""Produce, written by hand: it is the hot way in, and record bytes stay views of the receive buffer.

Versions 0 to 12 of ProduceRequest.json and ProduceResponse.json (0 to 2 only to be refused in kind).
"""

import struct
from collections.abc import Callable, Sequence
from types import MappingProxyType
from typing import Final

from kio.schema.errors import ErrorCode

from quorate.broker.wire.codecs.entities import cut_message
from quorate.kafka_bytes.primitives import Cursor, Pieces
from quorate.runtime import Buffer, Steps, at_once, let_go
from quorate.types import UNKNOWN_EPOCH, UNKNOWN_OFFSET, Epoch, Offset
from quorate.value import value

FIRST_FLEXIBLE = 9
PER_STEP: Final = 64
"""Partitions between two yields of a long request or answer, and topics: 0.3 ms."""
_ACKS_AND_TIMEOUT = struct.Struct(">hi")
ERRORS: Final = MappingProxyType({int(code): code for code in ErrorCode})
"""The codes by number; calling the enum costs three times as much."""
_PARTITION_RESPONSE = struct.Struct(">ihqqq")


@value(frozen=True, slots=True)
class ProducePartition:
    index: int
    records: memoryview | None
    """Record batches as sent, unchecked; a view of the frame."""


@value(frozen=True, slots=True)
class ProduceTopic:
    name: str
    partitions: Sequence[ProducePartition]


@value(frozen=True, slots=True, kw_only=True)
class ProduceRequest:
    version: int
    transactional_id: str | None = None
    acks: int
    """0: no answer is sent; 1: the leader's append; -1: every in-sync replica's."""
    timeout_ms: int
    topics: Sequence[ProduceTopic]

    def skeleton_steps(self) -> "Steps[ProduceRequest]":
        """Return the request without records, so that an answer to come does not keep the frame alive."""
        topics: list[ProduceTopic] = []
        for topic in self.topics:
            parts: list[ProducePartition] = []
            for part in topic.partitions:
                parts.append(ProducePartition(part.index, None))
                if len(parts) % PER_STEP == 0:
                    yield
            topics.append(ProduceTopic(topic.name, parts))
            if len(topics) % PER_STEP == 0:
                yield
        return ProduceRequest(
            version=self.version,
            transactional_id=self.transactional_id,
            acks=self.acks,
            timeout_ms=self.timeout_ms,
            topics=topics,
        )

    def let_go_steps(self) -> Steps[None]:
        """Drop the references to all partitions."""
        for number, topic in enumerate(self.topics, 1):
            if isinstance(topic.partitions, list):
                yield from let_go(topic.partitions)
            if number % PER_STEP == 0:
                yield
        if isinstance(self.topics, list):
            yield from let_go(self.topics)


@value(frozen=True, slots=True, kw_only=True)
class ProducedPartition:
    """The outcome for one partition. `leader_*` are hints for NOT_LEADER_OR_FOLLOWER (KIP-951, v10+)."""

    index: int
    error: ErrorCode = ErrorCode.none
    base_offset: Offset = UNKNOWN_OFFSET
    log_append_time_ms: int = -1
    log_start_offset: Offset = UNKNOWN_OFFSET
    error_message: str | None = None
    record_errors: Sequence[tuple[int, str | None]] = ()
    """(index of the record in its batch, message), v8+."""
    leader_id: int = -1
    leader_epoch: Epoch = UNKNOWN_EPOCH


@value(frozen=True, slots=True)
class NodeEndpoint:
    """The endpoint of a leader named in a response (KIP-951)."""

    node_id: int
    host: str
    port: int
    rack: str | None = None


@value(frozen=True, slots=True)
class ProducedTopic:
    name: str
    partitions: Sequence[ProducedPartition]


def decode_produce_request(body: memoryview, version: int) -> ProduceRequest:
    """Decode a request. Raises `MalformedError`."""
    return at_once(decode_produce_steps(body, version))


def decode_produce_steps(body: memoryview, version: int) -> Steps[ProduceRequest]:
    """Decode in steps, as `decode_produce_request`."""
    cursor = Cursor(body, flexible=version >= FIRST_FLEXIBLE)
    transactional_id = cursor.nullable_string() if version >= 3 else None
    acks, timeout_ms = cursor.unpack(_ACKS_AND_TIMEOUT)
    topics = []
    for _ in range(cursor.count(3)):
        name = cursor.string()
        partitions: list[ProducePartition] = []
        for number in range(cursor.count(5)):
            partitions.append(ProducePartition(cursor.int32(), cursor.records()))
            cursor.tags()
            if number % PER_STEP == PER_STEP - 1:
                yield
        topics.append(ProduceTopic(name, partitions))
        cursor.tags()
        if len(topics) % PER_STEP == 0:
            yield
    cursor.tags()
    cursor.finish()
    return ProduceRequest(
        version=version, transactional_id=transactional_id, acks=acks, timeout_ms=timeout_ms, topics=topics
    )


def encode_produce_request(request: ProduceRequest) -> list[Buffer]:
    """Encode the body as pieces; records are passed on by identity."""
    pieces = Pieces(flexible=request.version >= FIRST_FLEXIBLE)
    if request.version >= 3:
        pieces.string(request.transactional_id)
    pieces.write(_ACKS_AND_TIMEOUT.pack(request.acks, request.timeout_ms))
    pieces.count(len(request.topics))
    for topic in request.topics:
        pieces.string(topic.name)
        pieces.count(len(topic.partitions))
        for part in topic.partitions:
            pieces.int32(part.index)
            pieces.records(None if part.records is None else (part.records,))
            pieces.tags()
        pieces.tags()
    pieces.tags()
    return pieces.finish()


def encode_produce_steps(
    topics: Sequence[ProducedTopic],
    *,
    version: int,
    throttle_ms: int = 0,
    node_endpoints: Callable[[], Sequence[NodeEndpoint]] = tuple,
) -> Steps[list[Buffer]]:
    """Encode the body, in steps. Every partition of the request must be in it: clients hang on one that is
    missing. Topics and partitions are iterated once, in order, before `node_endpoints` is called."""
    pieces = Pieces(flexible=version >= FIRST_FLEXIBLE)
    pieces.count(len(topics))
    for place, topic in enumerate(topics, 1):
        pieces.string(topic.name)
        pieces.count(len(topic.partitions))
        for number, part in enumerate(topic.partitions, 1):
            _partition_response(pieces, part, version)
            if number % PER_STEP == 0:
                yield
        pieces.tags()
        if place % PER_STEP == 0:
            yield
    if version >= 1:
        pieces.int32(throttle_ms)
    if version >= 10 and (endpoints := node_endpoints()):
        pieces.tags([(0, encode_node_endpoints(endpoints))])
    else:
        pieces.tags()
    return pieces.finish()


def _partition_response(pieces: Pieces, part: ProducedPartition, version: int) -> None:
    if version >= 5:
        pieces.write(
            _PARTITION_RESPONSE.pack(
                part.index, part.error, part.base_offset, part.log_append_time_ms, part.log_start_offset
            )
        )
    else:
        pieces.int32(part.index)
        pieces.int16(part.error)
        pieces.int64(part.base_offset)
        if version >= 2:
            pieces.int64(part.log_append_time_ms)
    if version >= 8:
        pieces.count(len(part.record_errors))
        for record_index, message in part.record_errors:
            pieces.int32(record_index)
            pieces.string(message)
            pieces.tags()
        pieces.string(cut_message(part.error_message))
    if version >= 10 and (part.leader_id != -1 or part.leader_epoch != -1):
        pieces.tags([(0, struct.pack(">iix", part.leader_id, part.leader_epoch))])
    else:
        pieces.tags()


def encode_node_endpoints(endpoints: Sequence[NodeEndpoint]) -> bytes:
    """Encode the value of the NodeEndpoints tag of Produce and Fetch responses."""
    pieces = Pieces(flexible=True)
    pieces.count(len(endpoints))
    for endpoint in endpoints:
        pieces.int32(endpoint.node_id)
        pieces.string(endpoint.host)
        pieces.int32(endpoint.port)
        pieces.string(endpoint.rack)
        pieces.tags()
    return b"".join(pieces.finish())


def decode_node_endpoints(field: memoryview) -> list[NodeEndpoint]:
    cursor = Cursor(field, flexible=True)
    endpoints = []
    for _ in range(cursor.count(11)):
        endpoints.append(
            NodeEndpoint(cursor.int32(), cursor.string(), cursor.int32(), cursor.nullable_string())
        )
        cursor.tags()
    cursor.finish()
    return endpoints


def decode_produce_response(body: memoryview, version: int) -> list[ProducedTopic]:
    """Decode a response. Raises `MalformedError`."""
    cursor = Cursor(body, flexible=version >= FIRST_FLEXIBLE)
    topics = []
    for _ in range(cursor.count(3)):
        name = cursor.string()
        partitions = []
        for _ in range(cursor.count(14)):
            partitions.append(_read_partition_response(cursor, version))
        topics.append(ProducedTopic(name, partitions))
        cursor.tags()
    if version >= 1:
        cursor.int32()
    cursor.tags()
    cursor.finish()
    return topics


def _read_partition_response(cursor: Cursor, version: int) -> ProducedPartition:
    index, error, base_offset = cursor.int32(), read_error(cursor), Offset(cursor.int64())
    append_time_ms = cursor.int64() if version >= 2 else -1
    log_start_offset = Offset(cursor.int64()) if version >= 5 else UNKNOWN_OFFSET
    record_errors = []
    error_message = None
    if version >= 8:
        for _ in range(cursor.count(5)):
            record_errors.append((cursor.int32(), cursor.nullable_string()))
            cursor.tags()
        error_message = cursor.nullable_string()
    leader_id, leader_epoch = -1, UNKNOWN_EPOCH
    for tag, field in cursor.tags():
        if tag == 0 and version >= 10:
            leader = Cursor(field, flexible=True)
            leader_id, leader_epoch = leader.int32(), Epoch(leader.int32())
    return ProducedPartition(
        index=index,
        error=error,
        base_offset=base_offset,
        log_append_time_ms=append_time_ms,
        log_start_offset=log_start_offset,
        error_message=error_message,
        record_errors=record_errors,
        leader_id=leader_id,
        leader_epoch=leader_epoch,
    )


def read_error(cursor: Cursor) -> ErrorCode:
    """Read a code. Unknown codes become UNKNOWN_SERVER_ERROR, as in Kafka's clients."""
    return ERRORS.get(cursor.int16(), ErrorCode.unknown_server_error)
