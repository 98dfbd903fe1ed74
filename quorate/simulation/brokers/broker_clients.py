"""Producers and consumers of a simulated broker cluster, on hosts of their own, speaking Kafka's protocol.

One topic; each producer and each consumer keeps to one partition. Every record is unique, so what a partition
holds in the end says what became of each.
"""

import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Final, cast

import trio
from kio.schema.errors import ErrorCode

from quorate.broker.wire import ApiKey, KafkaError, WireClient, open_client
from quorate.broker.wire.codecs import (
    FetchedPartition,
    FetchPartition,
    FetchTopic,
    KafkaFetchRequest,
    ProducedPartition,
    ProducePartition,
    ProduceRequest,
    ProduceTopic,
)
from quorate.log.batches import build_batch, read_batches, records_of
from quorate.runtime import NetworkError
from quorate.simulation.brokers.broker_cluster import BrokerCluster, BrokerHost
from quorate.simulation.cluster_run import Clients, draw_records
from quorate.simulation.histories import Append, History
from quorate.simulation.violations import SafetyViolation
from quorate.types import UNKNOWN_EPOCH, Epoch, Offset

if TYPE_CHECKING:
    from kio.schema.init_producer_id.v4.response import InitProducerIdResponse
    from kio.schema.metadata.v12.response import MetadataResponse

TOPIC: Final = "events"
_PRODUCE_VERSION: Final = 9
_FETCH_VERSION: Final = 12
_TIMEOUT_S: Final = 2.0
_LOST: Final = (
    ErrorCode.out_of_order_sequence_number,
    ErrorCode.unknown_producer_id,
    ErrorCode.invalid_producer_epoch,
)
"""Errors that an idempotent producer with one batch at a time gets only if acknowledged records are lost."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerClientSettings:
    """The clients per partition: idempotent producers, which repeat each batch until it is acknowledged;
    plain ones, which never do; and consumers. Besides: `members` of one consumer group, and whether topics
    come and go (`churn`)."""

    idempotent: int = 1
    plain: int = 1
    consumers: int = 1
    members: int = 0
    churn: bool = False
    think_max_s: float = 0.3
    records_max: int = 3
    padding_max: int = 100
    plain_timeout_s: float = 3.0
    """The time that plain producers wait for a broker's answer."""


class _Unusable(Exception):
    """Ask another broker."""


class BrokerClients(Clients[BrokerCluster]):
    """`finish` lets producers complete what they have begun. Consumers read on until cancelled."""

    def __init__(self, cluster: BrokerCluster, settings: BrokerClientSettings, source: random.Random) -> None:
        super().__init__(cluster, source)
        self._settings = settings
        partitions = range(cluster.settings.partitions)
        self.histories: Mapping[int, History] = {number: History() for number in partitions}
        self.acknowledged: list[tuple[Append, str]] = []
        """The acknowledged appends, in order of time, each with the address of the broker that acknowledged
        it."""
        self.consumed: dict[str, tuple[int, list[tuple[int, bytes]]]] = {}
        """Each consumer's partition, and the (offset, value) pairs that it has read from the start on."""

    async def produce(self) -> None:
        """Run all producers until they have finished."""
        async with trio.open_nursery() as nursery:
            for partition in self.histories:
                for number in range(self._settings.idempotent):
                    client = f"idempotent-{partition}-{number}"
                    nursery.start_soon(self._produce_idempotently, client, partition, self._derived())
                for number in range(self._settings.plain):
                    client = f"plain-{partition}-{number}"
                    nursery.start_soon(self._produce_plainly, client, partition, self._derived())

    async def consume(self) -> None:
        async with trio.open_nursery() as nursery:
            for partition in self.histories:
                for number in range(self._settings.consumers):
                    client = f"consumer-{partition}-{number}"
                    nursery.start_soon(self.consume_partition, client, partition)

    async def _think(self, source: random.Random) -> None:
        await self._pause(source, self._settings.think_max_s)

    # Where to

    async def with_leader(
        self,
        client: str,
        partition: int,
        source: random.Random,
        use: Callable[[WireClient], Awaitable[bool]],
        *,
        timeout_s: float = _TIMEOUT_S,
    ) -> None:
        """Find the partition's leader and `use` a connection to it, again and again, until `use` says that it
        is done. It raises `_Unusable` when another broker leads by now."""
        target = source.choice(self._cluster.nodes)
        while True:
            leader: BrokerHost | None = None
            try:
                async with open_client(
                    self._cluster.network.for_node(client),
                    target.address,
                    client_id=client,
                    timeout_s=timeout_s,
                ) as connection:
                    leader = await self._leader_of(connection, partition)
                    while leader is target:
                        if await use(connection):
                            return
            except (NetworkError, KafkaError, _Unusable):
                leader = None
            if leader is None:
                await trio.sleep(source.uniform(0.05, 0.2))
            target = leader or source.choice(self._cluster.nodes)

    async def _leader_of(self, connection: WireClient, partition: int) -> BrokerHost | None:
        received = await connection.call(
            ApiKey.METADATA, topics=[{"name": TOPIC}], allow_auto_topic_creation=False
        )
        answer = cast("MetadataResponse", received)
        for topic in answer.topics:
            for each in topic.partitions:
                if each.partition_index == partition and each.leader_id > 0:
                    return self._cluster.nodes[each.leader_id - 1]
        return None

    # Producing

    def _begin(self, client: str, partition: int, source: random.Random) -> Append:
        history = self.histories[partition]
        number = len(history.appends)
        settings = self._settings
        records = draw_records(
            client, number, source, records_max=settings.records_max, padding_max=settings.padding_max
        )
        self._cluster.trace.add(client, f"produce {number}")
        return history.invoke(client, records, trio.current_time())

    async def _send(
        self,
        connection: WireClient,
        partition: int,
        append: Append,
        producer: tuple[int, int, int],
        timeout_s: float,
    ) -> ProducedPartition:
        data = build_batch(
            base_offset=0,
            epoch=-1,
            timestamp_ms=int(trio.current_time() * 1000),
            values=append.records,
            producer_id=producer[0],
            producer_epoch=producer[1],
            base_sequence=producer[2],
        )
        request = ProduceRequest(
            version=_PRODUCE_VERSION,
            acks=-1,
            timeout_ms=int(timeout_s * 1000),
            topics=[ProduceTopic(TOPIC, [ProducePartition(partition, memoryview(data))])],
        )
        answer = (await connection.produce(request))[0].partitions[0]
        self._cluster.trace.add(append.client, f"{answer.error.name} {answer.base_offset}")
        if answer.error is ErrorCode.none:
            History.acknowledge(append, Offset(answer.base_offset), Epoch(-1), trio.current_time())
            self.acknowledged.append((append, connection.peer))
        return answer

    async def _produce_idempotently(self, client: str, partition: int, source: random.Random) -> None:
        producer: list[int] = []
        begun: list[Append] = []

        async def use(connection: WireClient) -> bool:
            if not producer:
                received = await connection.call(
                    ApiKey.INIT_PRODUCER_ID, transactional_id=None, transaction_timeout=timedelta(seconds=60)
                )
                answer = cast("InitProducerIdResponse", received)
                if answer.error_code is not ErrorCode.none:
                    raise _Unusable
                producer[:] = [answer.producer_id, answer.producer_epoch, 0]
            if not begun:
                if self._finish.is_set():
                    return True
                begun.append(self._begin(client, partition, source))
            produced = await self._send(
                connection, partition, begun[0], (producer[0], producer[1], producer[2]), timeout_s=_TIMEOUT_S
            )
            if produced.error in _LOST:
                self._cluster.found(
                    "AcknowledgedSequencesAreKnown",
                    SafetyViolation(f"{begun[0]}, sequence {producer[2]}: {produced.error.name}"),
                )
            if produced.error is not ErrorCode.none:
                raise _Unusable
            producer[2] += len(begun.pop().records)
            await self._think(source)
            return False

        await self.with_leader(client, partition, source, use)

    async def _produce_plainly(self, client: str, partition: int, source: random.Random) -> None:
        async def use(connection: WireClient) -> bool:
            if self._finish.is_set():
                return True
            append = self._begin(client, partition, source)
            produced = await self._send(
                connection, partition, append, (-1, -1, -1), self._settings.plain_timeout_s
            )
            if produced.error is ErrorCode.not_enough_replicas:
                # The one refusal that comes before the append.
                History.fail(append, trio.current_time())
            await self._think(source)
            if produced.error is not ErrorCode.none:
                raise _Unusable
            return False

        await self.with_leader(client, partition, source, use, timeout_s=self._settings.plain_timeout_s)

    # Consuming

    async def consume_partition(self, client: str, partition: int, *, until: int | None = None) -> None:
        """Read from offset 0 on, until `until` (exclusive)."""
        got: list[tuple[int, bytes]] = []
        self.consumed[client] = (partition, got)
        source = self._derived()

        async def use(connection: WireClient) -> bool:
            position = got[-1][0] + 1 if got else 0
            if until is not None and position >= until:
                return True
            fetched = await self._fetch(connection, partition, position)
            if fetched.error is ErrorCode.offset_out_of_range:
                self._cluster.found(
                    "WhatWasReadStays",
                    SafetyViolation(f"{client} has read up to {position}, which is out of range now"),
                )
            if fetched.error is not ErrorCode.none:
                raise _Unusable
            for batch in read_batches(b"".join(fetched.records)):
                for record in records_of(batch):
                    if record.offset < position:
                        continue  # of a batch that the position lies in
                    self._check_read(client, position, record.offset, fetched.high_watermark)
                    got.append((record.offset, record.value or b""))
                    position = record.offset + 1
            return False

        await self.with_leader(client, partition, source, use)

    def _check_read(self, client: str, position: int, offset: int, high_watermark: int) -> None:
        if offset != position:
            violation = f"{client} asked for offset {position} and got {offset}"
            self._cluster.found("NothingIsSkipped", SafetyViolation(violation))
        if offset >= high_watermark:
            violation = f"{client} got offset {offset}, the high watermark is {high_watermark}"
            self._cluster.found("NothingAboveTheHighWatermark", SafetyViolation(violation))

    async def _fetch(self, connection: WireClient, partition: int, offset: int) -> FetchedPartition:
        request = KafkaFetchRequest(
            version=_FETCH_VERSION,
            max_wait_ms=300,
            min_bytes=1,
            max_bytes=1 << 20,
            topics=[FetchTopic(TOPIC, None, [FetchPartition(partition, UNKNOWN_EPOCH, Offset(offset))])],
        )
        return (await connection.fetch(request)).topics[0].partitions[0]


def read_everything(data: bytes) -> Sequence[tuple[int, bytes]]:
    """Return (offset, value) of all records in a log's bytes."""
    return [
        (record.offset, record.value or b"") for batch in read_batches(data) for record in records_of(batch)
    ]
