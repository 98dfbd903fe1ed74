"""What commands ask a cluster: Kafka's requests, and their answers as programs read them."""

import datetime
from collections.abc import Sequence
from typing import Final

from kio.schema.create_topics.v5.request import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from kio.schema.create_topics.v5.response import CreateTopicsResponse
from kio.schema.delete_topics.v5.request import DeleteTopicsRequest
from kio.schema.delete_topics.v5.response import DeleteTopicsResponse
from kio.schema.describe_quorum.v2.request import DescribeQuorumRequest, PartitionData, TopicData
from kio.schema.describe_quorum.v2.response import DescribeQuorumResponse, ReplicaState
from kio.schema.describe_quorum.v2.response import PartitionData as DescribedQuorum
from kio.schema.errors import ErrorCode
from kio.schema.metadata.v9.request import MetadataRequest, MetadataRequestTopic
from kio.schema.metadata.v9.response import MetadataResponse, MetadataResponseTopic
from kio.schema.types import BrokerId, TopicName
from kio.static.primitive import i16, i32, i32Timedelta

from quorate.broker.wire.client import WireClient
from quorate.broker.wire.errors import KafkaError
from quorate.runtime.entropy import uuid_text

METADATA_TOPIC: Final = "__cluster_metadata"
_TIMEOUT_SECONDS: Final = 30
"""How long the cluster may take to create or delete a topic."""
_MARGIN_SECONDS: Final = 5


def _refused(code: ErrorCode, message: str | None, topic: str) -> KafkaError:
    return KafkaError(code, f"topic {topic}: {message or code.name.upper()}")


# Topics


async def create_topic(
    client: WireClient,
    topic: str,
    *,
    partitions: int = -1,
    replication_factor: int = -1,
    assignment: Sequence[Sequence[int]] = (),
    configs: Sequence[tuple[str, str]] = (),
) -> None:
    """Returns when the topic exists. Raises `KafkaError`."""
    manual = tuple(
        CreatableReplicaAssignment(
            partition_index=i32(index), broker_ids=tuple(BrokerId(broker) for broker in brokers)
        )
        for index, brokers in enumerate(assignment)
    )
    creatable = CreatableTopic(
        name=TopicName(topic),
        num_partitions=i32(-1 if manual else partitions),
        replication_factor=i16(-1 if manual else replication_factor),
        assignments=manual,
        configs=tuple(CreatableTopicConfig(name=name, value=value) for name, value in configs),
    )
    response = await client.send(
        CreateTopicsRequest(topics=(creatable,), timeout=_timeout()),
        CreateTopicsResponse,
        timeout_s=_TIMEOUT_SECONDS + _MARGIN_SECONDS,
    )
    result = response.topics[0]
    if result.error_code is not ErrorCode.none:
        raise _refused(result.error_code, result.error_message, topic)


async def delete_topic(client: WireClient, topic: str) -> None:
    """Returns when the topic is gone. Raises `KafkaError`."""
    response = await client.send(
        DeleteTopicsRequest(topic_names=(TopicName(topic),), timeout=_timeout()),
        DeleteTopicsResponse,
        timeout_s=_TIMEOUT_SECONDS + _MARGIN_SECONDS,
    )
    result = response.responses[0]
    if result.error_code is not ErrorCode.none:
        raise _refused(result.error_code, result.error_message, topic)


def _timeout() -> i32Timedelta:
    return i32Timedelta.parse(datetime.timedelta(seconds=_TIMEOUT_SECONDS))


async def describe_topics(client: WireClient, topic: str | None) -> list[MetadataResponseTopic]:
    """One topic, or all by name. Raises `KafkaError` if the named one is not there."""
    named = None if topic is None else (MetadataRequestTopic(name=TopicName(topic)),)
    response = await client.send(_metadata_request(named), MetadataResponse)
    for described in response.topics:
        if topic is not None and described.error_code is not ErrorCode.none:
            raise _refused(described.error_code, None, topic)
    return sorted(response.topics, key=lambda described: str(described.name))


async def live_brokers(client: WireClient) -> set[int]:
    """Ids of the brokers that are registered and not fenced."""
    response = await client.send(_metadata_request(()), MetadataResponse)
    return {int(broker.node_id) for broker in response.brokers}


def _metadata_request(topics: tuple[MetadataRequestTopic, ...] | None) -> MetadataRequest:
    return MetadataRequest(
        topics=topics,
        allow_auto_topic_creation=False,
        include_cluster_authorized_operations=False,
        include_topic_authorized_operations=False,
    )


def topic_as_dict(topic: MetadataResponseTopic) -> dict[str, object]:
    """For programs. A `leader` of -1: nobody can lead."""
    return {
        "name": topic.name,
        "internal": topic.is_internal,
        "partitions": [
            {
                "partition": partition.partition_index,
                "leader": partition.leader_id,
                "leaderEpoch": partition.leader_epoch,
                "replicas": list(partition.replica_nodes),
                "isr": list(partition.isr_nodes),
            }
            for partition in sorted(topic.partitions, key=lambda partition: partition.partition_index)
        ],
    }


# The quorum


async def describe_quorum(client: WireClient) -> DescribedQuorum:
    """Raises `KafkaError` with what the broker answered."""
    request = DescribeQuorumRequest(
        topics=(
            TopicData(
                topic_name=TopicName(METADATA_TOPIC), partitions=(PartitionData(partition_index=i32(0)),)
            ),
        )
    )
    response = await client.send(request, DescribeQuorumResponse)
    if response.error_code is not ErrorCode.none:
        raise KafkaError(response.error_code, response.error_message or "the quorum can't be described")
    partition = response.topics[0].partitions[0]
    if partition.error_code is not ErrorCode.none:
        raise KafkaError(
            partition.error_code,
            partition.error_message
            or f"the quorum can't be described: {partition.error_code.name.upper()}; try again in a moment",
        )
    return partition


def quorum_as_dict(quorum: DescribedQuorum) -> dict[str, object]:
    """For programs. Offsets are exclusive ends; times are ms since the Unix epoch, -1 while unknown; the lag
    is behind the leader's log end, None while unknown."""
    leader_end = leader_end_offset(quorum)

    def replica_as_dict(replica: ReplicaState) -> dict[str, object]:
        directory = replica.replica_directory_id
        return {
            "id": replica.replica_id,
            "directoryId": None if directory is None else uuid_text(directory),
            "logEndOffset": replica.log_end_offset,
            "lag": leader_end - replica.log_end_offset if replica.log_end_offset >= 0 else None,
            "lastFetchTimestamp": replica.last_fetch_timestamp,
            "lastCaughtUpTimestamp": replica.last_caught_up_timestamp,
        }

    return {
        "leaderId": quorum.leader_id,
        "leaderEpoch": quorum.leader_epoch,
        "highWatermark": quorum.high_watermark,
        "voters": [replica_as_dict(replica) for replica in quorum.current_voters],
        "observers": [replica_as_dict(replica) for replica in quorum.observers],
    }


def leader_end_offset(quorum: DescribedQuorum) -> int:
    """The leader's log end offset, the largest there is; -1 while unknown."""
    return max((replica.log_end_offset for replica in quorum.current_voters), default=-1)
