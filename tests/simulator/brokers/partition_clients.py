"""Clients of the partitions of one topic of a simulated broker cluster: they find the leader, and find it
again."""

import random
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import TYPE_CHECKING, Final, cast

import trio
from kio.schema.errors import ErrorCode

from quorate.broker.wire.api import ApiKey
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
from quorate.broker.wire.kafka_client import WireClient, open_client
from quorate.broker.wire.wire_errors import KafkaError
from quorate.log import Log
from quorate.log.batches.batch import read_batches
from quorate.log.batches.records import Record, records_of
from quorate.runtime import NetworkError
from quorate.simulation.cluster_run import Clients
from quorate.types import UNKNOWN_EPOCH, Epoch, Offset
from tests.simulator.brokers.broker_cluster import BrokerCluster, BrokerHost

if TYPE_CHECKING:
    from kio.schema.init_producer_id.v4.response import InitProducerIdResponse
    from kio.schema.metadata.v12.response import MetadataResponse

_FETCH_VERSION: Final = 12
_PRODUCE_VERSION: Final = 9
TIMEOUT_S: Final = 2.0


class UnusableError(Exception):
    """Ask another broker."""


async def produce(
    connection: WireClient, topic: str, partition: int, batch: bytes, *, timeout_s: float
) -> ProducedPartition:
    """Send a batch once, with acks=all."""
    request = ProduceRequest(
        version=_PRODUCE_VERSION,
        acks=-1,
        timeout_ms=int(timeout_s * 1000),
        topics=[ProduceTopic(topic, [ProducePartition(partition, memoryview(batch))])],
    )
    return (await connection.produce(request))[0].partitions[0]


async def records_in(log: Log, *, below: int | None = None) -> list[Record]:
    """Return all records of a log, or those of the batches that begin below an offset. A read ends with the
    segment that it begins in."""
    found: list[Record] = []
    offset = log.log_start_offset
    while offset < (log.end_offset if below is None else below):
        batches = list(read_batches(await log.read(offset, 1 << 30)))
        found += [record for batch in batches for record in records_of(batch)]
        offset = Offset(batches[-1].header.end_offset)
    return found


class PartitionClients(Clients[BrokerCluster]):
    """Each client keeps to one partition of `topic`."""

    def __init__(self, cluster: BrokerCluster, topic: str, source: random.Random) -> None:
        super().__init__(cluster, source)
        self.topic = topic
        self._leader_epochs: dict[tuple[str, int], int] = {}
        """The newest that each client knows of a partition. It goes back to no earlier one (KIP-320)."""

    async def with_leader(
        self,
        client: str,
        partition: int,
        source: random.Random,
        use: Callable[[WireClient], Awaitable[bool]],
        *,
        timeout_s: float = TIMEOUT_S,
    ) -> None:
        """Find the partition's leader and `use` a connection to it, again and again, until `use` says that it
        is done. It raises `UnusableError` when another broker leads by now."""
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
                    leader = await self._leader_of(connection, client, partition)
                    while leader is target:
                        if await use(connection):
                            return
            except (NetworkError, KafkaError, UnusableError):
                leader = None
            if leader is None:
                await trio.sleep(source.uniform(0.05, 0.2))
            target = leader or source.choice(self._cluster.nodes)

    async def _leader_of(self, connection: WireClient, client: str, partition: int) -> BrokerHost | None:
        received = await connection.call(
            ApiKey.METADATA, topics=[{"name": self.topic}], allow_auto_topic_creation=False
        )
        answer = cast("MetadataResponse", received)
        for topic in answer.topics:
            for each in topic.partitions:
                if each.partition_index == partition and each.leader_id > 0:
                    newest = self._leader_epochs.get((client, partition), UNKNOWN_EPOCH)
                    if each.leader_epoch < newest:
                        return None
                    self._leader_epochs[client, partition] = each.leader_epoch
                    return self._cluster.nodes[each.leader_id - 1]
        return None

    async def new_producer(self, connection: WireClient) -> tuple[int, int]:
        """Ask for a producer's id and epoch."""
        received = await connection.call(
            ApiKey.INIT_PRODUCER_ID, transactional_id=None, transaction_timeout=timedelta(seconds=60)
        )
        answer = cast("InitProducerIdResponse", received)
        if answer.error_code is not ErrorCode.none:
            raise UnusableError
        return answer.producer_id, answer.producer_epoch

    async def fetch_at(
        self, connection: WireClient, client: str, partition: int, offset: int, *, rack: str = ""
    ) -> FetchedPartition:
        """Fetch once, in the leader epoch that the client knows; a client above its quota waits until it may
        fetch more, and asks again."""
        epoch = Epoch(self._leader_epochs.get((client, partition), UNKNOWN_EPOCH))
        request = KafkaFetchRequest(
            version=_FETCH_VERSION,
            max_wait_ms=300,
            min_bytes=1,
            max_bytes=1 << 20,
            rack_id=rack,
            topics=[FetchTopic(self.topic, None, [FetchPartition(partition, epoch, Offset(offset))])],
        )
        while not (answer := await connection.fetch(request)).topics:  # noqa: ASYNC110
            await trio.sleep(answer.throttle_ms / 1000)
        return answer.topics[0].partitions[0]
