"""DescribeTopicPartitions: topics a page at a time, with who may lead them (KIP-966)."""

from typing import Any, Final

from kio.schema.errors import ErrorCode

from quorate.broker.apis.cluster_metadata import CLUSTER_METADATA
from quorate.broker.apis.context import Broker, respond
from quorate.broker.apis.metadata import describe_cluster_metadata, describe_partition, is_legal
from quorate.broker.apis.topic_creation import INTERNAL_TOPICS
from quorate.broker.controller.image import TopicState
from quorate.broker.wire.errors import KafkaError
from quorate.broker.wire.messages import Answer, RequestContext

PARTITIONS_MAX: Final = 2000
"""In one answer (the default of Kafka's `max.request.partition.size.limit`)."""

_Fields = dict[str, object]


def handle(broker: Broker, context: RequestContext, request: Any) -> Answer:
    """The topics that were asked for, or all, by name from the cursor on; where the next page begins."""
    first, first_partition = "", 0
    if request.cursor is not None:
        first, first_partition = request.cursor.topic_name, request.cursor.partition_index
        if first_partition < 0:
            raise KafkaError(ErrorCode.invalid_request, f"the cursor's partition is {first_partition}")
    names = [topic.name for topic in request.topics] or [each.name for each in broker.image.topics.values()]
    left = max(1, min(request.response_partition_limit, PARTITIONS_MAX))
    topics: list[_Fields] = []
    cursor: _Fields | None = None
    for name in sorted(dict.fromkeys(names)):
        if name < first:
            continue
        if not left:
            cursor = {"topic_name": name, "partition_index": 0}
            break
        topic = broker.image.topic(name)
        if topic is None:
            topics.append(_no_topic(broker, name))
            continue
        start = first_partition if name == first else 0
        partitions = _partitions(broker, topic, start, start + left, context.connection.listener)
        topics.append(
            {
                "error_code": ErrorCode.none,
                "name": name,
                "topic_id": topic.topic_id,
                "is_internal": name in INTERNAL_TOPICS,
                "partitions": partitions,
            }
        )
        if start + len(partitions) < len(broker.image.partitions(topic.topic_id)):
            cursor = {"topic_name": name, "partition_index": start + len(partitions)}
            break
        left -= len(partitions)
    return respond(context, topics=topics, next_cursor=cursor)


def _no_topic(broker: Broker, name: str) -> _Fields:
    if name == CLUSTER_METADATA:
        return describe_cluster_metadata(broker)
    error = ErrorCode.unknown_topic_or_partition if is_legal(name) else ErrorCode.invalid_topic_exception
    return {"error_code": error, "name": name, "topic_id": None}


def _partitions(broker: Broker, topic: TopicState, start: int, end: int, listener: str) -> list[_Fields]:
    states = broker.image.partitions(topic.topic_id)
    return [
        describe_partition(broker, topic, index, states[index], listener)
        | {
            "eligible_leader_replicas": states[index].eligible.elr,
            "last_known_elr": states[index].eligible.last_known,
        }
        for index in range(min(start, len(states)), min(end, len(states)))
    ]
