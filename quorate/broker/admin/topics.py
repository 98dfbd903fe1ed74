"""Topics: created, described, given more or fewer partitions, deleted."""

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, cast

from kio.schema.errors import ErrorCode
from kio.schema.types import TopicName

from quorate.broker.admin.admin_client import AdminClient, check, refusal
from quorate.broker.wire.api import ApiKey
from quorate.broker.wire.own_messages import DescribeStatesRequest, DescribeStatesResponse, PartitionInState
from quorate.broker.wire.wire_errors import KafkaError
from quorate.runtime import uuid_text

if TYPE_CHECKING:
    from kio.schema.create_partitions.v3.response import CreatePartitionsResponse
    from kio.schema.create_topics.v7.response import CreateTopicsResponse
    from kio.schema.delete_topics.v6.response import DeleteTopicsResponse
    from kio.schema.describe_topic_partitions.v0.response import (
        DescribeTopicPartitionsResponse,
        DescribeTopicPartitionsResponsePartition,
    )

    from quorate.broker.admin.controllers import Controllers


@dataclass(frozen=True, slots=True, kw_only=True)
class NewTopic:
    """A topic to be created: its name and its numbers (-1: the cluster's defaults), or the replicas of each
    partition in place of both numbers."""

    name: str
    partitions: int = -1
    replication_factor: int = -1
    assignment: Sequence[Sequence[int]] = ()
    configs: Mapping[str, str] = field(default_factory=dict)


async def create_topics(
    admin: AdminClient, topics: Sequence[NewTopic], *, validate_only: bool = False
) -> dict[str, "uuid.UUID | KafkaError"]:
    """Create topics with one request. Return the id of each, or the reason why it was refused."""
    answer = await admin.change(
        ApiKey.CREATE_TOPICS,
        topics=[
            {
                "name": topic.name,
                "num_partitions": topic.partitions,
                "replication_factor": topic.replication_factor,
                "assignments": [
                    {"partition_index": index, "broker_ids": list(brokers)}
                    for index, brokers in enumerate(topic.assignment)
                ],
                "configs": [{"name": name, "value": value} for name, value in topic.configs.items()],
            }
            for topic in topics
        ],
        timeout=timedelta(seconds=admin.timeout_s),
        validate_only=validate_only,
    )
    return {
        str(result.name): result.topic_id or uuid.UUID(int=0)
        if result.error_code is ErrorCode.none
        else refusal(result.error_code, result.error_message, of=f"topic {result.name}")
        for result in cast("CreateTopicsResponse", answer).topics
    }


async def create_topic(
    admin: AdminClient,
    topic: str,
    *,
    partitions: int = -1,
    replication_factor: int = -1,
    assignment: Sequence[Sequence[int]] = (),
    configs: Sequence[tuple[str, str]] = (),
    if_not_exists: bool = False,
) -> bool:
    """Create a topic, and return when it exists. False: it was there before, which is no error with
    `if_not_exists`. `assignment`: the replicas of each partition, in place of the two numbers."""
    wanted = NewTopic(
        name=topic,
        partitions=-1 if assignment else partitions,
        replication_factor=-1 if assignment else replication_factor,
        assignment=assignment,
        configs=dict(configs),
    )
    (result,) = (await create_topics(admin, [wanted])).values()
    if not isinstance(result, KafkaError):
        return True
    if if_not_exists and result.code is ErrorCode.topic_already_exists:
        return False
    raise result


async def create_partitions(
    admin: AdminClient,
    topic: str,
    *,
    count: int,
    assignment: Sequence[Sequence[int]] = (),
    validate_only: bool = False,
) -> None:
    """Let a topic have `count` partitions, and return when it has. `assignment`: the replicas of the new
    ones."""
    manual = [{"broker_ids": list(brokers)} for brokers in assignment]
    answer = await admin.change(
        ApiKey.CREATE_PARTITIONS,
        topics=[{"name": topic, "count": count, "assignments": manual or None}],
        timeout=timedelta(seconds=admin.timeout_s),
        validate_only=validate_only,
    )
    (result,) = cast("CreatePartitionsResponse", answer).results
    check(result.error_code, result.error_message, of=f"topic {topic}")


async def shrink_topic(controllers: "Controllers", topic: str, *, count: int, validate_only: bool) -> None:
    """Let a topic keep its first `count` partitions alone. Raises `RequestRefusedError` and what
    `Controllers.ask` does."""
    from quorate.broker.controller.rpc import FewerPartitions, ShrinkTopicsRequest
    from quorate.raft import RequestRefusedError

    answer = await controllers.ask(
        ShrinkTopicsRequest(topics=(FewerPartitions(name=topic, count=count),), validate_only=validate_only)
    )
    errors = [(answer.error, answer.error_message)]
    errors += [(result.error, result.error_message) for result in answer.topics]
    for error, message in errors:
        if error:
            raise RequestRefusedError(error, f"topic {topic}: {message or error.name}")


async def delete_topic(admin: AdminClient, topic: str | uuid.UUID) -> None:
    """Delete a topic by its name or its id, and return when it is gone."""
    by_id = isinstance(topic, uuid.UUID)
    answer = await admin.change(
        ApiKey.DELETE_TOPICS,
        topics=[{"name": None if by_id else topic, "topic_id": topic if by_id else None}],
        timeout=timedelta(seconds=admin.timeout_s),
    )
    (result,) = cast("DeleteTopicsResponse", answer).responses
    check(result.error_code, result.error_message, of=f"topic {topic}")


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicDescription:
    """A topic and its partitions, in order."""

    name: str
    topic_id: uuid.UUID
    internal: bool
    partitions: "tuple[DescribeTopicPartitionsResponsePartition, ...]"


async def describe_topics(admin: AdminClient, topic: str | None) -> list[TopicDescription]:
    """Describe one topic, or all by name. Raises `KafkaError` if the named one is not there."""
    found: dict[str, TopicDescription] = {}
    cursor: dict[str, object] | None = None
    while True:
        page = cast(
            "DescribeTopicPartitionsResponse",
            await admin.call(
                ApiKey.DESCRIBE_TOPIC_PARTITIONS,
                topics=[] if topic is None else [{"name": topic}],
                cursor=cursor,
            ),
        )
        for described in page.topics:
            if topic is not None:
                check(described.error_code, None, of=f"topic {topic}")
            name = str(described.name)
            before = found.get(name)
            found[name] = TopicDescription(
                name=name,
                topic_id=described.topic_id or uuid.UUID(int=0),
                internal=described.is_internal,
                partitions=(() if before is None else before.partitions) + described.partitions,
            )
        if page.next_cursor is None:
            return list(found.values())
        cursor = {
            "topic_name": page.next_cursor.topic_name,
            "partition_index": page.next_cursor.partition_index,
        }


def topic_as_dict(topic: TopicDescription) -> dict[str, object]:
    """Return a topic for programs. A `leader` of -1: no replica can lead."""
    return {
        "name": topic.name,
        "topicId": uuid_text(topic.topic_id),
        "internal": topic.internal,
        "partitions": [
            {
                "partition": partition.partition_index,
                "leader": partition.leader_id,
                "leaderEpoch": partition.leader_epoch,
                "replicas": list(partition.replica_nodes),
                "isr": list(partition.isr_nodes),
                "elr": list(partition.eligible_leader_replicas or ()),
                "lastKnownElr": list(partition.last_known_elr or ()),
            }
            for partition in topic.partitions
        ],
    }


async def topic_names(admin: AdminClient) -> list[str]:
    """Return the names of all topics, in order."""
    return sorted(str(topic.name) for topic in (await admin.metadata(None)).topics)


async def topic_states(admin: AdminClient, topic: str) -> tuple[PartitionInState, ...]:
    """Return the states of the topic's partitions and replicas in the controller's state machines."""
    answer = await admin.send(DescribeStatesRequest(topic_name=TopicName(topic)), DescribeStatesResponse)
    check(answer.error_code, answer.error_message or answer.error_code.name)
    return answer.partitions
