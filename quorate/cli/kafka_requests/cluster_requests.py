"""The Kafka requests of commands to a cluster, with answers for programs."""

import datetime
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from kio.schema.add_raft_voter.v0.request import AddRaftVoterRequest, Listener
from kio.schema.add_raft_voter.v0.response import AddRaftVoterResponse
from kio.schema.create_partitions.v3.request import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from kio.schema.create_partitions.v3.response import CreatePartitionsResponse
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
from kio.schema.describe_topic_partitions.v0.request import (
    Cursor,
    DescribeTopicPartitionsRequest,
    TopicRequest,
)
from kio.schema.describe_topic_partitions.v0.response import (
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
)
from kio.schema.errors import ErrorCode
from kio.schema.metadata.v9.request import MetadataRequest
from kio.schema.metadata.v9.response import MetadataResponse
from kio.schema.remove_raft_voter.v0.request import RemoveRaftVoterRequest
from kio.schema.remove_raft_voter.v0.response import RemoveRaftVoterResponse
from kio.schema.types import BrokerId, TopicName
from kio.schema.unregister_broker.v0.request import UnregisterBrokerRequest
from kio.schema.unregister_broker.v0.response import UnregisterBrokerResponse
from kio.static.primitive import i16, i32, i32Timedelta, u16

from quorate.broker.admin import Controllers
from quorate.broker.controller.rpc import FewerPartitions, ShrinkTopicsRequest
from quorate.broker.wire import KafkaError, WireClient
from quorate.raft import QuorumDescription, ReplicaStatus, RequestRefusedError
from quorate.runtime import Address, parse_uuid, uuid_text
from quorate.types import Endpoint, Epoch, NodeId, Offset, ReplicaKey, Voter

METADATA_TOPIC: Final = "__cluster_metadata"
_TIMEOUT_SECONDS: Final = 30
"""The time that the cluster has to create or delete a topic."""
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
    if_not_exists: bool = False,
) -> bool:
    """Create a topic, and return when it exists. Raises `KafkaError`. False: it was there before, which is no
    error with `if_not_exists`."""
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
    if if_not_exists and result.error_code is ErrorCode.topic_already_exists:
        return False
    if result.error_code is not ErrorCode.none:
        raise _refused(result.error_code, result.error_message, topic)
    return True


async def create_partitions(
    client: WireClient, topic: str, *, count: int, assignment: Sequence[Sequence[int]] = ()
) -> None:
    """Let a topic have `count` partitions, and return when it has. `assignment`: the replicas of the new
    ones. Raises `KafkaError`."""
    manual = tuple(
        CreatePartitionsAssignment(broker_ids=tuple(BrokerId(broker) for broker in brokers))
        for brokers in assignment
    )
    wanted = CreatePartitionsTopic(name=TopicName(topic), count=i32(count), assignments=manual or None)
    response = await client.send(
        CreatePartitionsRequest(topics=(wanted,), timeout=_timeout(), validate_only=False),
        CreatePartitionsResponse,
        timeout_s=_TIMEOUT_SECONDS + _MARGIN_SECONDS,
    )
    result = response.results[0]
    if result.error_code is not ErrorCode.none:
        raise _refused(result.error_code, result.error_message, topic)


async def shrink_topic(controllers: Controllers, topic: str, *, count: int, validate_only: bool) -> None:
    """Let a topic keep its first `count` partitions alone. Raises `RequestRefusedError` and what
    `Controllers.ask` does."""
    request = ShrinkTopicsRequest(
        topics=(FewerPartitions(name=topic, count=count),), validate_only=validate_only
    )
    answer = await controllers.ask(request)
    errors = [(answer.error, answer.error_message)]
    errors += [(result.error, result.error_message) for result in answer.topics]
    for error, message in errors:
        if error:
            raise RequestRefusedError(error, f"topic {topic}: {message or error.name}")


async def delete_topic(client: WireClient, topic: str) -> None:
    """Delete a topic, and return when it is gone. Raises `KafkaError`."""
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


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicDescription:
    """A topic and its partitions, in order."""

    name: str
    topic_id: uuid.UUID
    internal: bool
    partitions: tuple[DescribeTopicPartitionsResponsePartition, ...]


async def describe_topics(client: WireClient, topic: str | None) -> list[TopicDescription]:
    """Describe one topic, or all by name. Raises `KafkaError` if the named one is not there."""
    named = () if topic is None else (TopicRequest(name=TopicName(topic)),)
    found: dict[str, TopicDescription] = {}
    cursor: Cursor | None = None
    while True:
        page = await client.send(
            DescribeTopicPartitionsRequest(topics=named, cursor=cursor), DescribeTopicPartitionsResponse
        )
        for described in page.topics:
            name = str(described.name)
            if topic is not None and described.error_code is not ErrorCode.none:
                raise _refused(described.error_code, None, topic)
            before = found.get(name)
            found[name] = TopicDescription(
                name=name,
                topic_id=described.topic_id or uuid.UUID(int=0),
                internal=described.is_internal,
                partitions=(() if before is None else before.partitions) + described.partitions,
            )
        if page.next_cursor is None:
            return list(found.values())
        cursor = Cursor(
            topic_name=page.next_cursor.topic_name, partition_index=page.next_cursor.partition_index
        )


def only_partitions(
    topics: Sequence[TopicDescription], *, under_replicated: bool, unavailable: bool
) -> list[TopicDescription]:
    """Return the partitions with a replica out of sync, or without a leader, and the topics that have any."""
    found: list[TopicDescription] = []
    for topic in topics:
        partitions = tuple(
            each
            for each in topic.partitions
            if (under_replicated and len(each.isr_nodes) < len(each.replica_nodes))
            or (unavailable and each.leader_id < 0)
        )
        if partitions:
            found.append(replace(topic, partitions=partitions))
    return found


async def topic_names(client: WireClient) -> list[str]:
    """Return the names of all topics, in order."""
    response = await client.send(_metadata_request(None), MetadataResponse)
    return sorted(str(topic.name) for topic in response.topics)


async def live_brokers(client: WireClient) -> set[int]:
    """Return the ids of the brokers that are registered and not fenced."""
    response = await client.send(_metadata_request(()), MetadataResponse)
    return {int(broker.node_id) for broker in response.brokers}


def _metadata_request(topics: tuple[()] | None) -> MetadataRequest:
    """Build the request: all topics with None, the brokers alone with none."""
    return MetadataRequest(
        topics=topics,
        allow_auto_topic_creation=False,
        include_cluster_authorized_operations=False,
        include_topic_authorized_operations=False,
    )


def topic_as_dict(topic: TopicDescription) -> dict[str, object]:
    """Return a topic for programs. A `leader` of -1: nobody can lead."""
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


# The quorum


async def describe_quorum(client: WireClient) -> QuorumDescription:
    """Return the leader's view of the quorum. Raises `KafkaError` with the broker's error."""
    partition, endpoints, _ = await _describe(client)

    def status(replica: ReplicaState) -> ReplicaStatus:
        directory = replica.replica_directory_id
        return ReplicaStatus(
            key=ReplicaKey(NodeId(replica.replica_id), None if directory is None else uuid_text(directory)),
            endpoint=endpoints.get(NodeId(replica.replica_id)),
            log_end_offset=None if replica.log_end_offset < 0 else Offset(replica.log_end_offset),
            last_fetch_ms=_known(replica.last_fetch_timestamp),
            last_caught_up_ms=_known(replica.last_caught_up_timestamp),
        )

    return QuorumDescription(
        leader=NodeId(partition.leader_id),
        epoch=Epoch(partition.leader_epoch),
        high_watermark=None if partition.high_watermark < 0 else Offset(partition.high_watermark),
        voters=tuple(map(status, partition.current_voters)),
        observers=tuple(map(status, partition.observers)),
    )


async def _describe(client: WireClient) -> tuple[DescribedQuorum, Mapping[NodeId, Endpoint], str]:
    """Return the quorum, its voters' endpoints, and their listener's name ("" if no endpoint is known)."""
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
    listeners = {NodeId(node.node_id): listener for node in response.nodes for listener in node.listeners[:1]}
    endpoints = {node: Endpoint(listener.host, listener.port) for node, listener in listeners.items()}
    return partition, endpoints, next((listener.name for listener in listeners.values()), "")


def _known(timestamp_ms: int) -> int | None:
    return None if timestamp_ms < 0 else timestamp_ms


async def controllers_of(client: WireClient) -> list[Address]:
    """Return the voters' addresses. Raises `KafkaError`."""
    _, endpoints, _ = await _describe(client)
    return [Address(endpoint.host, endpoint.port) for endpoint in endpoints.values()]


async def add_voter(client: WireClient, voter: Voter, *, timeout_ms: int) -> None:
    """Add a voter, and return when it votes. Raises `KafkaError`."""
    _, _, listener = await _describe(client)
    response: AddRaftVoterResponse = await client.send(
        AddRaftVoterRequest(
            cluster_id=None,
            timeout=i32Timedelta.parse(datetime.timedelta(milliseconds=timeout_ms)),
            voter_id=i32(voter.key.id),
            voter_directory_id=_directory(voter.key),
            listeners=(Listener(name=listener, host=voter.endpoint.host, port=u16(voter.endpoint.port)),),
        ),
        AddRaftVoterResponse,
        timeout_s=timeout_ms / 1000 + _MARGIN_SECONDS,
    )
    if response.error_code is not ErrorCode.none:
        raise _voters_stay(response.error_code, response.error_message)


async def remove_voter(client: WireClient, key: ReplicaKey, *, timeout_ms: int) -> None:
    """Remove a voter, and return when it votes no more. Raises `KafkaError`."""
    response = await client.send(
        RemoveRaftVoterRequest(cluster_id=None, voter_id=i32(key.id), voter_directory_id=_directory(key)),
        RemoveRaftVoterResponse,
        timeout_s=timeout_ms / 1000 + _MARGIN_SECONDS,
    )
    if response.error_code is not ErrorCode.none:
        raise _voters_stay(response.error_code, response.error_message)


def _directory(key: ReplicaKey) -> uuid.UUID | None:
    return None if key.directory_id is None else parse_uuid(key.directory_id)


def _voters_stay(code: ErrorCode, message: str | None) -> KafkaError:
    return KafkaError(code, f"{code.name.upper()}: {message or 'the leader gave no reason'}")


def quorum_as_dict(quorum: QuorumDescription) -> dict[str, object]:
    """Return the quorum for programs. Offsets are exclusive ends; times are ms since the Unix epoch, and
    offsets and times -1 while unknown; the lag is behind the leader's log end, None while unknown."""
    leader_end = leader_end_offset(quorum)

    def replica_as_dict(replica: ReplicaStatus) -> dict[str, object]:
        endpoint, end = replica.endpoint, replica.log_end_offset
        return {
            "id": replica.key.id,
            "directoryId": replica.key.directory_id,
            "endpoint": None if endpoint is None else str(Address(endpoint.host, endpoint.port)),
            "logEndOffset": _or_minus_one(end),
            "lag": None if end is None else leader_end - end,
            "lastFetchTimestamp": _or_minus_one(replica.last_fetch_ms),
            "lastCaughtUpTimestamp": _or_minus_one(replica.last_caught_up_ms),
        }

    return {
        "leaderId": quorum.leader,
        "leaderEpoch": quorum.epoch,
        "highWatermark": _or_minus_one(quorum.high_watermark),
        "voters": [replica_as_dict(replica) for replica in quorum.voters],
        "observers": [replica_as_dict(replica) for replica in quorum.observers],
    }


def _or_minus_one(value: int | None) -> int:
    return -1 if value is None else value


def leader_end_offset(quorum: QuorumDescription) -> int:
    """Return the leader's log end offset, the largest there is; -1 while unknown."""
    replicas = (*quorum.voters, *quorum.observers)
    return max((_or_minus_one(replica.log_end_offset) for replica in replicas), default=-1)


async def unregister_broker(client: WireClient, broker_id: int) -> None:
    """Remove a broker from the cluster's metadata, and return when it is gone. Raises `KafkaError`."""
    response = await client.send(
        UnregisterBrokerRequest(broker_id=BrokerId(broker_id)),
        UnregisterBrokerResponse,
        timeout_s=_TIMEOUT_SECONDS + _MARGIN_SECONDS,
    )
    if response.error_code is not ErrorCode.none:
        reason = response.error_message or response.error_code.name
        raise KafkaError(response.error_code, f"broker {broker_id}: {reason}")
