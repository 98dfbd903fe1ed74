"""Fetch, for consumers and followers. There are no fetch sessions: every answer has session id 0."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import trio
from kio.schema.errors import ErrorCode

from quorate.broker.apis.cluster_metadata import is_cluster_metadata
from quorate.broker.apis.context import Broker
from quorate.broker.apis.fetched_once import each_once
from quorate.broker.apis.leader_hints import leader_endpoints
from quorate.broker.metadata import CONSUMER_BYTE_RATE
from quorate.broker.replication import FetchItem, FetchOptions, FetchResult
from quorate.broker.replication.serving import ParkedFetch
from quorate.broker.wire import Answer, Deferred, EncodedResponse, RequestContext, Response, wire_code
from quorate.broker.wire.codecs import (
    PER_STEP,
    FetchedPartition,
    FetchedTopic,
    FetchPartition,
    FetchTopic,
    KafkaFetchRequest,
    KafkaFetchResponse,
    encode_fetch_response,
    encode_fetch_steps,
)
from quorate.runtime import Mapped, Steps, in_slices, let_go

_NEW_SESSION = (0, -1)
_ZSTD_FROM: Final = 10
_STORAGE_ERROR_SINCE: Final = 6
_AT_ONCE: Final = 1000
"""Partitions that are let go of in one piece."""


async def handle(broker: Broker, context: RequestContext, request: KafkaFetchRequest) -> Answer:
    """Answer a Fetch. One that waits is read when its answer is about to be sent, so waiting costs no
    memory."""
    if request.session_id or request.session_epoch not in _NEW_SESSION:
        # We gave nobody a session. The client begins anew with a full fetch.
        return EncodedResponse(
            encode_fetch_response(
                KafkaFetchResponse(version=request.version, error=ErrorCode.fetch_session_id_not_found)
            )
        )
    request = await in_slices(each_once(request))
    if request.replica_id < 0 and broker.image.has_quotas:
        throttled = broker.throttles.overdrawn(CONSUMER_BYTE_RATE, context)
        if throttled > 0:
            return _nothing_yet(request, throttled)
        room = broker.throttles.room(CONSUMER_BYTE_RATE, context)
        if room is not None:
            # The first batch comes whole, whatever its size.
            request = replace(request, max_bytes=min(request.max_bytes, math.ceil(room)))
    if await in_slices(_of_cluster_metadata(request)):
        return broker.later(lambda: _with_cluster_metadata(broker, context, request))
    options = await in_slices(_options(request, request.topics, max_wait_ms=request.max_wait_ms))
    begun = await broker.replicas.begin_fetch(options)
    if not isinstance(begun, ParkedFetch):
        await in_slices(options.let_go_steps())
        return await in_slices(_response(broker, context, request, begun))
    parked = begun
    deferred = Deferred(parked.abandon)

    async def finish() -> Response:
        return await in_slices(_response(broker, context, request, await parked.results()))

    parked.notify(lambda: None if deferred.abandoned else deferred.complete_with(finish))
    return deferred


def _of_cluster_metadata(request: KafkaFetchRequest) -> Steps[bool]:
    for number, topic in enumerate(request.topics, 1):
        if is_cluster_metadata(topic.name, topic.topic_id):
            return True
        if number % PER_STEP == 0:
            yield
    return False


def _options(
    request: KafkaFetchRequest, topics: Sequence[FetchTopic], *, max_wait_ms: int
) -> Steps[FetchOptions]:
    items: list[FetchItem] = []
    for topic in topics:
        ref = topic.topic_id if topic.name is None and topic.topic_id is not None else topic.name or ""
        for part in topic.partitions:
            items.append(
                FetchItem(
                    ref,
                    part.partition,
                    part.fetch_offset,
                    part.max_bytes,
                    part.current_leader_epoch,
                    part.last_fetched_epoch,
                    part.log_start_offset,
                )
            )
            if len(items) % PER_STEP == 0:
                yield
    return FetchOptions(
        items=items,
        max_wait_ms=max_wait_ms,
        min_bytes=request.min_bytes,
        max_bytes=request.max_bytes,
        replica_id=request.replica_id,
        replica_epoch=request.replica_epoch,
        zstd=request.version >= _ZSTD_FROM,
    )


def _response(
    broker: Broker, context: RequestContext, request: KafkaFetchRequest, results: list[FetchResult]
) -> Steps[Response]:
    """Build the response. The part of each partition is made when it is encoded."""
    rest = iter(results)
    size = 0
    leaders: dict[int, None] = {}

    def answer(_: FetchPartition) -> FetchedPartition:
        nonlocal size
        result = next(rest)
        size += result.size
        if result.leader is not None:
            leaders[result.leader[0]] = None
        return _fetched(result, request.version)

    def topic_of(topic: FetchTopic) -> FetchedTopic:
        return FetchedTopic(topic.name, topic.topic_id, Mapped(topic.partitions, answer))

    response = KafkaFetchResponse(version=request.version, topics=Mapped(request.topics, topic_of))
    body = yield from encode_fetch_steps(
        response, node_endpoints=lambda: leader_endpoints(broker, context, leaders)
    )
    _count(broker, context, request, size)
    if len(results) > _AT_ONCE:
        yield from let_go(results)
        yield from request.let_go_steps()
    return EncodedResponse(body)


def _count(broker: Broker, context: RequestContext, request: KafkaFetchRequest, size: int) -> None:
    if request.replica_id >= 0:
        broker.replicas.stats.bytes_to_followers += size
    else:
        broker.replicas.stats.bytes_to_consumers += size
        if broker.image.has_quotas:
            broker.throttles.charge(CONSUMER_BYTE_RATE, context, size)


def _nothing_yet(request: KafkaFetchRequest, seconds: float) -> Response:
    """Return the answer to a consumer that has read more than its quota: no partitions, as from Kafka, and
    how long to wait."""
    response = KafkaFetchResponse(version=request.version, throttle_ms=math.ceil(seconds * 1000))
    return EncodedResponse(encode_fetch_response(response))


def _encoded(
    broker: Broker, context: RequestContext, request: KafkaFetchRequest, topics: Sequence[FetchedTopic]
) -> Steps[Response]:
    leaders: dict[int, None] = {}
    for topic in topics:
        leaders.update((part.leader[0], None) for part in topic.partitions if part.leader is not None)
        yield
    response = KafkaFetchResponse(
        version=request.version, topics=topics, node_endpoints=leader_endpoints(broker, context, leaders)
    )
    return EncodedResponse((yield from encode_fetch_steps(response)))


def _known(error: ErrorCode, version: int) -> ErrorCode:
    """Return the code as a client of that version understands it: it looks for another leader and retries."""
    if error is ErrorCode.kafka_storage_error and version < _STORAGE_ERROR_SINCE:
        return ErrorCode.not_leader_or_follower
    return error


def _fetched(result: FetchResult, version: int) -> FetchedPartition:
    return FetchedPartition(
        index=result.partition_id,
        error=_known(wire_code(result.error), version),
        high_watermark=result.high_watermark,
        last_stable_offset=result.last_stable_offset,
        log_start_offset=result.log_start_offset,
        diverging_epoch=result.diverging_epoch,
        leader=result.leader,
        records=result.records,
    )


async def _with_cluster_metadata(
    broker: Broker, context: RequestContext, request: KafkaFetchRequest
) -> Response:
    """Read the metadata log from the quorum and the rest as ever; whichever has records first ends the wait
    for both."""
    own = [topic for topic in request.topics if is_cluster_metadata(topic.name, topic.topic_id)]
    others = [topic for topic in request.topics if not is_cluster_metadata(topic.name, topic.topic_id)]
    with trio.move_on_after(request.max_wait_ms / 1000):
        async with trio.open_nursery() as nursery:

            async def watch(part: FetchPartition) -> None:
                await broker.cluster_metadata.wait_beyond(part.fetch_offset)
                nursery.cancel_scope.cancel()

            async def watch_others() -> None:
                options = await in_slices(_options(request, others, max_wait_ms=request.max_wait_ms))
                await broker.replicas.fetch(options)
                nursery.cancel_scope.cancel()

            for topic in own:
                for part in topic.partitions:
                    nursery.start_soon(watch, part)
            if others:
                nursery.start_soon(watch_others)
    results = await broker.replicas.fetch(await in_slices(_options(request, others, max_wait_ms=0)))
    _count(broker, context, request, sum(result.size for result in results))
    fetched = iter(results)
    topics: list[FetchedTopic] = []
    for topic in request.topics:
        if is_cluster_metadata(topic.name, topic.topic_id):
            read = broker.cluster_metadata.read
            parts = [await read(part, max_bytes=request.max_bytes) for part in topic.partitions]
        else:
            parts = [_fetched(next(fetched), request.version) for _ in topic.partitions]
        topics.append(FetchedTopic(topic.name, topic.topic_id, parts))
    return await in_slices(_encoded(broker, context, request, topics))
