"""A metadata log as a node writes it, and a broker that serves it to clients."""

import contextlib
import threading
import uuid
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import trio
from kio.schema.errors import ErrorCode

from quorate.broker.apis.api_table import BROKER_APIS
from quorate.broker.metadata.metadata_records import (
    BrokerEndpoint,
    BrokerRegistrationChange,
    Config,
    ConfigType,
    FeatureLevel,
    NoOp,
    Partition,
    PartitionChange,
    ProducerIds,
    Record,
    RegisterBroker,
    RemoveTopic,
    Topic,
    UnregisterBroker,
)
from quorate.broker.metadata.record_codec import encode
from quorate.broker.settings.client_settings import KafkaServerConfig
from quorate.broker.wire.api import ApiKey
from quorate.broker.wire.codecs.entities import build, response_type
from quorate.broker.wire.codecs.fetch_codec import (
    FetchedPartition,
    FetchedTopic,
    KafkaFetchRequest,
    KafkaFetchResponse,
    encode_fetch_response,
)
from quorate.broker.wire.exchanges import Answer, EncodedResponse, Request, RequestContext
from quorate.broker.wire.kafka_server import WireServer
from quorate.log import Log, LogConfig
from quorate.log.batches.control import leader_change_batch
from quorate.log.batches.records import build_batch
from quorate.quorum_state.meta_properties import MetaProperties, store_meta_properties
from quorate.raft.storage.watermark import WatermarkCheckpoint
from quorate.runtime.network import Address
from quorate.runtime.real import RealDisk, RealNetwork, SyncStrategy
from quorate.types import Offset

CLUSTER = "hIYbZ8XNQqiEnzUO1CPmSw"
T0 = 1_700_000_000_000
ORDERS = uuid.UUID(int=0xA1 << 64 | 1)
LOGS = uuid.UUID(int=0xB2 << 64 | 2)


@dataclass(slots=True)
class WrittenLog:
    """What was appended, in memory, and the same in a node's folder. Each append is a batch of its own, one
    second after the one before."""

    folder: Path
    cluster: str = CLUSTER
    segment_bytes: int = 1 << 30
    index_interval_bytes: int = 4096
    epoch: int = 0
    end: int = 0
    batches: list[tuple[int, int, bytes]] = field(default_factory=list)
    """(base offset, epoch, bytes)"""
    records: list[tuple[int, int, int, Record]] = field(default_factory=list)
    """(offset, epoch, timestamp ms, record), control records left out."""

    @property
    def now_ms(self) -> int:
        return T0 + 1000 * len(self.batches)

    @property
    def log_folder(self) -> Path:
        return self.folder / "__cluster_metadata-0"

    def new_epoch(self, leader: int) -> None:
        self.epoch += 1
        batch = leader_change_batch(
            base_offset=self.end,
            epoch=self.epoch,
            timestamp_ms=self.now_ms,
            leader=leader,
            voters=[1, 2, 3],
            granting_voters=[leader, 3],
        )
        self.batches.append((self.end, self.epoch, batch))
        self.end += 1

    def append(self, *records: Record) -> None:
        self.append_raw(*[encode(record) for record in records])
        timestamp = self.now_ms - 1000
        for offset, record in enumerate(records, self.end - len(records)):
            self.records.append((offset, self.epoch, timestamp, record))

    def append_raw(self, *values: bytes) -> None:
        batch = build_batch(base_offset=self.end, epoch=self.epoch, timestamp_ms=self.now_ms, values=values)
        self.batches.append((self.end, self.epoch, batch))
        self.end += len(values)

    def write(self, *, committed: int | None = -1) -> Path:
        """Bring the folder up to date. `committed`: the persisted high watermark, -1 for all, None for no
        file."""
        trio.run(self._write, self.end if committed == -1 else committed)
        return self.folder

    async def _write(self, committed: int | None) -> None:
        disk = RealDisk(sync=SyncStrategy.INLINE)
        self.folder.mkdir(exist_ok=True)
        await store_meta_properties(
            disk,
            str(self.folder),
            MetaProperties(cluster_id=self.cluster, node_id=1, directory_id=uuid.UUID(int=7)),
        )
        config = LogConfig(
            segment_bytes=self.segment_bytes,
            index_interval_bytes=self.index_interval_bytes,
            own_recovery_point=True,
        )
        log = await Log.open(disk, str(self.log_folder), config, now_ms=lambda: T0)
        for number, (base, epoch, batch) in enumerate(self.batches):
            end = self.batches[number + 1][0] if number + 1 < len(self.batches) else self.end
            if base >= log.end_offset:
                log.append_own(batch, base_offset=base, end_offset=end, epoch=epoch)
        await log.flush_and_close()
        if committed is not None:
            checkpoint = WatermarkCheckpoint(disk, str(self.log_folder), end_offset=Offset(log.end_offset))
            checkpoint.note_high_watermark(Offset(committed))
            await checkpoint.store()


def write_sample(log: WrittenLog) -> None:
    """Three brokers, two topics, a leader lost and found, a topic removed; two leaders of the quorum."""
    log.new_epoch(1)
    log.append(FeatureLevel(name="metadata.version", level=1))
    for broker in (1, 2, 3):
        log.append(
            RegisterBroker(
                broker_id=broker,
                incarnation_id=uuid.UUID(int=broker << 100),
                broker_epoch=log.end,
                listeners=(BrokerEndpoint(name="PLAINTEXT", host="localhost", port=9090 + broker),),
                rack=f"rack-{broker}",
            )
        )
        log.append(BrokerRegistrationChange(broker_id=broker, broker_epoch=log.end - 1, fenced=False))
    log.append(
        Topic(name="orders", topic_id=ORDERS),
        *(
            Partition(
                topic_id=ORDERS,
                partition_id=number,
                replicas=(1 + number, 1 + (number + 1) % 3),
                isr=(1 + number, 1 + (number + 1) % 3),
                leader=1 + number,
            )
            for number in range(3)
        ),
        Config(resource_type=ConfigType.TOPIC, resource_name="orders", name="min.insync.replicas", value="2"),
    )
    log.append(ProducerIds(broker_id=2, broker_epoch=4, next_producer_id=1000))
    log.append(PartitionChange(topic_id=ORDERS, partition_id=0, isr=(2,), leader=2))
    log.append(BrokerRegistrationChange(broker_id=1, broker_epoch=2, fenced=True))
    log.new_epoch(2)
    log.append(NoOp(), NoOp())
    log.append(
        Topic(name="logs", topic_id=LOGS),
        Partition(topic_id=LOGS, partition_id=0, replicas=(3,), isr=(3,), leader=3),
    )
    log.append(PartitionChange(topic_id=ORDERS, partition_id=0, isr=(2, 1)))
    log.append(PartitionChange(topic_id=ORDERS, partition_id=0, leader=1))
    log.append(Config(resource_type=ConfigType.BROKER, resource_name="3", name="log.cleaner", value=None))
    log.append(RemoveTopic(topic_id=LOGS), UnregisterBroker(broker_id=3, broker_epoch=6))


class Broker:
    """Serves a `WrittenLog` as a broker does, over real sockets, on a thread of its own.

    A double, so that what brokers do at bad moments can be chosen; whole clusters are tested elsewhere.
    """

    def __init__(self, log: WrittenLog) -> None:
        self.log = log
        self.committed: int | None = None
        """How far this broker knows the log to be committed; None: all of it."""
        self.drop_after_fetches: int | None = None
        """Close the connection instead of answering, once this many Fetches were answered."""
        self.fetches = 0
        self.known: list[Address] = []
        self.log_start = 0
        self._token: trio.lowlevel.TrioToken | None = None
        self._scope = trio.CancelScope()
        self._started = threading.Event()
        self._thread = threading.Thread(target=trio.run, args=(self._run,))
        self._thread.start()
        assert self._started.wait(10)

    @property
    def high_watermark(self) -> int:
        return self.log.end if self.committed is None else self.committed

    async def _run(self) -> None:
        listener = await RealNetwork().listen(Address("127.0.0.1", 0))
        self.address = listener.address
        self._token = trio.lowlevel.current_trio_token()
        with self._scope:
            self._started.set()
            await WireServer(listener, self, KafkaServerConfig()).run()

    def stop(self) -> None:
        assert self._token is not None
        with contextlib.suppress(trio.RunFinishedError):
            self._token.run_sync_soon(self._scope.cancel)
        self._thread.join()

    apis = BROKER_APIS

    async def handle(self, context: RequestContext, request: Request) -> Answer:
        if isinstance(request, KafkaFetchRequest):
            return self._fetch(request)
        response = response_type(context.api, context.version)
        if context.api.key == ApiKey.METADATA:
            brokers = [
                {"node_id": number, "host": address.host, "port": address.port}
                for number, address in enumerate(self.known)
            ]
            return build(response, cluster_id=self.log.cluster, brokers=brokers)
        if context.api.key == ApiKey.DESCRIBE_QUORUM:
            return build(response, error_code=ErrorCode.leader_not_available)
        asked = cast(Any, request).topics[0]
        timestamp = int(asked.partitions[0].timestamp)
        answer = {
            "partition_index": 0,
            "error_code": ErrorCode.none,
            "timestamp": -1,
            "offset": self.log_start if timestamp == -2 else self.high_watermark,
            "leader_epoch": self.log.epoch,
        }
        return build(response, topics=[{"name": asked.name, "partitions": [answer]}])

    def _fetch(self, request: KafkaFetchRequest) -> EncodedResponse:
        if self.drop_after_fetches is not None and self.fetches >= self.drop_after_fetches:
            self._scope.cancel()
            return EncodedResponse([])
        self.fetches += 1
        topic = request.topics[0]
        assert topic.name == "__cluster_metadata"
        offset = topic.partitions[0].fetch_offset
        records: list[bytes] = []
        error = ErrorCode.none
        if offset < self.log_start or offset > self.high_watermark:
            error = ErrorCode.offset_out_of_range
        else:
            ends = [base for base, _, _ in self.log.batches[1:]] + [self.log.end]
            holding = next((number for number, end in enumerate(ends) if offset < end), len(ends))
            committed = sum(end <= self.high_watermark for end in ends)
            # From a batch earlier than asked: a broker may begin where its index says.
            first = max(0, holding - 1) if holding < committed else committed
            served = [batch for _, _, batch in self.log.batches[first:committed]]
            # Few at a time, and the last one cut off, as a byte limit does.
            records = [*served[:3], *(batch[:70] for batch in served[3:4])]
        fetched = FetchedPartition(
            index=0, error=error, high_watermark=self.high_watermark, log_start_offset=0, records=records
        )
        response = KafkaFetchResponse(
            version=request.version, topics=[FetchedTopic(topic.name, None, [fetched])]
        )
        return EncodedResponse(encode_fetch_response(response))
