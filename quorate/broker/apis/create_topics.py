"""CreateTopics, passed on to the controller."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

import trio

from quorate.broker.apis.cluster_metadata import CLUSTER_METADATA
from quorate.broker.apis.context import Broker, encoded_in_slices
from quorate.broker.controller.rpc import Assignment, ConfigEntry, CreatedTopic, CreateTopicsRequest, NewTopic
from quorate.broker.metadata import ConfigSource, describe_topic
from quorate.broker.wire import Answer, RequestContext, Response, wire_code
from quorate.error_code import ErrorCode

if TYPE_CHECKING:
    from kio.schema.create_topics.v7.request import CreatableTopic
    from kio.schema.create_topics.v7.request import CreateTopicsRequest as WireRequest

_Fields = dict[str, object]
_STRICT_FROM: Final = 6


def handle(broker: Broker, context: RequestContext, request: "WireRequest") -> Answer:
    """Create topics. The answer waits until this broker's own metadata has them, so that the next Metadata
    shows them, and until their leaders serve them, so that the next Produce is taken, if they are few."""
    return broker.later(lambda: _create(broker, context, request))


async def _create(broker: Broker, context: RequestContext, request: "WireRequest") -> Response:
    timeout = max(request.timeout.total_seconds(), 0)
    deadline = trio.current_time() + timeout
    reserved = [topic.name for topic in request.topics if topic.name == CLUSTER_METADATA]
    forwarded = CreateTopicsRequest(
        topics=tuple(_new_topic(topic) for topic in request.topics if topic.name != CLUSTER_METADATA),
        validate_only=request.validate_only,
        who=broker.throttles.requester(context, strict_from=_STRICT_FROM),
    )
    answer = await broker.channel.ask(forwarded, timeout_seconds=timeout)
    throttle_time = broker.throttles.wait_for_controller(context, answer.throttle_ms)
    created = list(answer.topics)
    if answer.error is not ErrorCode.NONE:
        created = [
            CreatedTopic(name=topic.name, error=answer.error, error_message=answer.error_message)
            for topic in forwarded.topics
        ]
    created += [
        CreatedTopic(
            name=name,
            error=ErrorCode.INVALID_REQUEST,
            error_message=f"Creation of internal topic {CLUSTER_METADATA} is prohibited.",
        )
        for name in reserved
    ]
    if not request.validate_only:
        ids = [topic.topic_id for topic in created if topic.topic_id is not None]
        with trio.move_on_at(deadline):
            await broker.metadata.wait_until(
                lambda image: all(image.topic_by_id(topic_id) is not None for topic_id in ids)
            )
            new = {topic.name: 0 for topic in created if topic.topic_id is not None}
            await broker.leaders.wait(new, deadline=deadline)
    given = {topic.name: {each.name: each.value for each in topic.configs} for topic in forwarded.topics}
    return await encoded_in_slices(
        context,
        throttle_time=throttle_time,
        topics=(_created(broker, topic, given.get(topic.name, {})) for topic in created),
    )


def _new_topic(topic: "CreatableTopic") -> NewTopic:
    return NewTopic(
        name=topic.name,
        num_partitions=topic.num_partitions,
        replication_factor=topic.replication_factor,
        assignments=tuple(
            Assignment(partition_id=each.partition_index, replicas=tuple(each.broker_ids))
            for each in topic.assignments
        ),
        configs=tuple(ConfigEntry(name=each.name, value=each.value) for each in topic.configs),
    )


def _created(broker: Broker, topic: CreatedTopic, given: Mapping[str, str | None]) -> _Fields:
    return {
        "name": topic.name,
        "topic_id": topic.topic_id,
        "error_code": wire_code(topic.error),
        "error_message": topic.error_message,
        "num_partitions": topic.num_partitions,
        "replication_factor": topic.replication_factor,
        "configs": None if topic.error is not ErrorCode.NONE else _configs(broker, topic.name, given),
    }


def _configs(broker: Broker, name: str, given: Mapping[str, str | None]) -> list[_Fields]:
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
