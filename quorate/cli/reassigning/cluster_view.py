"""The cluster as its moves need it: brokers, partitions and what is under way."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from kio.schema.describe_cluster.v1.request import DescribeClusterRequest as DescribeClusterRequestV1
from kio.schema.describe_cluster.v1.response import DescribeClusterResponse as DescribeClusterResponseV1
from kio.schema.describe_cluster.v2.request import DescribeClusterRequest
from kio.schema.describe_cluster.v2.response import DescribeClusterResponse
from kio.schema.describe_topic_partitions.v0.response import DescribeTopicPartitionsResponsePartition
from kio.schema.errors import ErrorCode
from kio.schema.list_partition_reassignments.v0.request import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)
from kio.schema.list_partition_reassignments.v0.response import ListPartitionReassignmentsResponse

from quorate.broker.wire import KafkaError, WireClient
from quorate.cli.kafka_requests import describe_topics
from quorate.cli.reassigning.assignment_files import Assignments, Replica
from quorate.runtime import Address

_DESCRIBE_CLUSTER: Final = 60
_WITH_FENCED: Final = 2
"""The version of DescribeCluster that tells of fenced brokers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerView:
    """A live broker."""

    broker_id: int
    address: Address
    rack: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """A reassignment under way."""

    replicas: tuple[int, ...]
    """All of them, those that are being added and removed too."""
    adding: tuple[int, ...]
    removing: tuple[int, ...]

    @property
    def target(self) -> tuple[int, ...]:
        """The replicas at its end."""
        return tuple(each for each in self.replicas if each not in self.removing)

    @property
    def original(self) -> tuple[int, ...]:
        """The replicas before it: those that serve."""
        return tuple(each for each in self.replicas if each not in self.adding)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterView:
    brokers: Mapping[int, BrokerView]
    """The live ones, by id."""
    fenced: frozenset[int]
    """The ids of those that are registered and not live. Empty where the cluster doesn't say (before
    DescribeCluster 2)."""
    partitions: Mapping[Replica, DescribeTopicPartitionsResponsePartition]
    moves: Mapping[Replica, Move]

    def targets(self) -> Assignments:
        """The replicas of every partition when all that is under way has ended."""
        return {
            key: self.moves[key].target if key in self.moves else tuple(map(int, state.replica_nodes))
            for key, state in self.partitions.items()
        }

    def servers(self, key: Replica) -> tuple[int, ...]:
        """The replicas of a partition without those that are being added."""
        move = self.moves.get(key)
        return tuple(map(int, self.partitions[key].replica_nodes)) if move is None else move.original


async def read_cluster(client: WireClient) -> ClusterView:
    """Ask for everything. Raises `KafkaError`."""
    # First: what ends between the questions is then shown as under way, not as never begun.
    moves = await list_moves(client)
    brokers, fenced = await _list_brokers(client)
    topics = await describe_topics(client, None)
    partitions = {
        Replica(topic.name, int(state.partition_index)): state
        for topic in topics
        for state in topic.partitions
    }
    return ClusterView(
        brokers=brokers,
        fenced=fenced,
        partitions=partitions,
        moves={key: move for key, move in moves.items() if key in partitions},
    )


async def _list_brokers(client: WireClient) -> tuple[dict[int, BrokerView], frozenset[int]]:
    """Return the live brokers, and the ids of the fenced ones. Raises `KafkaError`."""
    described: DescribeClusterResponse | DescribeClusterResponseV1
    if client.versions.get(_DESCRIBE_CLUSTER, (0, 0))[1] >= _WITH_FENCED:
        described = await client.send(
            DescribeClusterRequest(include_cluster_authorized_operations=False, include_fenced_brokers=True),
            DescribeClusterResponse,
        )
        fenced = frozenset(int(each.broker_id) for each in described.brokers if each.is_fenced)
    else:
        described = await client.send(
            DescribeClusterRequestV1(include_cluster_authorized_operations=False), DescribeClusterResponseV1
        )
        fenced = frozenset[int]()
    if described.error_code is not ErrorCode.none:
        raise KafkaError(described.error_code, described.error_message or "the cluster can't be described")
    live = {
        int(each.broker_id): BrokerView(
            broker_id=int(each.broker_id), address=Address(each.host, int(each.port)), rack=each.rack
        )
        for each in described.brokers
        if int(each.broker_id) not in fenced
    }
    return live, fenced


async def list_moves(client: WireClient, asked: Mapping[str, list[int]] | None = None) -> dict[Replica, Move]:
    """Return what is under way, everywhere by default. Raises `KafkaError`."""
    topics = (
        None
        if asked is None
        else tuple(
            ListPartitionReassignmentsTopics(name=name, partition_indexes=tuple(indexes))  # type: ignore[arg-type]
            for name, indexes in asked.items()
        )
    )
    answer = await client.send(
        ListPartitionReassignmentsRequest(topics=topics), ListPartitionReassignmentsResponse
    )
    if answer.error_code is not ErrorCode.none:
        raise KafkaError(answer.error_code, answer.error_message or "the reassignments can't be listed")
    return {
        Replica(str(topic.name), int(part.partition_index)): Move(
            replicas=tuple(map(int, part.replicas)),
            adding=tuple(map(int, part.adding_replicas)),
            removing=tuple(map(int, part.removing_replicas)),
        )
        for topic in answer.topics
        for part in topic.partitions
    }
