"""Fetch, for consumers and followers, in a fetch session (KIP-227) or without one."""

import math
import uuid
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Final, TypeAlias
from uuid import UUID

import trio
from kio.schema.errors import ErrorCode

from quorate.broker.access.needs import DENIED, Need, Permission, Refuses, of_each, whole
from quorate.broker.apis.api_row import ApiRow
from quorate.broker.apis.cluster_metadata import CLUSTER_METADATA, is_cluster_metadata
from quorate.broker.apis.context import Broker, ServingNode, answer_later
from quorate.broker.apis.named_leaders import leader_endpoints
from quorate.broker.metadata.acls import CLUSTER_NAME, AclOperation, ResourceType
from quorate.broker.metadata.quota_precedence import CONSUMER_BYTE_RATE
from quorate.broker.replication.foundation.requests import (
    FetchItem,
    FetchOptions,
    FetchResult,
    ReadPermission,
    SessionRef,
    TopicRef,
)
from quorate.broker.replication.serving.fetch_sessions import FetchSession, FetchSessionError, PartitionKey
from quorate.broker.replication.serving.partition_reader import QuietRead
from quorate.broker.replication.serving.plain_fetch import ParkedFetch
from quorate.broker.wire.api import ApiKey
from quorate.broker.wire.codecs.fetch_codec import (
    FetchedPartition,
    FetchedTopic,
    FetchPartition,
    FetchTopic,
    KafkaFetchRequest,
    KafkaFetchResponse,
    encode_fetch_response,
    encode_fetch_steps,
)
from quorate.broker.wire.codecs.produce_codec import PER_STEP
from quorate.broker.wire.exchanges import Answer, Deferred, EncodedResponse, Refusal, RequestContext, Response
from quorate.broker.wire.throttle_times import with_throttle
from quorate.broker.wire.wire_errors import wire_code
from quorate.runtime import Buffer, Mapped, Steps, at_once, in_slices, let_go

_Key: TypeAlias = tuple[str | None, uuid.UUID | None]
_IN_NO_SESSION: Final = -1
_FULL: Final = (_IN_NO_SESSION, 0)
"""The session epochs of requests that name everything."""
_CONTROLLER_BYTES_MAX: Final = 1024 * 1024
_ZSTD_FROM: Final = 10
_STORAGE_ERROR_SINCE: Final = 6
_IDS_FROM: Final = 13
_RACKS_FROM: Final = 11
_AT_ONCE: Final = 1000
"""Partitions that are let go of in one piece."""


async def handle_fetch(broker: Broker, context: RequestContext, request: KafkaFetchRequest) -> Answer:
    """Answer a Fetch. One that waits is read when its answer is about to be sent, so waiting costs no
    memory."""
    kept = context.connection.kept.fetch
    if (
        isinstance(kept, _FetchAgain)
        and kept.request is request
        and (again := kept.begin(broker)) is not None
    ):
        return again
    with_metadata = False
    if request.topics:
        request = await in_slices(each_once(request))
        with_metadata = await in_slices(_names_cluster_metadata(request))
    permission = read_permission(broker, context, request)
    session: FetchSession | None = None
    if request.session_id or request.session_epoch != _IN_NO_SESSION:
        if with_metadata and request.session_epoch not in _FULL:
            # The metadata log is read from the quorum and has no sessions.
            return _session_error(request, ErrorCode.fetch_session_id_not_found)
        try:
            session = await _enter_session(broker, context, request, permission, wanted=not with_metadata)
        except FetchSessionError as error:
            return _session_error(request, wire_code(error.code))
    if request.replica_id < 0 and broker.image.has_quotas:
        throttled = broker.throttles.overdrawn(CONSUMER_BYTE_RATE, context)
        if throttled > 0:
            return _nothing_yet(request, throttled, session)
        room = broker.throttles.room(CONSUMER_BYTE_RATE, context)
        if room is not None:
            # The first batch comes whole, whatever its size.
            request = replace(request, max_bytes=min(request.max_bytes, math.ceil(room)))
    if with_metadata:
        return broker.later(lambda: _with_cluster_metadata(broker, context, request, permission))
    if session is not None:
        return await _in_session(broker, context, request, permission, session)
    options = await in_slices(
        _options(context, request, permission, request.topics, max_wait_ms=request.max_wait_ms)
    )
    begun = await broker.replicas.fetches.begin(options, again=context.repeated)
    if not isinstance(begun, ParkedFetch):
        await in_slices(options.let_go_steps())
        return await in_slices(_response(broker, context, request, begun))

    async def finish(parked: ParkedFetch) -> Response:
        return await in_slices(_response(broker, context, request, await parked.results()))

    if begun.quiet is not None:
        answer = at_once(_response(broker, context, request, begun.quiet.results))
        context.connection.kept.fetch = _FetchAgain(
            request, options, begun.quiet, answer=answer, finish=finish
        )
    parked = begun
    return _deferred(parked, lambda: finish(parked))


@answer_later
async def handle_fetch_on_controller(
    node: ServingNode, context: RequestContext, request: KafkaFetchRequest
) -> Response:
    """Answer a Fetch of the metadata log from a controller, which has no other and no fetch sessions."""
    once = await in_slices(each_once(request))
    topics: list[FetchedTopic] = []
    left = _CONTROLLER_BYTES_MAX
    for topic in once.topics:
        known = is_cluster_metadata(topic.name, topic.topic_id)
        parts: list[FetchedPartition] = []
        for part in topic.partitions:
            fetched = FetchedPartition(index=part.partition, error=ErrorCode.unknown_topic_or_partition)
            if known:
                fetched = await node.cluster_metadata.read(part, max_bytes=min(once.max_bytes, left))
                left = 0
            parts.append(fetched)
        topics.append(FetchedTopic(topic.name, topic.topic_id, parts))
    response = KafkaFetchResponse(version=context.version, topics=topics)
    return EncodedResponse(await in_slices(encode_fetch_steps(response)))


def _deferred(parked: ParkedFetch, finish: Callable[[], Awaitable[Response]]) -> Deferred:
    deferred = Deferred(parked.abandon)
    parked.notify(lambda: None if deferred.abandoned else deferred.complete_with(finish))
    return deferred


async def _enter_session(
    broker: Broker,
    context: RequestContext,
    request: KafkaFetchRequest,
    permission: ReadPermission | None,
    *,
    wanted: bool,
) -> FetchSession | None:
    """Return the session that the request continues or, if `wanted`, begins."""
    ref = SessionRef(
        session_id=request.session_id,
        epoch=request.session_epoch if wanted else _IN_NO_SESSION,
        with_ids=request.version >= _IDS_FROM,
    )
    options = await in_slices(
        _options(context, request, permission, request.topics, max_wait_ms=request.max_wait_ms)
    )
    forgotten = await in_slices(_forgotten(request)) if request.forgotten else ()
    return await broker.replicas.session_fetches.enter(ref, options, forgotten)


async def _in_session(
    broker: Broker,
    context: RequestContext,
    request: KafkaFetchRequest,
    permission: ReadPermission | None,
    session: FetchSession,
) -> Answer:
    # The session knows the partitions. The limits are as they are after the quota.
    options = at_once(_options(context, request, permission, (), max_wait_ms=request.max_wait_ms))
    if not len(session):
        return await in_slices(_incremental(broker, context, request, [], session_id=0))
    session_id = session.session_id
    try:
        begun = await broker.replicas.session_fetches.begin(session, options)
    except FetchSessionError as error:
        return _session_error(request, wire_code(error.code))
    if not isinstance(begun, ParkedFetch):
        return await in_slices(_incremental(broker, context, request, begun, session_id=session_id))
    parked = begun

    async def finish() -> Response:
        try:
            results = await parked.results()
        except FetchSessionError as error:
            return _session_error(request, wire_code(error.code))
        return await in_slices(_incremental(broker, context, request, results, session_id=session_id))

    return _deferred(parked, finish)


def _session_error(request: KafkaFetchRequest, error: ErrorCode) -> EncodedResponse:
    response = KafkaFetchResponse(version=request.version, error=error)
    return EncodedResponse(encode_fetch_response(response))


def _forgotten(request: KafkaFetchRequest) -> Steps[list[PartitionKey]]:
    keys: list[PartitionKey] = []
    for topic in request.forgotten:
        ref = topic.topic_id if topic.name is None and topic.topic_id is not None else topic.name or ""
        for at in range(0, len(topic.partitions), PER_STEP):
            keys += [(ref, index) for index in topic.partitions[at : at + PER_STEP]]
            yield
    return keys


def _incremental(
    broker: Broker,
    context: RequestContext,
    request: KafkaFetchRequest,
    results: list[FetchResult],
    *,
    session_id: int,
) -> Steps[Response]:
    """Build the answer to a request in a session: the changed partitions, in the order in which they were
    read."""
    topics: list[FetchedTopic] = []
    parts: list[FetchedPartition] = []
    last: object = None
    leaders: dict[int, None] = {}
    size = 0
    for number, result in enumerate(results, 1):
        if result.topic != last or not topics:
            last, parts = result.topic, []
            name, topic_id = (None, result.topic) if isinstance(result.topic, UUID) else (result.topic, None)
            topics.append(FetchedTopic(name, topic_id, parts))
        parts.append(_fetched(result, request.version))
        size += result.size
        if result.leader is not None:
            leaders[result.leader[0]] = None
        if number % PER_STEP == 0:
            yield
    response = KafkaFetchResponse(
        version=request.version,
        session_id=session_id,
        topics=topics,
        node_endpoints=leader_endpoints(broker, context, leaders),
    )
    body = yield from encode_fetch_steps(response)
    counted = _counted(broker, context, request, size, body)
    if len(results) > _AT_ONCE:
        yield from let_go(results)
    return EncodedResponse(counted)


def _names_cluster_metadata(request: KafkaFetchRequest) -> Steps[bool]:
    for number, topic in enumerate(request.topics, 1):
        if is_cluster_metadata(topic.name, topic.topic_id):
            return True
        if number % PER_STEP == 0:
            yield
    return False


def _options(
    context: RequestContext,
    request: KafkaFetchRequest,
    permission: ReadPermission | None,
    topics: Sequence[FetchTopic],
    *,
    max_wait_ms: int,
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
        any_replica=request.replica_id < 0 and request.version >= _RACKS_FROM,
        rack_id=request.rack_id,
        listener=context.connection.listener,
        permission=permission,
    )


def _response(
    broker: Broker, context: RequestContext, request: KafkaFetchRequest, results: list[FetchResult]
) -> Steps[EncodedResponse]:
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
    counted = _counted(broker, context, request, size, body)
    if len(results) > _AT_ONCE:
        yield from let_go(results)
        yield from request.let_go_steps()
    return EncodedResponse(counted)


def _counted(
    broker: Broker, context: RequestContext, request: KafkaFetchRequest, size: int, body: Sequence[Buffer]
) -> Sequence[Buffer]:
    """Count the record bytes of an answer, which tells a consumer above its quota how long to wait."""
    if request.replica_id >= 0:
        broker.replicas.stats.bytes_to_followers += size
        return body
    broker.replicas.stats.bytes_to_consumers += size
    wait_s = broker.throttles.charge(CONSUMER_BYTE_RATE, context, size) if broker.image.has_quotas else 0.0
    if wait_s <= 0:
        return body
    return with_throttle(body, api=ApiKey.FETCH.api, version=request.version, seconds=wait_s)


def _nothing_yet(request: KafkaFetchRequest, seconds: float, session: FetchSession | None) -> Response:
    """Return the answer to a consumer that has read more than its quota: no partitions, as from Kafka, and
    how long to wait. Its session goes on (KIP-219)."""
    response = KafkaFetchResponse(
        version=request.version,
        throttle_ms=math.ceil(seconds * 1000),
        session_id=0 if session is None or not len(session) else session.session_id,
    )
    return EncodedResponse(encode_fetch_response(response))


def _encoded(
    broker: Broker,
    context: RequestContext,
    request: KafkaFetchRequest,
    topics: Sequence[FetchedTopic],
    *,
    size: int,
) -> Steps[Response]:
    leaders: dict[int, None] = {}
    for topic in topics:
        leaders.update((part.leader[0], None) for part in topic.partitions if part.leader is not None)
        yield
    response = KafkaFetchResponse(
        version=request.version, topics=topics, node_endpoints=leader_endpoints(broker, context, leaders)
    )
    body = yield from encode_fetch_steps(response)
    return EncodedResponse(_counted(broker, context, request, size, body))


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
        preferred_read_replica=result.preferred_read_replica,
    )


async def _with_cluster_metadata(
    broker: Broker,
    context: RequestContext,
    request: KafkaFetchRequest,
    permission: ReadPermission | None,
) -> Response:
    """Read the metadata log from the quorum, and other partitions from their replicas. The first records end
    the wait for both."""

    def may_read_own() -> bool:
        return permission is None or permission.allows(CLUSTER_METADATA)

    own = [topic for topic in request.topics if is_cluster_metadata(topic.name, topic.topic_id)]
    others = [topic for topic in request.topics if not is_cluster_metadata(topic.name, topic.topic_id)]
    with trio.move_on_after(request.max_wait_ms / 1000):
        async with trio.open_nursery() as nursery:

            async def watch(part: FetchPartition) -> None:
                await broker.cluster_metadata.wait_beyond(part.fetch_offset)
                nursery.cancel_scope.cancel()

            async def watch_others() -> None:
                options = await in_slices(
                    _options(context, request, permission, others, max_wait_ms=request.max_wait_ms)
                )
                await broker.replicas.fetches.fetch(options)
                nursery.cancel_scope.cancel()

            for topic in own if may_read_own() else ():
                for part in topic.partitions:
                    nursery.start_soon(watch, part)
            if others:
                nursery.start_soon(watch_others)
    results = await broker.replicas.fetches.fetch(
        await in_slices(_options(context, request, permission, others, max_wait_ms=0))
    )
    fetched = iter(results)
    topics: list[FetchedTopic] = []
    for topic in request.topics:
        if is_cluster_metadata(topic.name, topic.topic_id):
            read = broker.cluster_metadata.read
            parts = [
                await read(part, max_bytes=request.max_bytes)
                if may_read_own()
                else FetchedPartition(index=part.partition, error=ErrorCode.topic_authorization_failed)
                for part in topic.partitions
            ]
        else:
            parts = [_fetched(next(fetched), request.version) for _ in topic.partitions]
        topics.append(FetchedTopic(topic.name, topic.topic_id, parts))
    size = sum(result.size for result in results)
    return await in_slices(_encoded(broker, context, request, topics, size=size))


def read_permission(
    broker: Broker, context: RequestContext, request: KafkaFetchRequest
) -> ReadPermission | None:
    """Return what the sender of a Fetch may read; None where everybody may read everything."""
    return None if broker.is_open else _Permission(broker, context, request.replica_id >= 0)


class _Permission:
    """`ReadPermission` by the broker's authorizer. Remembers what it found for as long as that holds."""

    __slots__ = ("_broker", "_context", "_from_follower", "_known", "_known_by")

    def __init__(self, broker: Broker, context: RequestContext, from_follower: bool) -> None:
        self._broker = broker
        self._context = context
        self._from_follower = from_follower
        self._known: dict[TopicRef, bool] = {}
        self._known_by = broker.authorizer.version

    @property
    def version(self) -> object:
        return self._broker.authorizer.version

    def allows(self, topic: TopicRef) -> bool:
        version = self._broker.authorizer.version
        if version != self._known_by:
            self._known.clear()
            self._known_by = version
        found = self._known.get(topic)
        if found is None:
            found = self._known[topic] = self._decide(topic)
        return found

    def _decide(self, topic: TopicRef) -> bool:
        if self._from_follower:
            return self._broker.may_on_cluster(self._context, AclOperation.CLUSTER_ACTION)
        if isinstance(topic, UUID):
            held = self._broker.image.topic_by_id(topic)
            if held is None:
                return True  # nobody's: the read says that there is none of this id
            topic = held.name
        return self._broker.may(self._context, AclOperation.READ, ResourceType.TOPIC, topic)


class _FetchAgain:
    """Kept with the connection (`ConnectionContext.kept`)."""

    __slots__ = ("_answer", "_finish", "_options", "_quiet", "request")

    def __init__(
        self,
        request: KafkaFetchRequest,
        options: FetchOptions,
        quiet: QuietRead,
        *,
        answer: EncodedResponse,
        finish: Callable[[ParkedFetch], Awaitable[Response]],
    ) -> None:
        """`answer`: that of `quiet`. `finish`: puts another one together."""
        self.request = request
        self._options = options
        self._quiet = quiet
        self._answer = answer
        self._finish = finish

    def begin(self, broker: Broker) -> Deferred | None:
        """Begin it again. None if it may find something now, or is to be throttled."""
        if broker.image.has_quotas:
            return None
        parked = broker.replicas.fetches.begin_again(self._options, self._quiet)
        return None if parked is None else self._deferred(parked)

    def _deferred(self, parked: ParkedFetch) -> Deferred:
        deferred = Deferred(parked.abandon)

        def answer() -> None:
            if deferred.abandoned:
                return
            if parked.expired and self._quiet.holds():
                deferred.complete(self._answer)
            else:
                deferred.complete_with(lambda: self._finish(parked))

        parked.notify(answer)
        return deferred


def each_once(request: KafkaFetchRequest) -> Steps[KafkaFetchRequest]:
    """Return the request with each partition once: at its first place, with its last values, as Kafka's map
    keeps them. Otherwise a frame of a megabyte asks for the same records 20,000 times."""
    seen: set[_Key] = set()
    for topic in request.topics:
        seen.add((topic.name, topic.topic_id))
        # As many partitions as there may be take 10 ms.
        if len({part.partition for part in topic.partitions}) < len(topic.partitions):
            return (yield from _merged(request))
        yield
    distinct = len(seen)
    while seen:
        for _ in range(min(PER_STEP, len(seen))):
            seen.pop()
        yield
    return request if distinct == len(request.topics) else (yield from _merged(request))


def _merged(request: KafkaFetchRequest) -> Steps[KafkaFetchRequest]:
    found: dict[_Key, dict[int, FetchPartition]] = {}
    for topic in request.topics:
        parts = found.setdefault((topic.name, topic.topic_id), {})
        for number, part in enumerate(topic.partitions, 1):
            parts[part.partition] = part
            if number % PER_STEP == 0:
                yield
        yield
    topics: list[FetchTopic] = []
    for name, topic_id in list(found):
        # Taken out, so that not all of it is freed at once.
        topics.append(FetchTopic(name, topic_id, list(found.pop((name, topic_id)).values())))
        yield
    yield from request.let_go_steps()
    return replace(request, topics=topics)


def _refuse(request: KafkaFetchRequest, refusal: Refusal) -> Steps[list[Buffer]]:
    def refused(part: FetchPartition) -> FetchedPartition:
        return FetchedPartition(index=part.partition, error=refusal.code)

    topics = Mapped(
        request.topics,
        lambda topic: FetchedTopic(topic.name, topic.topic_id, Mapped(topic.partitions, refused)),
    )
    return encode_fetch_steps(KafkaFetchResponse(version=request.version, error=refusal.code, topics=topics))


_OF_FOLLOWERS: Final = Need[KafkaFetchRequest](
    any_of=(Permission(AclOperation.CLUSTER_ACTION, ResourceType.CLUSTER),),
    refuses=Refuses.WHOLE,
    code=DENIED[ResourceType.TOPIC],
    named=lambda request: None if request.replica_id < 0 else CLUSTER_NAME,
    node_id=lambda request: request.replica_id,
    when="with a replica id, which must be the node's own",
)

ROWS: Final = (
    ApiRow[KafkaFetchRequest](
        ApiKey.FETCH.api,
        _refuse,
        needs=(
            _OF_FOLLOWERS,
            of_each(
                AclOperation.READ,
                ResourceType.TOPIC,
                when="for consumers; also each partition of a session, at each fetch",
            ),
        ),
        controllers_need=(whole(AclOperation.CLUSTER_ACTION),),
        brokers=handle_fetch,
        controllers=handle_fetch_on_controller,
    ),
)
