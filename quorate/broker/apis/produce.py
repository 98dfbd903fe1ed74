"""Produce."""

import math
from collections.abc import Container, Mapping
from types import MappingProxyType
from typing import Final

from kio.schema.errors import ErrorCode

from quorate.broker.access.needs import denied_message, of_each, of_transaction
from quorate.broker.apis.api_row import ApiRow
from quorate.broker.apis.context import Broker
from quorate.broker.apis.named_leaders import leader_endpoints
from quorate.broker.apis.topic_creation import INTERNAL_TOPICS
from quorate.broker.metadata.acls import AclOperation, ResourceType
from quorate.broker.metadata.quota_precedence import PRODUCER_BYTE_RATE, REQUEST_PERCENTAGE
from quorate.broker.replication.foundation.requests import ProduceItem, ProduceResult
from quorate.broker.replication.serving.produce_service import ParkedProduce
from quorate.broker.wire.api import ApiKey
from quorate.broker.wire.codecs.produce_codec import (
    PER_STEP,
    ProducedPartition,
    ProducedTopic,
    ProducePartition,
    ProduceRequest,
    ProduceTopic,
    encode_produce_steps,
)
from quorate.broker.wire.exchanges import (
    Answer,
    CloseConnection,
    Deferred,
    EncodedResponse,
    Refusal,
    RequestContext,
    Response,
)
from quorate.broker.wire.wire_errors import KafkaError, wire_code
from quorate.runtime import Buffer, Mapped, Steps, at_once, in_slices, let_go
from quorate.types import UNKNOWN_EPOCH, Epoch

_INTERNAL: Final[Mapping[str, tuple[ErrorCode, str]]] = MappingProxyType(
    dict.fromkeys(
        INTERNAL_TOPICS, (ErrorCode.invalid_topic_exception, "internal topics are written by brokers only")
    )
)
_ACKS = (-1, 0, 1)
_ZSTD_FROM = 7
_AT_ONCE: Final = 200
"""The number of partitions whose answer is made in one piece, by the task that completes it, in 2 ms."""


async def handle_produce(broker: Broker, context: RequestContext, request: ProduceRequest) -> Answer:
    """Append. The append is done when this returns; the answer may wait for other replicas."""
    if request.acks not in _ACKS:
        raise KafkaError(ErrorCode.invalid_required_acks, f"acks is {request.acks}; it must be -1, 0 or 1")
    if request.transactional_id is not None:
        raise KafkaError(ErrorCode.invalid_request, "transactions are not served by this version of quorate")
    refused = await in_slices(_refused(broker, context, request))
    items = await in_slices(_items(request, refused))
    throttle_ms = _throttle_ms(broker, context, request, items)
    pending = await broker.replicas.produces.produce(
        items,
        acks=request.acks,
        timeout_ms=request.timeout_ms,
        zstd=request.version >= _ZSTD_FROM,
        memory=context.connection.memory,
    )
    small = len(items) <= _AT_ONCE
    if not small:
        await in_slices(let_go(items))
    if request.acks == 0:
        return await in_slices(_close_if_refused(request, refused, pending))
    if pending.done:
        return await in_slices(_response(broker, context, request, refused, pending, throttle_ms))
    skeleton = await in_slices(request.skeleton_steps())
    deferred = Deferred()

    async def large() -> Response:
        return await in_slices(_response(broker, context, skeleton, refused, pending, throttle_ms))

    if small:
        pending.notify(
            lambda: deferred.complete(
                at_once(_response(broker, context, skeleton, refused, pending, throttle_ms))
            )
        )
    else:
        pending.notify(lambda: deferred.complete_with(large))
    return deferred


def _refused(
    broker: Broker, context: RequestContext, request: ProduceRequest
) -> Steps[Mapping[str, tuple[ErrorCode, str]]]:
    """Return the topics that the client may not write, each with its error. Whether they exist is not looked
    at (KAFKA-19234)."""
    if broker.is_open:
        return _INTERNAL
    refused = dict(_INTERNAL)
    code = ErrorCode.topic_authorization_failed
    asked: set[str] = set()
    for number, topic in enumerate(request.topics, 1):
        if topic.name not in asked:
            asked.add(topic.name)
            if not broker.may(context, AclOperation.WRITE, ResourceType.TOPIC, topic.name):
                refused[topic.name] = (code, denied_message(code))
        if number % PER_STEP == 0:
            yield
    return refused


def _items(request: ProduceRequest, refused: Container[str]) -> Steps[list[ProduceItem]]:
    items: list[ProduceItem] = []
    for number, topic in enumerate(request.topics, 1):
        if number % PER_STEP == 0:
            yield
        if topic.name in refused:
            continue
        for part in topic.partitions:
            items.append(ProduceItem(topic.name, part.index, b"" if part.records is None else part.records))
            if len(items) % PER_STEP == 0:
                yield
    return items


def _throttle_ms(
    broker: Broker, context: RequestContext, request: ProduceRequest, items: list[ProduceItem]
) -> int:
    if not broker.image.has_quotas:
        return 0
    size = sum(len(item.records) for item in items)
    throttles = broker.throttles
    wait_s = throttles.charge(PRODUCER_BYTE_RATE, context, size)
    if throttles.counts and request.acks != 0:
        # The debt of earlier requests. The time that this one takes is not known yet.
        wait_s = max(wait_s, throttles.debt_s(REQUEST_PERCENTAGE, context))
    return math.ceil(wait_s * 1000)


def _close_if_refused(
    request: ProduceRequest, refused: Mapping[str, tuple[ErrorCode, str]], pending: ParkedProduce
) -> Steps[CloseConnection | None]:
    """Return the close of a refused acks=0 request, which has no answer. A client whose connection closes
    looks for the leader again. Otherwise it would send to a former leader for as long as it lives."""
    first: str | None = None
    count = 0
    for number, result in enumerate(pending.results(), 1):
        if result.error:
            count += 1
            if first is None:
                first = f"{result.topic}-{result.partition_id}: {result.error.name}: {result.error_message}"
        if number % PER_STEP == 0:
            yield
    for number, topic in enumerate(request.topics, 1):
        if topic.name in refused:
            count += 1
            first = first or f"{topic.name}: {refused[topic.name][0].name.upper()}"
        if number % PER_STEP == 0:
            yield
    if first is None:
        return None
    more = "" if count == 1 else f" ({count} partitions failed)"
    return CloseConnection(f"an append with acks=0 failed: {first}{more}")


def _response(
    broker: Broker,
    context: RequestContext,
    request: ProduceRequest,
    refused: Mapping[str, tuple[ErrorCode, str]],
    pending: ParkedProduce,
    throttle_ms: int,
) -> Steps[Response]:
    """Build the response. The part of each partition is made when it is encoded."""
    results = iter(pending.results())
    leaders: dict[int, None] = {}

    def topic_of(topic: ProduceTopic) -> ProducedTopic:
        def answer(part: ProducePartition) -> ProducedPartition:
            produced = _produced(broker, topic.name, next(results))
            if produced.leader_id >= 0:
                leaders[produced.leader_id] = None
            return produced

        why = refused.get(topic.name)
        return ProducedTopic(
            topic.name,
            Mapped(topic.partitions, answer if why is None else lambda part: _not_written(part, *why)),
        )

    body = yield from encode_produce_steps(
        Mapped(request.topics, topic_of),
        version=request.version,
        throttle_ms=throttle_ms,
        node_endpoints=lambda: leader_endpoints(broker, context, leaders),
    )
    if max(len(pending.results()), len(request.topics)) > _AT_ONCE:
        yield from let_go(pending.results())
        yield from request.let_go_steps()
    return EncodedResponse(body)


def _not_written(part: ProducePartition, error: ErrorCode, message: str) -> ProducedPartition:
    return ProducedPartition(index=part.index, error=error, error_message=message)


def _produced(broker: Broker, topic: str, result: ProduceResult) -> ProducedPartition:
    error = wire_code(result.error)
    leader_id, leader_epoch = -1, UNKNOWN_EPOCH
    if error is ErrorCode.not_leader_or_follower:
        leader_id, leader_epoch = _leader(broker, topic, result.partition_id)
    return ProducedPartition(
        index=result.partition_id,
        error=error,
        base_offset=result.base_offset,
        log_append_time_ms=result.append_time_ms,
        log_start_offset=result.log_start_offset,
        error_message=result.error_message,
        record_errors=result.record_errors,
        leader_id=leader_id,
        leader_epoch=leader_epoch,
    )


def _leader(broker: Broker, name: str, partition: int) -> tuple[int, Epoch]:
    state = broker.image.named_partition(name, partition)
    if state is None or state.leader == broker.config.node_id:
        return (-1, UNKNOWN_EPOCH)  # this broker doesn't lead, even if its metadata says so
    return (state.leader, state.leader_epoch)


def _refuse(request: ProduceRequest, refusal: Refusal) -> Steps[list[Buffer]]:
    def refused(part: ProducePartition) -> ProducedPartition:
        return ProducedPartition(index=part.index, error=refusal.code, error_message=refusal.message)

    topics = Mapped(
        request.topics, lambda topic: ProducedTopic(topic.name, Mapped(topic.partitions, refused))
    )
    return encode_produce_steps(topics, version=refusal.version)


ROWS: Final = (
    ApiRow[ProduceRequest](
        ApiKey.PRODUCE.api,
        _refuse,
        needs=(of_transaction(AclOperation.WRITE), of_each(AclOperation.WRITE, ResourceType.TOPIC)),
        brokers=handle_produce,
    ),
)
