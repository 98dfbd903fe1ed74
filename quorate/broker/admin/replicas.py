"""The replicas of partitions: their brokers, reassignments of them, and elections of leaders."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Final, cast

from kio.schema.errors import ErrorCode

from quorate.broker.admin.admin_client import (
    AdminClient,
    BrokerView,
    TopicPartition,
    by_topic,
    check,
    refusal,
)
from quorate.broker.admin.topics import describe_topics
from quorate.broker.wire.api import ApiKey
from quorate.broker.wire.wire_errors import KafkaError

if TYPE_CHECKING:
    from kio.schema.alter_partition_reassignments.v1.response import AlterPartitionReassignmentsResponse
    from kio.schema.describe_topic_partitions.v0.response import DescribeTopicPartitionsResponsePartition
    from kio.schema.elect_leaders.v2.response import ElectLeadersResponse
    from kio.schema.list_partition_reassignments.v0.response import ListPartitionReassignmentsResponse

_ELECTION_TIMEOUT_S: Final = 60
_ELECTION_TYPES: Final = {"preferred": 0, "unclean": 1}


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """A reassignment under way."""

    replicas: tuple[int, ...]
    """All of them, those that are being added and removed too."""
    adding: tuple[int, ...]
    removing: tuple[int, ...]

    @property
    def target(self) -> tuple[int, ...]:
        """Return the replicas at its end."""
        return tuple(each for each in self.replicas if each not in self.removing)

    @property
    def original(self) -> tuple[int, ...]:
        """Return the replicas before it: those that serve."""
        return tuple(each for each in self.replicas if each not in self.adding)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterView:
    """The cluster as reassignments need it: brokers, partitions and running reassignments."""

    brokers: Mapping[int, BrokerView]
    """The live ones, by id."""
    fenced: frozenset[int]
    """The ids of those that are registered and not live. Empty where the cluster doesn't name them (before
    DescribeCluster 2)."""
    partitions: "Mapping[TopicPartition, DescribeTopicPartitionsResponsePartition]"
    moves: Mapping[TopicPartition, Move]

    def targets(self) -> dict[TopicPartition, tuple[int, ...]]:
        """Return the replicas of every partition when all that is under way has ended."""
        return {
            key: self.moves[key].target if key in self.moves else tuple(map(int, state.replica_nodes))
            for key, state in self.partitions.items()
        }

    def servers(self, key: TopicPartition) -> tuple[int, ...]:
        """Return the replicas of a partition without those that are being added."""
        move = self.moves.get(key)
        return tuple(map(int, self.partitions[key].replica_nodes)) if move is None else move.original


async def read_cluster(admin: AdminClient) -> ClusterView:
    """Return the cluster as it is."""
    # Asked first: a reassignment that ends between the two requests is shown as under way, not as never
    # begun.
    moves = await list_moves(admin)
    brokers = await admin.brokers()
    partitions = {
        TopicPartition(topic.name, int(state.partition_index)): state
        for topic in await describe_topics(admin, None)
        for state in topic.partitions
    }
    return ClusterView(
        brokers=brokers.live,
        fenced=brokers.fenced,
        partitions=partitions,
        moves={key: move for key, move in moves.items() if key in partitions},
    )


async def list_moves(admin: AdminClient) -> dict[TopicPartition, Move]:
    """Return the reassignments under way."""
    answer = cast(
        "ListPartitionReassignmentsResponse",
        await admin.call(ApiKey.LIST_PARTITION_REASSIGNMENTS, topics=None),
    )
    check(answer.error_code, answer.error_message or "the reassignments can't be listed")
    return {
        TopicPartition(str(topic.name), int(part.partition_index)): Move(
            replicas=tuple(map(int, part.replicas)),
            adding=tuple(map(int, part.adding_replicas)),
            removing=tuple(map(int, part.removing_replicas)),
        )
        for topic in answer.topics
        for part in topic.partitions
    }


async def alter_reassignments(
    admin: AdminClient, wanted: Mapping[TopicPartition, tuple[int, ...] | None]
) -> dict[TopicPartition, str]:
    """Begin the moves, or cancel those with None. Return those that were refused, each with the reason."""
    return {key: str(error) for key, error in (await refused_reassignments(admin, wanted)).items()}


async def refused_reassignments(
    admin: AdminClient, wanted: Mapping[TopicPartition, tuple[int, ...] | None]
) -> dict[TopicPartition, KafkaError]:
    """Do the same as `alter_reassignments`, and return the error of each that was refused."""
    answer = cast(
        "AlterPartitionReassignmentsResponse",
        await admin.change(
            ApiKey.ALTER_PARTITION_REASSIGNMENTS,
            timeout=timedelta(seconds=admin.timeout_s),
            topics=by_topic({key: {"replicas": replicas} for key, replicas in sorted(wanted.items())}),
        ),
    )
    check(answer.error_code, answer.error_message)
    return {
        TopicPartition(str(topic.name), int(part.partition_index)): refusal(
            part.error_code, part.error_message
        )
        for topic in answer.responses
        for part in topic.partitions
        if part.error_code is not ErrorCode.none
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class ElectedPartition:
    """The answer for one partition. `error`: Kafka's name of it; None: it has a new leader."""

    topic: str
    partition: int
    error: str | None
    message: str | None

    @property
    def failed(self) -> bool:
        """Return whether it has another leader than the one that was asked for, or none."""
        return self.error not in (None, ErrorCode.election_not_needed.name.upper())


async def elect_leaders(
    admin: AdminClient,
    election_type: str,
    topics: Mapping[str, Sequence[int]] | None,
    *,
    timeout_s: float = _ELECTION_TIMEOUT_S,
) -> list[ElectedPartition]:
    """Elect leaders. `election_type`: preferred or unclean. `topics`: the partitions by topic; None: all that
    need an election. `timeout_s`: for the cluster to carry it out."""
    answer = cast(
        "ElectLeadersResponse",
        await admin.change(
            ApiKey.ELECT_LEADERS,
            timeout_s=timeout_s,
            election_type=_ELECTION_TYPES[election_type],
            topic_partitions=None
            if topics is None
            else [{"topic": topic, "partitions": list(partitions)} for topic, partitions in topics.items()],
            timeout=timedelta(seconds=timeout_s),
        ),
    )
    check(answer.error_code, f"no leader was elected: {answer.error_code.name.upper()}")
    return [
        ElectedPartition(
            topic=str(row.topic),
            partition=int(each.partition_id),
            error=None if each.error_code is ErrorCode.none else each.error_code.name.upper(),
            message=each.error_message,
        )
        for row in answer.replica_election_results
        for each in row.partition_result
    ]
