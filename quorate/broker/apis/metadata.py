"""Metadata and DescribeTopicPartitions: the brokers, the topics, and the leaders of their partitions."""

import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from heapq import merge
from itertools import groupby
from typing import TYPE_CHECKING, Final, TypedDict

import trio
from kio.schema.errors import ErrorCode

from quorate.broker.access.needs import left_out, of_each
from quorate.broker.apis import answers
from quorate.broker.apis.api_row import ApiRow
from quorate.broker.apis.authorized_operations import NOT_ASKED, operations_on, operations_on_cluster
from quorate.broker.apis.cluster_metadata import CLUSTER_METADATA, CLUSTER_METADATA_ID
from quorate.broker.apis.context import Broker, encoded_in_slices, endpoint_of, respond, respond_in_slices
from quorate.broker.apis.named_leaders import wait_settled
from quorate.broker.apis.topic_creation import INTERNAL_TOPICS
from quorate.broker.controller.operations.directories import directory_online
from quorate.broker.controller.operations.topic_limits import check_name
from quorate.broker.groups.offsets_topic import OFFSETS_TOPIC
from quorate.broker.metadata.acls import AclOperation, ResourceType
from quorate.broker.metadata.api_error import ApiError
from quorate.broker.metadata.metadata_records import NO_LEADER
from quorate.broker.metadata.states import PartitionState, TopicState
from quorate.broker.wire.api import ApiKey
from quorate.broker.wire.exchanges import Answer, Refusal, RequestContext, Response
from quorate.broker.wire.wire_errors import KafkaError, wire_code
from quorate.runtime import Slices, Steps, in_slices

if TYPE_CHECKING:
    from kio.schema.describe_topic_partitions.v0.request import DescribeTopicPartitionsRequest
    from kio.schema.metadata.v12.request import MetadataRequest, MetadataRequestTopic

_LISTED_S: Final = 2.0
"""The time for which a leader is still listed after this broker lost it, though it is fenced by then."""
_WITH_CLUSTER_OPERATIONS: Final = range(8, 11)
"""Versions; later there is DescribeCluster for it (KIP-700)."""
_FIRST_VERSION: Final = 0
"""In any version a topic above the client's rate of mutations is answered with an error that it retries on
(KIP-599): as in Kafka, where a broker asks in the client's name with the newest CreateTopics."""
_CREATION_WAIT_MAX_MS: Final = 1000
"""The longest wait for a topic that was not created. The client's records for other topics, and its
heartbeats, may use the same connection."""
_NULL_NAMES_FROM: Final = 12
_AT_ONCE: Final = 100
"""Topics and partitions that are answered in one piece, which takes some 3 ms."""
PARTITIONS_MAX: Final = 2000
"""The partitions of one answer (the default of Kafka's `max.request.partition.size.limit`)."""
_SORTED_AT_ONCE: Final = 5000
"""Names, in 1 to 3 ms."""


async def handle_metadata(broker: Broker, context: RequestContext, request: "MetadataRequest") -> Answer:
    """Answer Metadata. Unknown topics are created first where both sides want it.

    A large answer is made in slices, between which the metadata may change: each topic in it is as it was at
    one moment, the answer as a whole need not be. An answer for all topics leaves out those deleted
    meanwhile.
    """
    wanted = await in_slices(_missing(broker, context, request))
    missing, refused = await in_slices(_creatable(broker, context, wanted))
    if not missing:
        if doubted := _doubted(broker, context, request):

            async def answer() -> Response:
                await wait_settled(broker, doubted, lambda image, leader: not image.leader_count(leader))
                return await encoded_in_slices(context, _answer(broker, context, request, refused))

            return broker.later(answer)
        if _is_small(broker, context, request):
            return respond(context, _answer(broker, context, request, refused))
        return respond_in_slices(context, _answer(broker, context, request, refused))

    async def create() -> Response:
        errors = refused
        throttle_ms = 0
        who = broker.throttles.requester(context, strict_from=_FIRST_VERSION)
        asker = broker.asker(context)

        async def create_one(name: str) -> None:
            nonlocal throttle_ms
            if name == OFFSETS_TOPIC:
                error = await broker.topics.create_offsets_topic()
            else:
                creation = await broker.topics.create(name, who=who, asker=asker)
                error, throttle_ms = creation.error, max(throttle_ms, creation.throttle_ms)
            errors[name] = _creation_error(wire_code(error))

        slices = Slices()
        async with trio.open_nursery() as nursery:
            for name in missing:
                nursery.start_soon(create_one, name)
                await slices.pause()
        throttle_time = broker.throttles.wait_for_controller(context, min(throttle_ms, _CREATION_WAIT_MAX_MS))
        answer = _answer(broker, context, request, errors)
        answer["throttle_time"] = throttle_time
        return await encoded_in_slices(context, answer)

    return broker.later(create)


def _creation_error(error: ErrorCode) -> ErrorCode:
    match error:
        case ErrorCode.none | ErrorCode.topic_already_exists:
            return ErrorCode.leader_not_available
        case (
            ErrorCode.invalid_topic_exception
            | ErrorCode.invalid_replication_factor
            | ErrorCode.topic_authorization_failed
        ):
            return error
        case _:
            return ErrorCode.unknown_topic_or_partition


def _creatable(
    broker: Broker, context: RequestContext, names: list[str]
) -> Steps[tuple[list[str], dict[str, ErrorCode]]]:
    """Return the topics that the client may create, and the refusal of the others."""
    if broker.is_open or not names:
        return names, {}
    if broker.may_on_cluster(context, AclOperation.CREATE, audited=False):
        return names, {}
    created: list[str] = []
    refused: dict[str, ErrorCode] = {}
    for name in names:
        if broker.may(context, AclOperation.CREATE, ResourceType.TOPIC, name):
            created.append(name)
        else:
            refused[name] = ErrorCode.topic_authorization_failed
        yield
    return created, refused


def _may_describe(broker: Broker, context: RequestContext, name: str, *, audited: bool = True) -> bool:
    return broker.may(context, AclOperation.DESCRIBE, ResourceType.TOPIC, name, audited=audited)


def _missing(broker: Broker, context: RequestContext, request: "MetadataRequest") -> Steps[list[str]]:
    """Return the names of topics to create, each once. Who may not describe a topic is told nothing of it,
    and it is not created for them."""
    if not request.topics or not broker.config.topics.auto_create_enable:
        return []
    if not request.allow_auto_topic_creation:
        return []
    if _by_id(request):
        return []
    missing: dict[str, None] = {}
    for number, topic in enumerate(request.topics, 1):
        name = topic.name
        if (
            name is not None
            and name not in missing
            and name != CLUSTER_METADATA
            and broker.image.topic(name) is None
            and is_legal(name)
            and _may_describe(broker, context, name, audited=False)
        ):
            missing[name] = None
        if number % _AT_ONCE == 0:
            yield
    return list(missing)


def is_legal(name: str) -> bool:
    try:
        check_name(name)
    except ApiError:
        return False
    return True


def _wants_all(context: RequestContext, request: "MetadataRequest") -> bool:
    """Return whether all topics are asked for: by null, and in version 0, which has no null, by an empty
    list."""
    return request.topics is None or (context.version == 0 and not request.topics)


def _doubted(broker: Broker, context: RequestContext, request: "MetadataRequest") -> list[int]:
    """Return the leaders that the answer would name and that may just have died. Of a large answer, all that
    lead anything: it isn't walked for that."""
    image = broker.image
    doubted = [leader for leader in broker.replicas.lost_leaders.recent() if image.leader_count(leader)]
    if not doubted or not _is_small(broker, context, request):
        return doubted
    topics = (topic for topic in _asked(broker, context, request) if topic is not None)
    leaders = {state.leader for topic in topics for state in image.partitions(topic.topic_id)}
    return [leader for leader in doubted if leader in leaders]


def _asked(
    broker: Broker, context: RequestContext, request: "MetadataRequest"
) -> Iterator[TopicState | None]:
    image = broker.image
    if _wants_all(context, request):
        return iter(image.topics.values())
    if _by_id(request):
        return (
            None if each.topic_id is None else image.topic_by_id(each.topic_id)
            for each in request.topics or ()
        )
    return (image.topic(each.name or "") for each in request.topics or ())


def _is_small(broker: Broker, context: RequestContext, request: "MetadataRequest") -> bool:
    image = broker.image
    left = _AT_ONCE
    for topic in _asked(broker, context, request):
        left -= 1 if topic is None else 1 + len(image.partitions(topic.topic_id))
        if left < 0:
            return False
    return True


def _all_topics(
    broker: Broker, context: RequestContext, topics: Sequence[TopicState]
) -> Iterator[answers.MetadataResponseTopic]:
    for topic in topics:
        if broker.image.topic_by_id(topic.topic_id) is not None and _may_describe(
            broker, context, topic.name, audited=False
        ):
            yield _topic(broker, topic, context.connection.listener)


def _named_topics(
    broker: Broker, context: RequestContext, request: "MetadataRequest", errors: dict[str, ErrorCode]
) -> Iterator[answers.MetadataResponseTopic]:
    listener = context.connection.listener
    by_id = _by_id(request)
    for asked in request.topics or ():
        yield (
            _topic_by_id(broker, context, asked.topic_id, listener)
            if by_id
            else _topic_by_name(broker, context, asked, listener, errors)
        )


def _answer(
    broker: Broker, context: RequestContext, request: "MetadataRequest", errors: dict[str, ErrorCode]
) -> answers.MetadataResponse:
    """Return the response's values; its topics and their partitions are described as they are asked for."""
    image, listener = broker.image, context.connection.listener
    described = (
        _all_topics(broker, context, tuple(image.topics.values()))
        if _wants_all(context, request)
        else _named_topics(broker, context, request, errors)
    )
    # librdkafka forgets a broker that is no longer listed. If the same answer names the new leaders of its
    # partitions, librdkafka may forget these too, and asks again a second later.
    lately = set(broker.replicas.lost_leaders.recent(within_s=_LISTED_S))
    topics = (
        answers.MetadataResponseTopic(
            {
                **each,
                "topic_authorized_operations": operations_on(
                    broker, context, ResourceType.TOPIC, each.get("name") or ""
                )
                if request.include_topic_authorized_operations
                and each.get("error_code") is not ErrorCode.topic_authorization_failed
                else NOT_ASKED,
            }
        )
        for each in described
    )
    brokers: list[answers.MetadataResponseBroker] = [
        {"node_id": each.broker_id, "host": endpoint.host, "port": endpoint.port, "rack": each.rack}
        for each in image.brokers.values()
        if (not each.fenced or each.broker_id in lately)
        and (endpoint := endpoint_of(each, listener)) is not None
    ]
    controller_id = broker.controller_id()
    if broker.replicas.lookups.any_cut_off:
        # This broker's metadata is old, so the client should ask another one.
        others = [each for each in brokers if each.get("node_id") != broker.config.node_id]
        if others:
            brokers, controller_id = others, others[0].get("node_id", -1)
    answer: answers.MetadataResponse = {
        "brokers": brokers,
        "cluster_id": broker.cluster_id,
        "controller_id": controller_id,
        "topics": topics,
    }
    if context.version in _WITH_CLUSTER_OPERATIONS:
        # Even if the client did not ask: the newest version's request has no field for it.
        answer["cluster_authorized_operations"] = operations_on_cluster(broker, context)
    return answer


def _by_id(request: "MetadataRequest") -> bool:
    """Return True if the request asks for topics by id. Names don't count then: Java's client sends empty
    ones."""
    return any(topic.topic_id is not None for topic in request.topics or ())


def _topic_by_id(
    broker: Broker, context: RequestContext, topic_id: uuid.UUID | None, listener: str
) -> answers.MetadataResponseTopic:
    topic = None if topic_id is None else broker.image.topic_by_id(topic_id)
    name = CLUSTER_METADATA if topic_id == CLUSTER_METADATA_ID else None if topic is None else topic.name
    if name is not None and not _may_describe(broker, context, name):
        return _no_topic(ErrorCode.topic_authorization_failed, _or_empty(context, None), topic_id)
    if name == CLUSTER_METADATA:
        return _cluster_metadata_topic(broker)
    if topic is not None:
        return _topic(broker, topic, listener)
    return _no_topic(ErrorCode.unknown_topic_id, _or_empty(context, None), topic_id)


def _topic_by_name(
    broker: Broker,
    context: RequestContext,
    asked: "MetadataRequestTopic",
    listener: str,
    errors: dict[str, ErrorCode],
) -> answers.MetadataResponseTopic:
    name = asked.name
    if name is not None and not _may_describe(broker, context, name):
        return _no_topic(ErrorCode.topic_authorization_failed, name, None)
    if name == CLUSTER_METADATA:
        return _cluster_metadata_topic(broker)
    if name is None or not is_legal(name):
        return _no_topic(ErrorCode.invalid_topic_exception, _or_empty(context, name), None)
    topic = broker.image.topic(name)
    if topic is None:
        return _no_topic(errors.get(name, ErrorCode.unknown_topic_or_partition), name, None)
    return _topic(broker, topic, listener)


def _or_empty(context: RequestContext, name: str | None) -> str | None:
    """Return "" for a name that is missing before version 12: a request may leave it out from version 10 on,
    an answer only then."""
    return "" if name is None and context.version < _NULL_NAMES_FROM else name


class _TopicHead(TypedDict):
    """The fields of a topic beside its partitions, in the words of both answers."""

    error_code: ErrorCode
    name: str
    topic_id: uuid.UUID
    is_internal: bool
    topic_authorized_operations: int
    """Not asked for, until the answer says otherwise."""


_CLUSTER_METADATA: Final = _TopicHead(
    error_code=ErrorCode.none,
    name=CLUSTER_METADATA,
    topic_id=CLUSTER_METADATA_ID,
    is_internal=True,
    topic_authorized_operations=NOT_ASKED,
)


def _topic_head(topic: TopicState) -> _TopicHead:
    return {
        "error_code": ErrorCode.none,
        "name": topic.name,
        "topic_id": topic.topic_id,
        "is_internal": topic.name in INTERNAL_TOPICS,
        "topic_authorized_operations": NOT_ASKED,
    }


def _no_topic(
    error: ErrorCode, name: str | None, topic_id: uuid.UUID | None
) -> answers.MetadataResponseTopic:
    return {"error_code": error, "name": name, "topic_id": topic_id, "is_internal": False, "partitions": ()}


def _topic(broker: Broker, topic: TopicState, listener: str) -> answers.MetadataResponseTopic:
    return {
        **_topic_head(topic),
        "partitions": (
            _describe_partition(broker, topic, index, state, listener)
            for index, state in enumerate(tuple(broker.image.partitions(topic.topic_id)))
        ),
    }


def _describe_partition(
    broker: Broker, topic: TopicState, index: int, state: PartitionState, listener: str
) -> answers.MetadataResponsePartition:
    error, leader = _served_leader(broker, topic, index, state, listener)
    return {
        "error_code": error,
        "partition_index": index,
        "leader_id": leader,
        "leader_epoch": state.leader_epoch,
        "replica_nodes": state.replicas,
        "isr_nodes": state.isr,
        "offline_replicas": _offline_replicas(broker, state, listener),
    }


def _served_leader(
    broker: Broker, topic: TopicState, index: int, state: PartitionState, listener: str
) -> tuple[ErrorCode, int]:
    """Return the leader that clients should go to; with an error if there is none."""
    leader = state.leader
    if (
        leader == NO_LEADER
        or broker.endpoint(leader, listener) is None
        or (
            leader == broker.config.node_id
            and broker.replicas.lookups.sends_clients_away(topic.topic_id, index)
        )
    ):
        return ErrorCode.leader_not_available, NO_LEADER
    return ErrorCode.none, leader


def _offline_replicas(broker: Broker, state: PartitionState, listener: str) -> list[int]:
    return [
        each
        for each in state.replicas
        # A directory that is offline takes its replicas with it (KAFKA-15362).
        if broker.endpoint(each, listener) is None or not directory_online(broker.image, state, each)
    ]


def _cluster_metadata_topic(broker: Broker) -> answers.MetadataResponseTopic:
    """Describe the metadata log as a topic: every broker serves it, and names the quorum's leader where it
    can."""
    return {**_CLUSTER_METADATA, "partitions": [_cluster_metadata_partition(broker)]}


def _cluster_metadata_partition(broker: Broker) -> answers.MetadataResponsePartition:
    leader = broker.metadata_leader()
    return {
        "error_code": ErrorCode.none,
        "partition_index": 0,
        "leader_id": leader,
        "leader_epoch": broker.quorum.epoch,
        "replica_nodes": [leader],
        "isr_nodes": [leader],
        "offline_replicas": (),
    }


@dataclass(frozen=True, slots=True)
class _TopicPart:
    """A page's part of a topic: its partitions from `start` (inclusive) to `end` (exclusive)."""

    name: str
    start: int
    end: int
    refused: bool = False
    """Whether the client may not describe it, wherever it is."""


async def handle_describe_topic_partitions(
    broker: Broker, context: RequestContext, request: "DescribeTopicPartitionsRequest"
) -> Answer:
    """Describe the given topics, or all, by name from the cursor on, and return where the next page begins.

    A large page is described in slices, between which the metadata may change: each topic in it is as it was
    at one moment.
    """
    first, first_partition = "", 0
    if request.cursor is not None:
        first, first_partition = request.cursor.topic_name, request.cursor.partition_index
        if first_partition < 0:
            raise KafkaError(ErrorCode.invalid_request, f"the cursor's partition is {first_partition}")
    slices = Slices()
    asked: list[str] = [topic.name for topic in request.topics]
    all_topics = not asked
    asked = asked or [each.name for each in broker.image.topics.values()]
    left = max(1, min(request.response_partition_limit, PARTITIONS_MAX))
    page: list[_TopicPart] = []
    described = 0
    cursor: answers.DescribeTopicPartitionsCursor | None = None
    for name in await _in_order(asked, first, slices):
        await slices.pause()
        if not _may_describe(broker, context, name, audited=not all_topics):
            if not all_topics:
                page.append(_TopicPart(name, 0, 0, refused=True))
                described += 1
            continue
        if not left:
            cursor = {"topic_name": name, "partition_index": 0}
            break
        start = first_partition if name == first else 0
        count = len(broker.image.named_partitions(name))
        end = max(start, min(start + left, count))
        page.append(_TopicPart(name, start, end))
        described += 1 + end - start
        if end < count:
            cursor = {"topic_name": name, "partition_index": end}
            break
        left -= end - start
    topics = _page_of_topics(broker, context, page)
    if described <= _AT_ONCE:
        return respond(context, answers.DescribeTopicPartitionsResponse(topics=topics, next_cursor=cursor))
    return respond_in_slices(
        context, answers.DescribeTopicPartitionsResponse(topics=topics, next_cursor=cursor)
    )


async def _in_order(asked: Sequence[str], first: str, slices: Slices) -> Iterator[str]:
    """Yield each name once, from `first` on."""
    runs: list[list[str]] = []
    for start in range(0, len(asked), _SORTED_AT_ONCE):
        runs.append(sorted({name for name in asked[start : start + _SORTED_AT_ONCE] if name >= first}))
        await slices.pause()
    return (name for name, _ in groupby(merge(*runs)))


def _page_of_topics(
    broker: Broker, context: RequestContext, page: Iterable[_TopicPart]
) -> Iterator[answers.DescribeTopicPartitionsResponseTopic]:
    listener = context.connection.listener
    for part in page:
        topic = broker.image.topic(part.name)
        # Again, because a client that does not read lets its answer wait.
        if part.refused or not _may_describe(broker, context, part.name, audited=False):
            yield {"error_code": ErrorCode.topic_authorization_failed, "name": part.name, "topic_id": None}
        elif topic is None:
            yield _unknown_topic(broker, context, part.name)
        else:
            yield {
                **_topic_head(topic),
                "topic_authorized_operations": operations_on(broker, context, ResourceType.TOPIC, part.name),
                "partitions": _page_of_partitions(broker, topic, part.start, part.end, listener),
            }


def _unknown_topic(
    broker: Broker, context: RequestContext, name: str
) -> answers.DescribeTopicPartitionsResponseTopic:
    if name == CLUSTER_METADATA:
        only = _cluster_metadata_partition(broker)
        return {
            **_CLUSTER_METADATA,
            "topic_authorized_operations": operations_on(broker, context, ResourceType.TOPIC, name),
            "partitions": [{**only, "eligible_leader_replicas": None, "last_known_elr": None}],
        }
    error = ErrorCode.unknown_topic_or_partition if is_legal(name) else ErrorCode.invalid_topic_exception
    return {"error_code": error, "name": name, "topic_id": None}


def _page_of_partitions(
    broker: Broker, topic: TopicState, start: int, end: int, listener: str
) -> Iterator[answers.DescribeTopicPartitionsResponsePartition]:
    states = tuple(broker.image.partitions(topic.topic_id)[start:end])
    for index, state in enumerate(states, start):
        yield {
            **_describe_partition(broker, topic, index, state, listener),
            "eligible_leader_replicas": state.eligible.elr,
            "last_known_elr": state.eligible.last_known,
        }


def _refuse_metadata(request: "MetadataRequest", refusal: Refusal) -> answers.MetadataResponse:
    return {
        "controller_id": -1,
        "topics": (
            {
                "error_code": refusal.code,
                # Before version 12 a topic asked for by id still has a name, an empty one, in the answer.
                "name": topic.name if refusal.version >= _NULL_NAMES_FROM else topic.name or "",
                "topic_id": topic.topic_id,
            }
            for topic in request.topics or ()
        ),
    }


def _refuse_topic_partitions(
    request: "DescribeTopicPartitionsRequest", refusal: Refusal
) -> answers.DescribeTopicPartitionsResponse:
    return {"topics": ({"error_code": refusal.code, "name": topic.name} for topic in request.topics)}


ROWS: Final = (
    ApiRow["MetadataRequest"](
        ApiKey.METADATA.api,
        _refuse_metadata,
        needs=(
            of_each(AclOperation.DESCRIBE, ResourceType.TOPIC, when="of those that are named"),
            left_out(AclOperation.DESCRIBE, ResourceType.TOPIC, when="of all topics"),
            of_each(
                AclOperation.CREATE,
                ResourceType.TOPIC,
                or_on_cluster=AclOperation.CREATE,
                when="to create one at its first use",
            ),
        ),
        brokers=handle_metadata,
    ),
    ApiRow["DescribeTopicPartitionsRequest"](
        ApiKey.DESCRIBE_TOPIC_PARTITIONS.api,
        _refuse_topic_partitions,
        needs=(
            of_each(AclOperation.DESCRIBE, ResourceType.TOPIC, when="of those that are named"),
            left_out(AclOperation.DESCRIBE, ResourceType.TOPIC, when="of all topics"),
        ),
        brokers=handle_describe_topic_partitions,
    ),
)
