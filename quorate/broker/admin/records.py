"""Records of partitions, at their leaders: offsets by time, and deletion."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Final, cast

import trio
from kio.schema.errors import ErrorCode

from quorate.broker.admin.admin_client import AdminClient, TopicPartition, by_topic
from quorate.broker.wire.api import ApiKey
from quorate.broker.wire.kafka_client import WireClient
from quorate.runtime import Address, NetworkError

if TYPE_CHECKING:
    from kio.schema.delete_records.v2.response import DeleteRecordsResponse
    from kio.schema.list_offsets.v11.response import ListOffsetsResponse

LATEST: Final = -1
EARLIEST: Final = -2
_PAUSE_S: Final = 0.2
_LATER: Final = (
    ErrorCode.not_leader_or_follower,
    ErrorCode.leader_not_available,
    ErrorCode.request_timed_out,
)
"""Errors that another try may not have: the leader has changed, or a follower was slow."""


async def partitions_of(admin: AdminClient, topics: Iterable[str]) -> dict[str, list[TopicPartition]]:
    """Return the partitions of each of these topics that exists, in order."""
    names = list(topics)
    if not names:
        return {}
    return {
        str(each.name): sorted(
            TopicPartition(str(each.name), int(part.partition_index)) for part in each.partitions
        )
        for each in (await admin.metadata(names)).topics
        if each.error_code is not ErrorCode.unknown_topic_or_partition
    }


async def offsets_at(
    admin: AdminClient, partitions: Iterable[TopicPartition], timestamp: int
) -> dict[TopicPartition, int]:
    """Return each partition's first offset of that time (ms since the epoch), `EARLIEST` or `LATEST`. One
    without an answer is missing: it has no leader, no record so late, or does not exist."""
    wanted = set(partitions)
    if not wanted:
        return {}
    metadata = await admin.metadata(sorted({each.topic for each in wanted}))
    addresses = {int(each.node_id): Address(each.host, each.port) for each in metadata.brokers}
    asked: dict[int, dict[TopicPartition, dict[str, object]]] = {}
    for topic in metadata.topics:
        for part in topic.partitions:
            key = TopicPartition(str(topic.name), int(part.partition_index))
            if key in wanted and part.leader_id in addresses:
                fields = {"current_leader_epoch": int(part.leader_epoch), "timestamp": timestamp}
                asked.setdefault(int(part.leader_id), {})[key] = dict(fields)
    found: dict[TopicPartition, int] = {}
    for leader, parts in asked.items():
        answer = await (await admin.to(addresses[leader])).call(
            ApiKey.LIST_OFFSETS, replica_id=-1, isolation_level=0, topics=by_topic(parts)
        )
        for listed in cast("ListOffsetsResponse", answer).topics:
            for each in listed.partitions:
                if each.error_code is ErrorCode.none and each.offset >= 0:
                    found[TopicPartition(str(listed.name), int(each.partition_index))] = int(each.offset)
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletedRecords:
    """The outcome of one partition. Without an error, records below `low_watermark` are gone everywhere."""

    topic: str
    partition: int
    low_watermark: int
    error: ErrorCode


async def delete_records(admin: AdminClient, offsets: Mapping[TopicPartition, int]) -> list[DeletedRecords]:
    """Delete the records below these offsets (-1: below the high watermark), in the order given. Partitions
    whose leader changes, or is waited for, are asked for again for `timeout_s`."""
    results: dict[TopicPartition, DeletedRecords] = {}
    deadline = trio.current_time() + admin.timeout_s
    while True:
        left = {
            key: offset
            for key, offset in offsets.items()
            if key not in results or results[key].error in _LATER
        }
        leaders = await _leaders(admin, left, results)
        for address, keys in leaders.items():
            asked = {key: left[key] for key in keys}
            seconds = max(deadline - trio.current_time(), 1.0)
            try:
                deleted = await delete_at_leader(admin, await admin.to(address), asked, timeout_s=seconds)
            except NetworkError:
                # It has died since metadata named it; the outcome is asked for again at the next leader.
                deleted = [_failed(key, ErrorCode.leader_not_available) for key in asked]
            results.update({TopicPartition(each.topic, each.partition): each for each in deleted})
        if trio.current_time() >= deadline or not any(each.error in _LATER for each in results.values()):
            return [results[key] for key in offsets]
        await trio.sleep(_PAUSE_S)


async def _leaders(
    admin: AdminClient,
    wanted: Iterable[TopicPartition],
    results: dict[TopicPartition, DeletedRecords],
) -> dict[Address, list[TopicPartition]]:
    """Group partitions by the addresses of their leaders. Those without one get their error."""
    metadata = await admin.metadata(sorted({each.topic for each in wanted}))
    known = {int(each.node_id): Address(each.host, each.port) for each in metadata.brokers}
    errors = {str(each.name): each.error_code for each in metadata.topics}
    leaders = {
        (str(topic.name), int(part.partition_index)): int(part.leader_id)
        for topic in metadata.topics
        for part in topic.partitions
    }
    found: dict[Address, list[TopicPartition]] = {}
    for key in wanted:
        topic_error = errors.get(key.topic, ErrorCode.unknown_topic_or_partition)
        if topic_error is not ErrorCode.none:
            results[key] = _failed(key, topic_error)
        elif key not in leaders:
            results[key] = _failed(key, ErrorCode.unknown_topic_or_partition)
        elif leaders[key] not in known:
            results[key] = _failed(key, ErrorCode.leader_not_available)
        else:
            found.setdefault(known[leaders[key]], []).append(key)
    return found


async def delete_at_leader(
    admin: AdminClient, leader: WireClient, offsets: Mapping[TopicPartition, int], *, timeout_s: float
) -> list[DeletedRecords]:
    """Ask a leader once to delete records of its partitions below these offsets."""
    answer = await admin.change(
        ApiKey.DELETE_RECORDS,
        at=leader,
        timeout_s=timeout_s,
        topics=by_topic({key: {"offset": offset} for key, offset in offsets.items()}),
        timeout=timedelta(seconds=int(timeout_s)),
    )
    return [
        DeletedRecords(
            topic=str(topic.name),
            partition=int(part.partition_index),
            low_watermark=part.low_watermark,
            error=part.error_code,
        )
        for topic in cast("DeleteRecordsResponse", answer).topics
        for part in topic.partitions
    ]


def _failed(key: TopicPartition, error: ErrorCode) -> DeletedRecords:
    return DeletedRecords(topic=key.topic, partition=key.partition, low_watermark=-1, error=error)
