"""The request that begins and cancels moves."""

import datetime
from collections.abc import Mapping
from typing import Final

from kio.schema.alter_partition_reassignments.v0.request import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from kio.schema.alter_partition_reassignments.v0.response import AlterPartitionReassignmentsResponse
from kio.schema.errors import ErrorCode
from kio.schema.types import BrokerId, TopicName
from kio.static.primitive import i32, i32Timedelta

from quorate.broker.wire import KafkaError, WireClient
from quorate.cli.reassigning.assignment_files import Replica

_TIMEOUT_SECONDS: Final = 30
_MARGIN_SECONDS: Final = 5


async def alter_reassignments(
    client: WireClient, wanted: Mapping[Replica, tuple[int, ...] | None]
) -> dict[Replica, str]:
    """Begin the moves, or cancel those with None. Return those that were refused, each with the reason.
    Raises `KafkaError`."""
    topics: dict[str, list[ReassignablePartition]] = {}
    for key, replicas in sorted(wanted.items()):
        brokers = None if replicas is None else tuple(map(BrokerId, replicas))
        topics.setdefault(key.topic, []).append(
            ReassignablePartition(partition_index=i32(key.partition), replicas=brokers)
        )
    answer = await client.send(
        AlterPartitionReassignmentsRequest(
            timeout=i32Timedelta.parse(datetime.timedelta(seconds=_TIMEOUT_SECONDS)),
            topics=tuple(
                ReassignableTopic(name=TopicName(name), partitions=tuple(partitions))
                for name, partitions in topics.items()
            ),
        ),
        AlterPartitionReassignmentsResponse,
        timeout_s=_TIMEOUT_SECONDS + _MARGIN_SECONDS,
    )
    if answer.error_code is not ErrorCode.none:
        raise KafkaError(answer.error_code, answer.error_message or answer.error_code.name.upper())
    return {
        Replica(str(topic.name), int(part.partition_index)): part.error_message
        or part.error_code.name.upper()
        for topic in answer.responses
        for part in topic.partitions
        if part.error_code is not ErrorCode.none
    }
