"""A metadata log with a story, written as a node would."""

import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import trio

from quorate.broker.controller.codec import encode
from quorate.broker.controller.records import (
    BrokerRegistrationChange,
    Config,
    ConfigType,
    FeatureLevel,
    Listener,
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
from quorate.log import Log, LogConfig
from quorate.log.control import leader_change_batch
from quorate.log.records import build_batch
from quorate.quorum_state.meta_properties import MetaProperties, store_meta_properties
from quorate.raft.core.types import Offset
from quorate.raft.watermark import WatermarkCheckpoint
from quorate.runtime.real import RealDisk, SyncStrategy

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
            checkpoint = WatermarkCheckpoint(disk, str(self.log_folder))
            checkpoint.advanced(Offset(committed))
            await checkpoint.store()


def tell_story(log: WrittenLog) -> None:
    """Three brokers, two topics, a leader lost and found, a topic removed; two leaders of the quorum."""
    log.new_epoch(1)
    log.append(FeatureLevel(name="metadata.version", level=1))
    for broker in (1, 2, 3):
        log.append(
            RegisterBroker(
                broker_id=broker,
                incarnation_id=uuid.UUID(int=broker << 100),
                broker_epoch=log.end,
                listeners=(Listener(name="PLAINTEXT", host="localhost", port=9090 + broker),),
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


@pytest.fixture
def new_log(tmp_path: Path) -> Callable[..., WrittenLog]:
    """An empty log in a folder of its own."""
    made = iter(range(100))

    def new(**settings: object) -> WrittenLog:
        return WrittenLog(folder=tmp_path / f"node-{next(made)}", **settings)  # type: ignore[arg-type]

    return new


@pytest.fixture
def story(new_log: Callable[..., WrittenLog]) -> WrittenLog:
    """The story in one segment, written and committed."""
    log = new_log()
    tell_story(log)
    log.write()
    return log


@pytest.fixture
def tell() -> Callable[[WrittenLog], None]:
    return tell_story


@pytest.fixture(scope="session")
def session_story(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WrittenLog]:
    """As `story`, over many small segments; not to be changed."""
    log = WrittenLog(
        folder=tmp_path_factory.mktemp("spark") / "node", segment_bytes=400, index_interval_bytes=64
    )
    tell_story(log)
    log.write()
    yield log
