"""Fetch, written by hand: the hot way out, for consumers and followers, with record bytes never copied.

Versions 4 to 16 of FetchRequest.json and FetchResponse.json. Topics go by name up to 12 and by id from 13
(KIP-516). The follower's `replica_id` moved into a tagged field at 15 (KIP-903).
"""

import struct
import uuid
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, TypeAlias

from kio.schema.errors import ErrorCode

from quorate.broker.wire.codecs.produce_codec import (
    ERRORS,
    PER_STEP,
    NodeEndpoint,
    decode_node_endpoints,
    encode_node_endpoints,
    read_error,
)
from quorate.kafka_bytes.primitives import Cursor, Pieces
from quorate.runtime import Buffer, Steps, at_once, let_go
from quorate.types import UNKNOWN_EPOCH, UNKNOWN_OFFSET, Epoch, Offset
from quorate.value import value

FIRST_FLEXIBLE = 12
_LIMITS = struct.Struct(">iiib")
_PARTITION_V4 = struct.Struct(">iqi")
_PARTITION_V5 = struct.Struct(">iqqi")
_PARTITION_V9 = struct.Struct(">iiqqi")
_PARTITION_V12 = struct.Struct(">iiqiqi")
_PARTITION_UNTAGGED = struct.Struct(">iiqiqix")
_ANSWER_V4 = struct.Struct(">ihqq")
_ANSWER = struct.Struct(">ihqqq")
_AnswerHead: TypeAlias = tuple[int, int, Offset, Offset, Offset]
_UNTAGGED_PER_STEP: Final = 2000
"""Partitions between two yields: 0.5 ms."""


class FetchPartition(NamedTuple):
    """The request for one partition. A tuple in the order of the wire, because a follower asks for thousands
    at a time and building frozen dataclasses would cost more than all else."""

    partition: int
    current_leader_epoch: Epoch = UNKNOWN_EPOCH
    fetch_offset: Offset = Offset(0)
    last_fetched_epoch: Epoch = UNKNOWN_EPOCH
    log_start_offset: Offset = UNKNOWN_OFFSET
    """The follower's log start; -1 from consumers."""
    max_bytes: int = 1024 * 1024


@value(frozen=True, slots=True)
class FetchTopic:
    """`name` up to version 12, `topic_id` from 13."""

    name: str | None
    topic_id: uuid.UUID | None
    partitions: Sequence[FetchPartition]


@value(frozen=True, slots=True)
class ForgottenTopic:
    name: str | None
    topic_id: uuid.UUID | None
    partitions: Sequence[int]


@value(frozen=True, slots=True, kw_only=True)
class KafkaFetchRequest:
    version: int
    replica_id: int = -1
    """-1 from consumers."""
    replica_epoch: int = -1
    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    isolation_level: int = 0
    """1 is read_committed."""
    session_id: int = 0
    session_epoch: int = -1
    topics: Sequence[FetchTopic]
    forgotten: Sequence[ForgottenTopic] = ()
    rack_id: str = ""
    cluster_id: str | None = None

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
class FetchedPartition:
    """The answer for one partition. Offsets: `high_watermark` and `last_stable_offset` are exclusive."""

    index: int
    error: ErrorCode = ErrorCode.none
    high_watermark: Offset = UNKNOWN_OFFSET
    last_stable_offset: Offset = UNKNOWN_OFFSET
    log_start_offset: Offset = UNKNOWN_OFFSET
    aborted_transactions: Sequence[tuple[int, int]] | None = ()
    """(producer id, first offset)."""
    diverging_epoch: tuple[Epoch, Offset] | None = None
    """(epoch, its end offset) where the follower's log departs (v12+)."""
    leader: tuple[int, Epoch] | None = None
    """(leader id, leader epoch) for NOT_LEADER_OR_FOLLOWER and FENCED_LEADER_EPOCH (v12+)."""
    preferred_read_replica: int = -1
    records: Sequence[Buffer] = ()
    """Parts of the record bytes, sent by identity. Never null: librdkafka drops a response with one."""


@value(frozen=True, slots=True)
class FetchedTopic:
    name: str | None
    topic_id: uuid.UUID | None
    partitions: Sequence[FetchedPartition]


@value(frozen=True, slots=True, kw_only=True)
class KafkaFetchResponse:
    version: int
    throttle_ms: int = 0
    error: ErrorCode = ErrorCode.none
    session_id: int = 0
    topics: Sequence[FetchedTopic] = ()
    node_endpoints: Sequence[NodeEndpoint] = ()


def decode_fetch_request(body: memoryview, version: int) -> KafkaFetchRequest:
    """Decode a request. Raises `MalformedError`."""
    return at_once(decode_fetch_steps(body, version))


def decode_fetch_steps(body: memoryview, version: int) -> Steps[KafkaFetchRequest]:
    """Decode in steps, as `decode_fetch_request`."""
    cursor = Cursor(body, flexible=version >= FIRST_FLEXIBLE)
    replica_id = cursor.int32() if version < 15 else -1
    max_wait_ms, min_bytes, max_bytes, isolation_level = cursor.unpack(_LIMITS)
    session_id, session_epoch = (cursor.int32(), cursor.int32()) if version >= 7 else (0, -1)
    topics = []
    for _ in range(cursor.count(3)):
        name, topic_id = _topic_key(cursor, version)
        topics.append(FetchTopic(name, topic_id, (yield from _read_partitions(cursor, version))))
        cursor.tags()
        if len(topics) % PER_STEP == 0:
            yield
    forgotten = []
    if version >= 7:
        for place in range(cursor.count(3)):
            name, topic_id = _topic_key(cursor, version)
            count = cursor.count(4)
            start = cursor.skip(4 * count)
            # As many as there may be take 3 ms.
            indexes = list(struct.unpack_from(f">{count}i", cursor.data, start))
            if place % PER_STEP == 0:
                yield
            forgotten.append(ForgottenTopic(name, topic_id, indexes))
            cursor.tags()
    rack_id = cursor.string() if version >= 11 else ""
    cluster_id = None
    replica_epoch = -1
    for tag, field in cursor.tags():
        if tag == 0:
            inner = Cursor(field, flexible=True)
            cluster_id = inner.nullable_string()
            inner.finish()
        elif tag == 1 and version >= 15:
            inner = Cursor(field, flexible=True)
            replica_id, replica_epoch = inner.int32(), inner.int64()
            inner.tags()
            inner.finish()
    cursor.finish()
    return KafkaFetchRequest(
        version=version,
        replica_id=replica_id,
        replica_epoch=replica_epoch,
        max_wait_ms=max_wait_ms,
        min_bytes=min_bytes,
        max_bytes=max_bytes,
        isolation_level=isolation_level,
        session_id=session_id,
        session_epoch=session_epoch,
        topics=topics,
        forgotten=forgotten,
        rack_id=rack_id,
        cluster_id=cluster_id,
    )


def _topic_key(cursor: Cursor, version: int) -> tuple[str | None, uuid.UUID | None]:
    return (None, cursor.uuid()) if version >= 13 else (cursor.string(), None)


def _read_partitions(cursor: Cursor, version: int) -> Steps[list[FetchPartition]]:
    count = cursor.count(_PARTITION_V4.size)
    size = _PARTITION_UNTAGGED.size
    start, end = cursor.position, cursor.position + count * size
    if (
        version >= FIRST_FLEXIBLE
        and end <= cursor.end
        and cursor.data[start + size - 1 : end : size].tobytes() == bytes(count)
    ):
        # No client sends tagged fields here today, so all partitions lie at equal distances.
        cursor.position = end
        if count <= _UNTAGGED_PER_STEP:
            return list(map(FetchPartition._make, _PARTITION_UNTAGGED.iter_unpack(cursor.data[start:end])))
        partitions: list[FetchPartition] = []
        for at in range(start, end, _UNTAGGED_PER_STEP * size):
            run = cursor.data[at : min(end, at + _UNTAGGED_PER_STEP * size)]
            partitions += map(FetchPartition._make, _PARTITION_UNTAGGED.iter_unpack(run))
            yield
        return partitions
    partitions = []
    for number in range(count):
        if version < FIRST_FLEXIBLE:
            partitions.append(_read_old_partition(cursor, version))
        else:
            partitions.append(FetchPartition._make(cursor.unpack(_PARTITION_V12)))
            cursor.tags()
        if number % PER_STEP == PER_STEP - 1:
            yield
    return partitions


def _read_old_partition(cursor: Cursor, version: int) -> FetchPartition:
    epoch, start = UNKNOWN_EPOCH, UNKNOWN_OFFSET
    offset: Offset
    layout = _PARTITION_V9 if version >= 9 else _PARTITION_V5 if version >= 5 else _PARTITION_V4
    fields = layout.unpack_from(cursor.data, cursor.skip(layout.size))
    if version >= 9:
        index, epoch, offset, start, limit = fields
    elif version >= 5:
        index, offset, start, limit = fields
    else:
        index, offset, limit = fields
    return FetchPartition(index, epoch, offset, UNKNOWN_EPOCH, start, limit)


def encode_fetch_request_steps(request: KafkaFetchRequest) -> Steps[list[Buffer]]:
    """Encode the body of a follower's or a client's request, in steps."""
    version = request.version
    pieces = Pieces(flexible=version >= FIRST_FLEXIBLE)
    if version < 15:
        pieces.int32(request.replica_id)
    pieces.write(
        _LIMITS.pack(request.max_wait_ms, request.min_bytes, request.max_bytes, request.isolation_level)
    )
    if version >= 7:
        pieces.int32(request.session_id)
        pieces.int32(request.session_epoch)
    pieces.count(len(request.topics))
    for place, topic in enumerate(request.topics, 1):
        _write_topic_key(pieces, topic.name, topic.topic_id, version)
        pieces.count(len(topic.partitions))
        for number, part in enumerate(topic.partitions, 1):
            pieces.write(_pack_partition(part, version))
            pieces.tags()
            if number % PER_STEP == 0:
                yield
        pieces.tags()
        if place % PER_STEP == 0:
            yield
    if version >= 7:
        pieces.count(len(request.forgotten))
        for forgotten in request.forgotten:
            _write_topic_key(pieces, forgotten.name, forgotten.topic_id, version)
            pieces.count(len(forgotten.partitions))
            for index in forgotten.partitions:
                pieces.int32(index)
            pieces.tags()
    if version >= 11:
        pieces.string(request.rack_id)
    tagged = []
    if version >= 12 and request.cluster_id is not None:
        value = Pieces(flexible=True)
        value.string(request.cluster_id)
        tagged.append((0, b"".join(value.finish())))
    if version >= 15 and (request.replica_id != -1 or request.replica_epoch != -1):
        tagged.append((1, struct.pack(">iqx", request.replica_id, request.replica_epoch)))
    pieces.tags(tagged)
    return pieces.finish()


def _pack_partition(part: FetchPartition, version: int) -> bytes:
    if version >= 12:
        return _PARTITION_V12.pack(*part)
    if version >= 9:
        return _PARTITION_V9.pack(
            part.partition,
            part.current_leader_epoch,
            part.fetch_offset,
            part.log_start_offset,
            part.max_bytes,
        )
    if version >= 5:
        return _PARTITION_V5.pack(part.partition, part.fetch_offset, part.log_start_offset, part.max_bytes)
    return _PARTITION_V4.pack(part.partition, part.fetch_offset, part.max_bytes)


def _write_topic_key(pieces: Pieces, name: str | None, topic_id: uuid.UUID | None, version: int) -> None:
    if version >= 13:
        pieces.uuid(topic_id)
    elif name is None:
        raise ValueError(f"Fetch v{version} names topics, and this one has only the id {topic_id}")
    else:
        pieces.string(name)


def encode_fetch_response(response: KafkaFetchResponse) -> list[Buffer]:
    """Encode the body as pieces for a vectored send; record bytes are the very objects given."""
    return at_once(encode_fetch_steps(response))


def encode_fetch_steps(
    response: KafkaFetchResponse, *, node_endpoints: Callable[[], Sequence[NodeEndpoint]] | None = None
) -> Steps[list[Buffer]]:
    """Encode in steps, as `encode_fetch_response`. Topics and partitions are iterated once, in order. Then
    `node_endpoints` is called, in place of those of `response`."""
    version = response.version
    pieces = Pieces(flexible=version >= FIRST_FLEXIBLE)
    pieces.int32(response.throttle_ms)
    if version >= 7:
        pieces.int16(response.error)
        pieces.int32(response.session_id)
    pieces.count(len(response.topics))
    for place, topic in enumerate(response.topics, 1):
        _write_topic_key(pieces, topic.name, topic.topic_id, version)
        pieces.count(len(topic.partitions))
        for number, part in enumerate(topic.partitions, 1):
            _write_fetched(pieces, part, version)
            if number % PER_STEP == 0:
                yield
        pieces.tags()
        if place % PER_STEP == 0:
            yield
    endpoints = response.node_endpoints if node_endpoints is None else node_endpoints()
    if version >= 16 and endpoints:
        pieces.tags([(0, encode_node_endpoints(endpoints))])
    else:
        pieces.tags()
    return pieces.finish()


def _write_fetched(pieces: Pieces, part: FetchedPartition, version: int) -> None:
    head = _ANSWER.pack(
        part.index, part.error, part.high_watermark, part.last_stable_offset, part.log_start_offset
    )
    pieces.write(head if version >= 5 else head[: _ANSWER_V4.size])
    aborted = part.aborted_transactions
    pieces.count(None if aborted is None else len(aborted))
    for producer_id, first_offset in aborted or ():
        pieces.int64(producer_id)
        pieces.int64(first_offset)
        pieces.tags()
    if version >= 11:
        pieces.int32(part.preferred_read_replica)
    pieces.records(part.records)
    if version < FIRST_FLEXIBLE:
        return
    tagged = []
    if part.diverging_epoch is not None:
        tagged.append((0, struct.pack(">iqx", *part.diverging_epoch)))
    if part.leader is not None:
        tagged.append((1, struct.pack(">iix", *part.leader)))
    pieces.tags(tagged)


def decode_fetch_response_steps(body: memoryview, version: int) -> Steps[KafkaFetchResponse]:
    """Decode a response, in steps. Records are views of `body`. Raises `MalformedError`."""
    cursor = Cursor(body, flexible=version >= FIRST_FLEXIBLE)
    throttle_ms = cursor.int32()
    error, session_id = (read_error(cursor), cursor.int32()) if version >= 7 else (ErrorCode.none, 0)
    topics = []
    for _ in range(cursor.count(3)):
        name, topic_id = _topic_key(cursor, version)
        partitions: list[FetchedPartition] = []
        for number in range(cursor.count(24)):
            partitions.append(_read_fetched(cursor, version))
            if number % PER_STEP == PER_STEP - 1:
                yield
        topics.append(FetchedTopic(name, topic_id, partitions))
        cursor.tags()
        if len(topics) % PER_STEP == 0:
            yield
    endpoints: list[NodeEndpoint] = []
    for tag, field in cursor.tags():
        if tag == 0 and version >= 16:
            endpoints = decode_node_endpoints(field)
    cursor.finish()
    return KafkaFetchResponse(
        version=version,
        throttle_ms=throttle_ms,
        error=error,
        session_id=session_id,
        topics=topics,
        node_endpoints=endpoints,
    )


def _read_fetched(cursor: Cursor, version: int) -> FetchedPartition:
    if version >= 5:
        head: _AnswerHead = _ANSWER.unpack_from(cursor.data, cursor.skip(_ANSWER.size))
    else:
        head = (*_ANSWER_V4.unpack_from(cursor.data, cursor.skip(_ANSWER_V4.size)), UNKNOWN_OFFSET)
    index, code, high_watermark, last_stable_offset, log_start_offset = head
    aborted = None
    count = cursor.nullable_count(16)
    if count is not None:
        aborted = []
        for _ in range(count):
            aborted.append((cursor.int64(), cursor.int64()))
            cursor.tags()
    preferred = cursor.int32() if version >= 11 else -1
    records = cursor.records()
    diverging = leader = None
    for tag, field in cursor.tags():
        inner = Cursor(field, flexible=True)
        if tag == 0:
            diverging = (Epoch(inner.int32()), Offset(inner.int64()))
        elif tag == 1:
            leader = (inner.int32(), Epoch(inner.int32()))
    return FetchedPartition(
        index=index,
        error=ERRORS.get(code, ErrorCode.unknown_server_error),
        high_watermark=high_watermark,
        last_stable_offset=last_stable_offset,
        log_start_offset=log_start_offset,
        aborted_transactions=aborted,
        diverging_epoch=diverging,
        leader=leader,
        preferred_read_replica=preferred,
        records=() if not records else (records,),
    )
