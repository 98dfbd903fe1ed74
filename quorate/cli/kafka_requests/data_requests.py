"""The Kafka requests of commands on the data of brokers: each goes to the broker that has the data."""

import datetime
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

import trio
from kio.schema.delete_records.v2.request import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from kio.schema.delete_records.v2.response import DeleteRecordsResponse
from kio.schema.describe_log_dirs.v4.request import DescribableLogDirTopic, DescribeLogDirsRequest
from kio.schema.describe_log_dirs.v4.response import DescribeLogDirsResponse, DescribeLogDirsResult
from kio.schema.errors import ErrorCode
from kio.schema.metadata.v9.request import MetadataRequest, MetadataRequestTopic
from kio.schema.metadata.v9.response import MetadataResponse
from kio.schema.types import TopicName
from kio.static.primitive import i32, i32Timedelta, i64

from quorate.broker.wire import KafkaError, WireClient, open_client
from quorate.runtime import Address, NetworkError
from quorate.runtime.real import RealNetwork

_TIMEOUT_SECONDS: Final = 30
_MARGIN_SECONDS: Final = 5
_PAUSE_SECONDS: Final = 0.2
_LATER: Final = (
    ErrorCode.not_leader_or_follower,
    ErrorCode.leader_not_available,
    ErrorCode.request_timed_out,
)
"""Errors that another try may not have: the leader has changed, or a follower was slow."""


@asynccontextmanager
async def _connected(address: Address) -> AsyncIterator[WireClient]:
    async with open_client(
        RealNetwork(), address, client_id="quorate-cli", timeout_s=_MARGIN_SECONDS
    ) as client:
        yield client


async def _metadata(client: WireClient, topics: Sequence[str]) -> MetadataResponse:
    return await client.send(
        MetadataRequest(
            topics=tuple(MetadataRequestTopic(name=TopicName(topic)) for topic in topics),
            allow_auto_topic_creation=False,
            include_cluster_authorized_operations=False,
            include_topic_authorized_operations=False,
        ),
        MetadataResponse,
    )


def _addresses(metadata: MetadataResponse) -> dict[int, Address]:
    return {int(each.node_id): Address(each.host, each.port) for each in metadata.brokers}


# Log directories


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerDirectories:
    """The log directories of one broker."""

    broker_id: int
    directories: tuple[DescribeLogDirsResult, ...]


async def describe_log_dirs(
    client: WireClient, *, brokers: Sequence[int] = (), topics: Sequence[str] = ()
) -> list[BrokerDirectories]:
    """Ask these brokers, or all that are live, for their directories, with these topics' replicas or all.
    Raises `KafkaError`, `NetworkError`."""
    metadata = await _metadata(client, topics)
    known = _addresses(metadata)
    missing = sorted(set(brokers) - set(known))
    if missing:
        raise KafkaError(
            ErrorCode.broker_not_available,
            f"broker {missing[0]} is not there; those that are live: {', '.join(map(str, sorted(known)))}",
        )
    for topic in metadata.topics:
        if topic.error_code is not ErrorCode.none:
            raise KafkaError(topic.error_code, f"topic {topic.name}: {topic.error_code.name.upper()}")
    wanted = None
    if topics:
        wanted = tuple(
            DescribableLogDirTopic(
                topic=TopicName(str(topic.name)),
                partitions=tuple(part.partition_index for part in topic.partitions),
            )
            for topic in metadata.topics
        )
    found: list[BrokerDirectories] = []
    for broker_id in sorted(set(brokers) or set(known)):
        async with _connected(known[broker_id]) as broker:
            response = await broker.send(DescribeLogDirsRequest(topics=wanted), DescribeLogDirsResponse)
        if response.error_code is not ErrorCode.none:
            raise KafkaError(response.error_code, f"broker {broker_id}: {response.error_code.name.upper()}")
        found.append(BrokerDirectories(broker_id=broker_id, directories=response.results))
    return found


def log_dirs_as_dict(found: Sequence[BrokerDirectories]) -> dict[str, object]:
    """Return directories for programs, in the form of Kafka's own tool and with the space of each."""
    return {
        "version": 1,
        "brokers": [
            {
                "broker": each.broker_id,
                "logDirs": [
                    {
                        "logDir": directory.log_dir,
                        "error": _name_of(directory.error_code),
                        "totalBytes": directory.total_bytes,
                        "usableBytes": directory.usable_bytes,
                        "partitions": [
                            {
                                "partition": f"{topic.name}-{part.partition_index}",
                                "size": part.partition_size,
                                "offsetLag": part.offset_lag,
                                "isFuture": part.is_future_key,
                            }
                            for topic in directory.topics
                            for part in topic.partitions
                        ],
                    }
                    for directory in each.directories
                ],
            }
            for each in found
        ],
    }


def _name_of(code: ErrorCode) -> str | None:
    return None if code is ErrorCode.none else code.name.upper()


# Records


TopicPartition = tuple[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletedRecords:
    """The outcome of one partition. Without an error, records below `low_watermark` are gone everywhere."""

    topic: str
    partition: int
    low_watermark: int
    error: ErrorCode


async def delete_records(client: WireClient, offsets: Mapping[TopicPartition, int]) -> list[DeletedRecords]:
    """Delete what is below these offsets (-1: below the high watermark), in the order given. Partitions whose
    leader changes, or is waited for, are asked for again for half a minute."""
    results: dict[TopicPartition, DeletedRecords] = {}
    deadline = trio.current_time() + _TIMEOUT_SECONDS
    while True:
        left = {
            key: offset
            for key, offset in offsets.items()
            if key not in results or results[key].error in _LATER
        }
        leaders = await _leaders(client, left, results)
        for address, keys in leaders.items():
            await _ask_leader(address, {key: left[key] for key in keys}, results, deadline)
        if trio.current_time() >= deadline or not any(each.error in _LATER for each in results.values()):
            return [results[key] for key in offsets]
        await trio.sleep(_PAUSE_SECONDS)


async def _leaders(
    client: WireClient, wanted: Mapping[TopicPartition, int], results: dict[TopicPartition, DeletedRecords]
) -> dict[Address, list[TopicPartition]]:
    """Group partitions by the addresses of their leaders. Those without one get their error."""
    metadata = await _metadata(client, sorted({topic for topic, _ in wanted}))
    known = _addresses(metadata)
    errors = {str(each.name): each.error_code for each in metadata.topics}
    leaders = {
        (str(topic.name), int(part.partition_index)): int(part.leader_id)
        for topic in metadata.topics
        for part in topic.partitions
    }
    found: dict[Address, list[TopicPartition]] = {}
    for key in wanted:
        topic_error = errors.get(key[0], ErrorCode.unknown_topic_or_partition)
        if topic_error is not ErrorCode.none:
            results[key] = _failed(key, topic_error)
        elif key not in leaders:
            results[key] = _failed(key, ErrorCode.unknown_topic_or_partition)
        elif leaders[key] not in known:
            results[key] = _failed(key, ErrorCode.leader_not_available)
        else:
            found.setdefault(known[leaders[key]], []).append(key)
    return found


async def _ask_leader(
    address: Address,
    offsets: Mapping[TopicPartition, int],
    results: dict[TopicPartition, DeletedRecords],
    deadline: float,
) -> None:
    by_topic: dict[str, list[DeleteRecordsPartition]] = {}
    for (topic, partition), offset in offsets.items():
        by_topic.setdefault(topic, []).append(
            DeleteRecordsPartition(partition_index=i32(partition), offset=i64(offset))
        )
    seconds = max(deadline - trio.current_time(), 1.0)
    request = DeleteRecordsRequest(
        topics=tuple(
            DeleteRecordsTopic(name=TopicName(topic), partitions=tuple(parts))
            for topic, parts in by_topic.items()
        ),
        timeout=i32Timedelta.parse(datetime.timedelta(seconds=int(seconds))),
    )
    try:
        async with _connected(address) as leader:
            response = await leader.send(request, DeleteRecordsResponse, timeout_s=seconds + _MARGIN_SECONDS)
    except NetworkError:
        # It has died since metadata named it; the outcome is asked for again at the next leader.
        results.update((key, _failed(key, ErrorCode.leader_not_available)) for key in offsets)
        return
    for result in response.topics:
        for part in result.partitions:
            key = (str(result.name), int(part.partition_index))
            results[key] = DeletedRecords(
                topic=key[0], partition=key[1], low_watermark=part.low_watermark, error=part.error_code
            )


def _failed(key: TopicPartition, error: ErrorCode) -> DeletedRecords:
    return DeletedRecords(topic=key[0], partition=key[1], low_watermark=-1, error=error)
