"""CreateTopics, CreatePartitions and DeleteTopics, passed on to the controller."""

import uuid
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Final, NamedTuple

import trio
from kio.schema.errors import ErrorCode as WireErrorCode

from quorate.broker.access.needs import denied_message, of_each
from quorate.broker.apis import answers
from quorate.broker.apis.api_row import ApiRow
from quorate.broker.apis.cluster_metadata import CLUSTER_METADATA
from quorate.broker.apis.context import Broker, answer_later, check_answer, encoded_in_slices
from quorate.broker.controller.operations.topic_limits import MAX_NEW_PARTITIONS, TOO_MANY
from quorate.broker.controller.permits import NEEDS
from quorate.broker.controller.portions import joined, portions
from quorate.broker.controller.rpc import (
    Assignment,
    ConfigEntry,
    CreatedTopic,
    CreatePartitionsRequest,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteTopicsRequest,
    MorePartitions,
    NewTopic,
    TopicRef,
)
from quorate.broker.controller_channel import ControllerTimedOutError
from quorate.broker.metadata.acls import AclOperation, ResourceType
from quorate.broker.metadata.configs import ConfigSource, describe_topic
from quorate.broker.metadata.image import MetadataImage
from quorate.broker.wire.api import ApiKey
from quorate.broker.wire.exchanges import Refusal, RequestContext, Response
from quorate.broker.wire.wire_errors import KafkaError, wire_code
from quorate.error_code import ErrorCode
from quorate.runtime import Slices, Steps, in_slices

if TYPE_CHECKING:
    from kio.schema.create_partitions.v3.request import CreatePartitionsRequest as WireCreatePartitions
    from kio.schema.create_partitions.v3.request import CreatePartitionsTopic
    from kio.schema.create_topics.v7.request import CreatableTopic
    from kio.schema.create_topics.v7.request import CreateTopicsRequest as WireCreateTopics
    from kio.schema.delete_topics.v6.request import DeleteTopicsRequest as WireDeleteTopics

_DENIED: Final = denied_message(WireErrorCode.topic_authorization_failed)
_CREATION_STRICT_FROM: Final = 6
_MAX_SETTINGS: Final = 10_000
"""The greatest number of settings of all topics in one request. As in Kafka, whose controller writes no more
records in one operation."""
_PORTION: Final = 1000
"""Topics, settings and assignments in one request to the controller: it takes 2 ms to encode."""
_PER_STEP: Final = 100
_MORE_STRICT_FROM: Final = 3
_DELETION_STRICT_FROM: Final = 5
_MAX_TOPICS: Final = 10_000
"""As in Kafka: one operation of its controller writes no more records."""


@answer_later
async def handle_create_topics(
    broker: Broker, context: RequestContext, request: "WireCreateTopics"
) -> Response:
    """Create topics. The answer waits until this broker's own metadata has them, so that the next Metadata
    shows them, and until their leaders serve them, so that the next Produce is taken, if they are few."""
    deadline = trio.current_time() + max(request.timeout.total_seconds(), 0)
    asked = await in_slices(_asked_topics(broker, context, request))
    created: list[CreatedTopic] = []
    throttle_ms = 0
    slices = Slices()
    if not asked.topics and asked.refused:
        return await encoded_in_slices(context, _not_created(asked))
    for portion in portions(list(asked.topics.values()), most=_PORTION, cost=_cost):
        forwarded = CreateTopicsRequest(
            topics=joined(portion),
            validate_only=request.validate_only,
            who=broker.throttles.requester(context, strict_from=_CREATION_STRICT_FROM),
        )
        try:
            answer = await broker.ask_controller(
                context, forwarded, timeout_seconds=max(deadline - trio.current_time(), 0)
            )
        except ControllerTimedOutError as timed_out:
            if not created:
                raise
            # The topics of earlier portions are there, and are answered so.
            answer = CreateTopicsResponse(error=ErrorCode.REQUEST_TIMED_OUT, error_message=str(timed_out))
        throttle_ms = max(throttle_ms, answer.throttle_ms)
        if answer.error is ErrorCode.NONE:
            created += answer.topics
        else:
            created += (
                CreatedTopic(name=same[0].name, error=answer.error, error_message=answer.error_message)
                for same in portion
            )
        await slices.pause()
    throttle_time = broker.throttles.wait_for_controller(context, throttle_ms)
    created += asked.refused
    if not request.validate_only:
        ids = [topic.topic_id for topic in created if topic.topic_id is not None]
        with trio.move_on_at(deadline):
            await broker.metadata.wait_until(
                lambda image: all(image.topic_by_id(topic_id) is not None for topic_id in ids)
            )
            new = {topic.name: 0 for topic in created if topic.topic_id is not None}
            await broker.leaders.wait(new, deadline=deadline)
    return await encoded_in_slices(
        context,
        answers.CreateTopicsResponse(
            throttle_time=throttle_time,
            topics=(_created(broker, context, topic, asked.settings(topic.name)) for topic in created),
        ),
    )


class _AskedTopics(NamedTuple):
    """The topics that a request asks for."""

    topics: Mapping[str, tuple[NewTopic, ...]]
    """By name. One that is asked for more than once is here twice: the controller refuses it."""
    refused: Sequence[CreatedTopic]
    """Those that can't be created, and those that the client may not create, once each."""

    def settings(self, name: str) -> dict[str, str | None]:
        given = self.topics.get(name)
        return {} if given is None else {each.name: each.value for each in given[0].configs}


def _asked_topics(
    broker: Broker, context: RequestContext, request: "WireCreateTopics"
) -> Steps[_AskedTopics]:
    """Return what the controller is asked for. Raises `KafkaError` if it would refuse that for its size."""
    topics: dict[str, tuple[NewTopic, ...]] = {}
    refused: dict[str, CreatedTopic] = {}
    may_all = broker.may_on_cluster(context, AclOperation.CREATE, audited=False)
    default_partitions = broker.config.topics.num_partitions
    partitions = settings = 0
    for topic in request.topics:
        settings += len(topic.configs)
        count = default_partitions if topic.num_partitions == -1 else topic.num_partitions
        partitions += len(topic.assignments) or max(1, count)
        yield
    if partitions > MAX_NEW_PARTITIONS:
        raise KafkaError(WireErrorCode.policy_violation, TOO_MANY)
    if settings > _MAX_SETTINGS:
        raise KafkaError(
            WireErrorCode.policy_violation,
            f"one request may give {_MAX_SETTINGS} settings to new topics at most; send several",
        )
    for topic in request.topics:
        if topic.name == CLUSTER_METADATA:
            refused[topic.name] = CreatedTopic(
                name=CLUSTER_METADATA,
                error=ErrorCode.INVALID_REQUEST,
                error_message=f"Creation of internal topic {CLUSTER_METADATA} is prohibited.",
            )
        elif topic.name in refused:
            pass
        elif not (may_all or broker.may(context, AclOperation.CREATE, ResourceType.TOPIC, topic.name)):
            refused[topic.name] = CreatedTopic(
                name=topic.name, error=ErrorCode.TOPIC_AUTHORIZATION_FAILED, error_message=_DENIED
            )
        else:
            topics[topic.name] = (*topics.get(topic.name, ())[:1], (yield from _new_topic(topic)))
        yield
    return _AskedTopics(topics, tuple(refused.values()))


def _not_created(asked: _AskedTopics) -> answers.CreateTopicsResponse:
    return {
        "topics": (
            _refused_creation(each.name, wire_code(each.error), each.error_message) for each in asked.refused
        )
    }


def _cost(same: tuple[NewTopic, ...]) -> int:
    return sum(1 + len(each.configs) + len(each.assignments) for each in same)


def _new_topic(topic: "CreatableTopic") -> Steps[NewTopic]:
    assignments: list[Assignment] = []
    for each in topic.assignments:
        assignments.append(Assignment(partition_id=each.partition_index, replicas=tuple(each.broker_ids)))
        if len(assignments) % _PER_STEP == 0:
            yield
    configs: list[ConfigEntry] = []
    for setting in topic.configs:
        configs.append(ConfigEntry(name=setting.name, value=setting.value))
        if len(configs) % _PER_STEP == 0:
            yield
    return NewTopic(
        name=topic.name,
        num_partitions=topic.num_partitions,
        replication_factor=topic.replication_factor,
        assignments=tuple(assignments),
        configs=tuple(configs),
    )


def _created(
    broker: Broker, context: RequestContext, topic: CreatedTopic, given: Mapping[str, str | None]
) -> answers.CreatableTopicResult:
    if topic.error is ErrorCode.NONE and not broker.may(
        context, AclOperation.DESCRIBE_CONFIGS, ResourceType.TOPIC, topic.name, audited=False
    ):
        return {
            "name": topic.name,
            "topic_id": topic.topic_id,
            "error_code": WireErrorCode.none,
            "error_message": None,
            "topic_config_error_code": WireErrorCode.topic_authorization_failed,
            "num_partitions": -1,
            "replication_factor": -1,
            "configs": None,
        }
    return {
        "name": topic.name,
        "topic_id": topic.topic_id,
        "error_code": wire_code(topic.error),
        "error_message": topic.error_message,
        "num_partitions": topic.num_partitions,
        "replication_factor": topic.replication_factor,
        "configs": None if topic.error is not ErrorCode.NONE else _configs(broker, topic.name, given),
    }


def _configs(
    broker: Broker, name: str, given: Mapping[str, str | None]
) -> list[answers.CreatableTopicConfigs]:
    """Describe the topic's settings, with what the request gave it: a topic that is only validated, or not
    yet in this broker's metadata, is in no image."""
    return [
        {
            "name": each.name,
            "value": given.get(each.name, each.value),
            "read_only": each.read_only,
            "config_source": int(ConfigSource.DYNAMIC_TOPIC if each.name in given else each.source),
            "is_sensitive": each.sensitive,
        }
        for each in describe_topic(broker.image, name, static=broker.config.static)
    ]


@answer_later
async def handle_create_partitions(
    broker: Broker, context: RequestContext, request: "WireCreatePartitions"
) -> Response:
    """Add partitions to topics. The answer waits until this broker's own metadata has them, and until their
    leaders serve them, if they are few."""
    timeout = max(request.timeout.total_seconds(), 0)
    deadline = trio.current_time() + timeout
    topics, refused = await in_slices(_asked_partitions(broker, context, request))
    if not topics and refused:
        return await encoded_in_slices(
            context, answers.CreatePartitionsResponse(results=map(_not_extended, refused))
        )
    forwarded = CreatePartitionsRequest(
        topics=topics,
        validate_only=request.validate_only,
        who=broker.throttles.requester(context, strict_from=_MORE_STRICT_FROM),
    )
    before = await in_slices(_counts(broker.metadata.image, topics))
    answer = await broker.ask_controller(context, forwarded, timeout_seconds=timeout)
    throttle_time = broker.throttles.wait_for_controller(context, answer.throttle_ms)
    check_answer(answer)
    if not request.validate_only:
        counts = {topic.name: topic.count for topic in topics}
        wanted = {topic.name: counts[topic.name] for topic in answer.topics if topic.error is ErrorCode.NONE}
        with trio.move_on_at(deadline):
            await broker.metadata.wait_until(lambda image: _have_grown(image, wanted))
            await broker.leaders.wait({name: before[name] for name in wanted}, deadline=deadline)
    return await encoded_in_slices(
        context,
        answers.CreatePartitionsResponse(
            throttle_time=throttle_time,
            results=chain(
                (
                    _extended(topic.name, wire_code(topic.error), topic.error_message)
                    for topic in answer.topics
                ),
                map(_not_extended, refused),
            ),
        ),
    )


def _asked_partitions(
    broker: Broker, context: RequestContext, request: "WireCreatePartitions"
) -> Steps[tuple[tuple[MorePartitions, ...], Iterable[str]]]:
    """Return what the controller is asked for, and the topics that the client may not alter. Raises
    `KafkaError` if the controller would refuse that for its size."""
    topics: list[MorePartitions] = []
    refused: dict[str, None] = {}
    assigned = 0
    for topic in request.topics:
        assigned += len(topic.assignments or ())
        if max(assigned, len(request.topics)) > MAX_NEW_PARTITIONS:
            raise KafkaError(WireErrorCode.policy_violation, TOO_MANY)
        if topic.name not in refused:
            if broker.may(context, AclOperation.ALTER, ResourceType.TOPIC, topic.name):
                topics.append((yield from _larger_topic(topic)))
            else:
                refused[topic.name] = None
        yield
    return tuple(topics), tuple(refused)


def _not_extended(name: str) -> answers.CreatePartitionsTopicResult:
    return _extended(name, WireErrorCode.topic_authorization_failed, _DENIED)


def _larger_topic(topic: "CreatePartitionsTopic") -> Steps[MorePartitions]:
    if topic.assignments is None:
        return MorePartitions(name=topic.name, count=topic.count)
    assignments: list[tuple[int, ...]] = []
    for each in topic.assignments:
        assignments.append(tuple(each.broker_ids))
        if len(assignments) % _PER_STEP == 0:
            yield
    return MorePartitions(name=topic.name, count=topic.count, assignments=tuple(assignments))


def _extended(name: str, error: WireErrorCode, message: str | None) -> answers.CreatePartitionsTopicResult:
    return {"name": name, "error_code": error, "error_message": message}


def _counts(image: MetadataImage, topics: Iterable[MorePartitions]) -> Steps[dict[str, int]]:
    counts: dict[str, int] = {}
    for topic in topics:
        counts[topic.name] = len(image.named_partitions(topic.name))
        yield
    return counts


def _have_grown(image: MetadataImage, wanted: dict[str, int]) -> bool:
    """Whether each topic has as many partitions, or is gone meanwhile."""
    return all(
        len(image.named_partitions(name)) >= count or image.topic(name) is None
        for name, count in wanted.items()
    )


@answer_later
async def handle_delete_topics(
    broker: Broker, context: RequestContext, request: "WireDeleteTopics"
) -> Response:
    """Delete topics. The answer waits until this broker's own metadata lacks them too."""
    if not broker.config.topics.delete_enable:
        # The code came with version 3.
        code = (
            WireErrorCode.topic_deletion_disabled if context.version >= 3 else WireErrorCode.invalid_request
        )
        raise KafkaError(code, "Topic deletion is disabled (delete.topic.enable).")
    timeout = max(request.timeout.total_seconds(), 0)
    deadline = trio.current_time() + timeout
    if len(request.topics) > _MAX_TOPICS:
        raise KafkaError(
            WireErrorCode.policy_violation, f"a request names {_MAX_TOPICS} topics at most; send several"
        )
    asked, refused = await in_slices(_asked_deletions(broker, context, request))
    if not asked and refused:
        return await encoded_in_slices(context, answers.DeleteTopicsResponse(responses=refused))
    who = broker.throttles.requester(context, strict_from=_DELETION_STRICT_FROM)
    answer = await broker.ask_controller(
        context, DeleteTopicsRequest(topics=asked, who=who), timeout_seconds=timeout
    )
    throttle_time = broker.throttles.wait_for_controller(context, answer.throttle_ms)
    check_answer(answer)
    deleted_ids = [topic.topic_id for topic in answer.topics if topic.error is ErrorCode.NONE]
    with trio.move_on_at(deadline):
        await broker.metadata.wait_until(
            lambda image: all(
                topic_id is None or image.topic_by_id(topic_id) is None for topic_id in deleted_ids
            )
        )
    return await encoded_in_slices(
        context,
        answers.DeleteTopicsResponse(
            throttle_time=throttle_time,
            responses=chain(
                (
                    _deleted(topic.name, topic.topic_id, wire_code(topic.error), topic.error_message)
                    for topic in answer.topics
                ),
                refused,
            ),
        ),
    )


def _asked_deletions(
    broker: Broker, context: RequestContext, request: "WireDeleteTopics"
) -> Steps[tuple[tuple[TopicRef, ...], list[answers.DeletableTopicResult]]]:
    """Return what the controller is asked for, and the refusals of what the client may not delete."""
    refs: list[TopicRef] = []
    refused: list[answers.DeletableTopicResult] = []
    may_all = broker.may_on_cluster(context, AclOperation.DELETE, audited=False)
    for topic in request.topics:
        refusal = None if may_all else _not_deletable(broker, context, topic.name, topic.topic_id)
        if refusal is None:
            refs.append(TopicRef(name=topic.name, topic_id=topic.topic_id))
        else:
            refused.append(refusal)
        yield
    return tuple(refs), refused


def _not_deletable(
    broker: Broker, context: RequestContext, name: str | None, topic_id: uuid.UUID | None
) -> answers.DeletableTopicResult | None:
    """Return the refusal of a topic, given by name or by id, that the client may not delete. Its id or its
    name is in it only if the client had it, or may describe the topic."""
    code = WireErrorCode.topic_authorization_failed
    if name is not None:
        may = broker.may(context, AclOperation.DELETE, ResourceType.TOPIC, name)
        return None if may else _deleted(name, None, code, _DENIED)
    held = None if topic_id is None else broker.image.topic_by_id(topic_id)
    if held is None:
        # The controller may know it already, but nobody has said yet whose it is.
        return _deleted(None, topic_id, WireErrorCode.unknown_topic_id, None)
    if broker.may(context, AclOperation.DELETE, ResourceType.TOPIC, held.name):
        return None
    shown = broker.may(context, AclOperation.DESCRIBE, ResourceType.TOPIC, held.name, audited=False)
    return _deleted(held.name if shown else None, topic_id, code, _DENIED)


def _deleted(
    name: str | None, topic_id: uuid.UUID | None, error: WireErrorCode, message: str | None
) -> answers.DeletableTopicResult:
    return {"name": name, "topic_id": topic_id, "error_code": error, "error_message": message}


def _refuse_creation(request: "WireCreateTopics", refusal: Refusal) -> answers.CreateTopicsResponse:
    return {
        "topics": (_refused_creation(topic.name, refusal.code, refusal.message) for topic in request.topics)
    }


def _refused_creation(name: str, error: WireErrorCode, message: str | None) -> answers.CreatableTopicResult:
    return {
        "error_code": error,
        "error_message": message,
        "name": name,
        "configs": None,
        "num_partitions": -1,
        "replication_factor": -1,
    }


def _refuse_partitions(request: "WireCreatePartitions", refusal: Refusal) -> answers.CreatePartitionsResponse:
    return {"results": (_extended(topic.name, refusal.code, refusal.message) for topic in request.topics)}


def _refuse_deletion(request: "WireDeleteTopics", refusal: Refusal) -> answers.DeleteTopicsResponse:
    return {
        "responses": (
            _deleted(topic.name, topic.topic_id, refusal.code, refusal.message) for topic in request.topics
        )
    }


ROWS: Final = (
    ApiRow["WireCreateTopics"](
        ApiKey.CREATE_TOPICS.api,
        _refuse_creation,
        needs=(
            *NEEDS[CreateTopicsRequest],
            of_each(
                AclOperation.DESCRIBE_CONFIGS,
                ResourceType.TOPIC,
                when="for the settings in the answer, from version 5",
            ),
        ),
        brokers=handle_create_topics,
    ),
    ApiRow["WireDeleteTopics"](
        ApiKey.DELETE_TOPICS.api,
        _refuse_deletion,
        needs=NEEDS[DeleteTopicsRequest],
        brokers=handle_delete_topics,
    ),
    ApiRow["WireCreatePartitions"](
        ApiKey.CREATE_PARTITIONS.api,
        _refuse_partitions,
        needs=NEEDS[CreatePartitionsRequest],
        brokers=handle_create_partitions,
    ),
)
