"""The Kafka requests of `quorate leader-election`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from kio.schema.elect_leaders.v2.request import ElectLeadersRequest, TopicPartitions
from kio.schema.elect_leaders.v2.response import ElectLeadersResponse
from kio.schema.errors import ErrorCode
from kio.schema.types import TopicName
from kio.static.primitive import i8, i32, i32Timedelta

from quorate.broker.wire import KafkaError, WireClient

_TIMEOUT_SECONDS: Final = 60
_ELECTION_TYPES: Final = {"preferred": 0, "unclean": 1}


@dataclass(frozen=True, slots=True, kw_only=True)
class ElectedPartition:
    """The answer for one partition. `error`: Kafka's name of it; None: it has a new leader."""

    topic: str
    partition: int
    error: str | None
    message: str | None

    @property
    def failed(self) -> bool:
        """True unless it has the leader that was asked for."""
        return self.error not in (None, ErrorCode.election_not_needed.name.upper())


async def elect_leaders(
    client: WireClient, election_type: str, topics: Mapping[str, Sequence[int]] | None
) -> list[ElectedPartition]:
    """Elect leaders. `election_type`: preferred or unclean. `topics`: the partitions by topic; None: all that
    need an election. Raises `KafkaError`."""
    named = (
        None
        if topics is None
        else tuple(
            TopicPartitions(topic=TopicName(topic), partitions=tuple(map(i32, partitions)))
            for topic, partitions in topics.items()
        )
    )
    answer = await client.send(
        ElectLeadersRequest(
            election_type=i8(_ELECTION_TYPES[election_type]),
            topic_partitions=named,
            timeout=i32Timedelta.parse(timedelta(seconds=_TIMEOUT_SECONDS)),
        ),
        ElectLeadersResponse,
        timeout_s=_TIMEOUT_SECONDS + 5,
    )
    if answer.error_code is not ErrorCode.none:
        raise KafkaError(answer.error_code, f"no leader was elected: {answer.error_code.name.upper()}")
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
