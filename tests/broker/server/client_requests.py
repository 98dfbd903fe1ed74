"""The requests that many tests send to a broker, through our own client."""

from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from typing import Any

import trio
from kio.schema.errors import ErrorCode

from quorate.broker.wire.api import APIS, ApiKey
from quorate.broker.wire.codecs.entities import build, request_type, response_type
from quorate.broker.wire.codecs.fetch_codec import (
    FetchedPartition,
    FetchPartition,
    FetchTopic,
    KafkaFetchRequest,
)
from quorate.broker.wire.codecs.produce_codec import (
    ProducedPartition,
    ProducePartition,
    ProduceRequest,
    ProduceTopic,
)
from quorate.broker.wire.kafka_client import WireClient
from quorate.log.batches.batch import read_batches
from quorate.log.batches.records import build_batch, records_of


async def ask(client: WireClient, api: ApiKey, version: int, **values: object) -> Any:
    """Send a request of this version, built from values by field name."""
    return await client.send(build(request_type(api, version), **values), response_type(api, version))


def versions(api: ApiKey) -> range:
    """Return the served versions of an API."""
    return range(APIS[api].min_version, APIS[api].max_version + 1)


async def until(holds: Callable[[], Awaitable[object]], *, within_s: float = 20) -> None:
    """Wait until an awaited value is true: brokers apply metadata one after the other."""
    with trio.fail_after(within_s):
        while not await holds():  # noqa: ASYNC110
            await trio.sleep(0.02)


async def create(
    client: WireClient,
    name: str = "t",
    *,
    partitions: int = 1,
    replicas: int = -1,
    assignments: Sequence[Sequence[int]] = (),
    timeout_s: float = 5,
    **configs: str,
) -> Any:
    """Create a topic, and return its part of the answer. `assignments`: the brokers of each partition, in
    place of the two numbers. `configs`: settings by key, with _ for the dots."""
    topic = {
        "name": name,
        "num_partitions": -1 if assignments else partitions,
        "replication_factor": -1 if assignments else replicas,
        "assignments": [
            {"partition_index": number, "broker_ids": each} for number, each in enumerate(assignments)
        ],
        "configs": [{"name": key.replace("_", "."), "value": value} for key, value in configs.items()],
    }
    answer: Any = await client.call(
        ApiKey.CREATE_TOPICS, topics=[topic], timeout=timedelta(seconds=timeout_s)
    )
    (created,) = answer.topics
    assert created.error_code is ErrorCode.none, created.error_message
    return created


async def wait_coordinated(client: WireClient, group: str) -> None:
    """Wait until the broker coordinates the group."""

    async def holds() -> bool:
        found = await ask(client, ApiKey.FIND_COORDINATOR, 4, coordinator_keys=[group])
        listed = await ask(client, ApiKey.LIST_GROUPS, 0)
        return found.coordinators[0].error_code is listed.error_code is ErrorCode.none

    await until(holds)


def batch(*values: bytes) -> bytes:
    return build_batch(base_offset=0, epoch=0, timestamp_ms=1000, values=values)


def produce_request(
    topic: str,
    data: bytes,
    *,
    partition: int = 0,
    acks: int = -1,
    version: int = 9,
    timeout_ms: int = 5000,
) -> ProduceRequest:
    """Return a request with one batch."""
    parts = [ProducePartition(partition, memoryview(data))]
    return ProduceRequest(
        version=version, acks=acks, timeout_ms=timeout_ms, topics=[ProduceTopic(topic, parts)]
    )


async def produce(
    client: WireClient, topic: str, data: bytes, *, partition: int = 0, acks: int = -1
) -> ProducedPartition:
    """Produce a batch, once the partition's leader knows that it leads."""
    request = produce_request(topic, data, partition=partition, acks=acks)
    with trio.fail_after(5):
        while True:
            produced = (await client.produce(request))[0].partitions[0]
            if produced.error not in (ErrorCode.not_leader_or_follower, ErrorCode.unknown_topic_or_partition):
                return produced
            await trio.sleep(0.01)


async def fetch(
    client: WireClient,
    topic: str,
    offset: int,
    *,
    version: int = 12,
    max_wait_ms: int = 0,
    max_bytes: int = 1 << 20,
) -> FetchedPartition:
    """Fetch partition 0 of a topic."""
    request = KafkaFetchRequest(
        version=version,
        max_wait_ms=max_wait_ms,
        min_bytes=1,
        max_bytes=max_bytes,
        topics=[FetchTopic(topic, None, [FetchPartition(0, -1, offset)])],
    )
    return (await client.fetch(request)).topics[0].partitions[0]


def values_of(part: FetchedPartition) -> list[bytes | None]:
    data = memoryview(b"".join(part.records))
    return [record.value for each in read_batches(data) for record in records_of(each)]
