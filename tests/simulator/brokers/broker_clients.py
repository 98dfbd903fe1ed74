"""Producers and consumers of a simulated broker cluster, on hosts of their own, speaking Kafka's protocol.

One topic; each producer and each consumer keeps to one partition. Every record is unique, so what a partition
holds in the end says what became of each.
"""

import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import trio
from kio.schema.errors import ErrorCode

from quorate.broker.wire.codecs.fetch_codec import FetchedPartition
from quorate.broker.wire.codecs.produce_codec import ProducedPartition
from quorate.broker.wire.kafka_client import WireClient, open_client
from quorate.log import InvalidBatchError, Log
from quorate.log.batches.batch import read_batches
from quorate.log.batches.records import build_batch, records_of
from quorate.simulation.cluster_run import draw_records
from quorate.simulation.histories.history import AppendCall, History
from quorate.simulation.violations import SafetyViolation
from quorate.types import Epoch, Offset
from tests.simulator.brokers.broker_cluster import BrokerCluster, rack_of
from tests.simulator.brokers.partition_clients import (
    TIMEOUT_S,
    PartitionClients,
    UnusableError,
    produce,
    records_in,
)

TOPIC: Final = "events"
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


class BrokerClients(PartitionClients):
    """`finish` lets producers complete the batches that they began. Consumers read on until cancelled."""

    def __init__(self, cluster: BrokerCluster, settings: BrokerClientSettings, source: random.Random) -> None:
        super().__init__(cluster, TOPIC, source)
        self._settings = settings
        partitions = range(cluster.settings.partitions)
        self.histories: Mapping[int, History] = {number: History() for number in partitions}
        self.acknowledged: list[tuple[AppendCall, str]] = []
        """The acknowledged appends, in order of time, each with the address of the broker that acknowledged
        it."""
        self.consumed: dict[str, tuple[int, list[tuple[int, bytes]]]] = {}
        """Each consumer's partition, and the (offset, value) pairs that it has read from the start on."""
        self.read_nearby = 0
        """The records that consumers have read from followers (KIP-392)."""

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

    # Producing

    def _begin(self, client: str, partition: int, source: random.Random) -> AppendCall:
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
        append: AppendCall,
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
        answer = await produce(connection, TOPIC, partition, data, timeout_s=timeout_s)
        self._cluster.trace.add(append.client, f"{answer.error.name} {answer.base_offset}")
        if answer.error is ErrorCode.none:
            History.acknowledge(append, Offset(answer.base_offset), Epoch(-1), trio.current_time())
            self.acknowledged.append((append, connection.peer))
        return answer

    async def _produce_idempotently(self, client: str, partition: int, source: random.Random) -> None:
        producer: list[int] = []
        begun: list[AppendCall] = []

        async def use(connection: WireClient) -> bool:
            if not producer:
                producer[:] = [*await self.new_producer(connection), 0]
            if not begun:
                if self._finish.is_set():
                    return True
                begun.append(self._begin(client, partition, source))
            produced = await self._send(
                connection, partition, begun[0], (producer[0], producer[1], producer[2]), timeout_s=TIMEOUT_S
            )
            if produced.error in _LOST:
                self._cluster.found(
                    "AcknowledgedSequencesAreKnown",
                    SafetyViolation(f"{begun[0]}, sequence {producer[2]}: {produced.error.name}"),
                )
            if produced.error is not ErrorCode.none:
                raise UnusableError
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
                raise UnusableError
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
            rack = "" if until is not None else rack_of(1 + partition % len(self._cluster.nodes))
            fetched = await self.fetch_at(connection, client, partition, position, rack=rack)
            if fetched.preferred_read_replica > 0:
                await self._read_nearby(client, partition, fetched.preferred_read_replica, got)
                return False
            if fetched.error is ErrorCode.offset_out_of_range:
                self._cluster.found(
                    "WhatWasReadStays",
                    SafetyViolation(f"{client} has read up to {position}, which is out of range now"),
                )
            if fetched.error is not ErrorCode.none:
                raise UnusableError
            self._take_in(client, fetched, got)
            return False

        await self.with_leader(client, partition, source, use)

    async def _read_nearby(
        self, client: str, partition: int, broker_id: int, got: list[tuple[int, bytes]]
    ) -> None:
        """Read from the follower that the leader named, until it sends the consumer back."""
        network = self._cluster.network.for_node(client)
        address = self._cluster.nodes[broker_id - 1].address
        async with open_client(network, address, client_id=client, timeout_s=TIMEOUT_S) as connection:
            while True:
                position = got[-1][0] + 1 if got else 0
                fetched = await self.fetch_at(connection, client, partition, position)
                if fetched.error is not ErrorCode.none:
                    return
                before = len(got)
                self._take_in(client, fetched, got)
                self.read_nearby += len(got) - before

    def _take_in(self, client: str, fetched: FetchedPartition, got: list[tuple[int, bytes]]) -> None:
        """Take the whole batches. Raises `UnusableError` for one with a wrong checksum, where a bit has
        flipped: brokers leave that check to consumers, and look for such batches later."""
        position = got[-1][0] + 1 if got else 0
        try:
            for batch in read_batches(b"".join(fetched.records)):
                for record in records_of(batch):
                    if record.offset < position:
                        continue  # of a batch that the position lies in
                    self._check_read(client, position, record.offset, fetched.high_watermark)
                    got.append((record.offset, record.value or b""))
                    position = record.offset + 1
        except InvalidBatchError as error:
            if not self._cluster.has_flipped:
                raise SafetyViolation(f"WhatIsServedIsWhole: {client}, offset {position}: {error}") from error
            raise UnusableError from error

    def _check_read(self, client: str, position: int, offset: int, high_watermark: int) -> None:
        if offset != position:
            violation = f"{client} asked for offset {position} and got {offset}"
            self._cluster.found("NothingIsSkipped", SafetyViolation(violation))
        if offset >= high_watermark:
            violation = f"{client} got offset {offset}, the high watermark is {high_watermark}"
            self._cluster.found("NothingAboveTheHighWatermark", SafetyViolation(violation))


async def everything_of(log: Log) -> list[tuple[int, bytes]]:
    """Return (offset, value) of all records in a log."""
    return [(record.offset, record.value or b"") for record in await records_in(log)]
