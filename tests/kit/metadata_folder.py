"""A node's folder with a metadata log and snapshots, written as a node would write them."""

import uuid
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import trio

from quorate.broker.metadata.batch_loader import BatchLoader
from quorate.broker.metadata.metadata_records import (
    AbortTransaction,
    BeginTransaction,
    BrokerEndpoint,
    BrokerRegistrationChange,
    ClientQuota,
    Config,
    ConfigType,
    EndTransaction,
    FeatureLevel,
    FeatureRange,
    Partition,
    PartitionChange,
    ProducerIds,
    QuotaEntity,
    Record,
    RegisterBroker,
    RemoveTopic,
    Topic,
)
from quorate.broker.metadata.record_codec import encode
from quorate.log import Log, LogConfig
from quorate.log.batches.batch import read_batches
from quorate.log.batches.control import leader_change_batch, leader_change_in
from quorate.log.batches.records import build_batch
from quorate.log.snapshots.snapshots import SnapshotStore
from quorate.raft.storage.watermark import WatermarkCheckpoint
from quorate.runtime.real import RealDisk, SyncStrategy
from quorate.types import Epoch, EpochEnd, Offset, SnapshotId

T0 = 1_700_000_000_000
ORDERS = uuid.UUID(int=0xA1 << 64 | 1)
LOGS = uuid.UUID(int=0xB2 << 64 | 2)
DISKS = {broker: uuid.UUID(int=0xD << 64 | broker) for broker in (1, 2)}


def registered(broker: int) -> RegisterBroker:
    return RegisterBroker(
        broker_id=broker,
        incarnation_id=uuid.UUID(int=broker),
        broker_epoch=broker,
        listeners=(BrokerEndpoint(name="PLAINTEXT", host=f"host-{broker}", port=9092),),
        rack="r1" if broker == 1 else None,
        features=(FeatureRange(name="metadata.version", min_level=1, max_level=1),),
        fenced=True,
        in_controlled_shutdown=False,
        log_dirs=(DISKS[broker],),
    )


def partition(topic: uuid.UUID, number: int, **more: object) -> Partition:
    fields = {"leader": 1, "directories": (DISKS[1], DISKS[2])} | more
    return Partition(topic_id=topic, partition_id=number, replicas=(1, 2), isr=(1, 2), **fields)  # type: ignore[arg-type]


STORY: tuple[tuple[Record, ...], ...] = (
    (FeatureLevel(name="metadata.version", level=1),),
    (registered(1),),
    (registered(2),),
    (BrokerRegistrationChange(broker_id=1, broker_epoch=1, fenced=False),),
    (BrokerRegistrationChange(broker_id=2, broker_epoch=2, fenced=False),),
    (Topic(name="orders", topic_id=ORDERS), partition(ORDERS, 0), partition(ORDERS, 1)),
    (Config(resource_type=ConfigType.TOPIC, resource_name="orders", name="retention.ms", value="1000"),),
    (Config(resource_type=ConfigType.BROKER, resource_name="", name="log.cleaner.threads", value="2"),),
    (ClientQuota(entity=QuotaEntity(user="a/b", client_id=""), key="producer_byte_rate", value=1024.0),),
    (BeginTransaction(name="a large topic"),),
    (Topic(name="logs", topic_id=LOGS), partition(LOGS, 0)),
    (EndTransaction(),),
    (ProducerIds(broker_id=1, broker_epoch=1, next_producer_id=1000),),
    (PartitionChange(topic_id=ORDERS, partition_id=1, isr=(2,), leader=2),),
    (
        PartitionChange(
            topic_id=ORDERS, partition_id=0, replicas=(1, 2), removing_replicas=(2,), adding_replicas=()
        ),
    ),
    (BeginTransaction(), RemoveTopic(topic_id=ORDERS)),
    (AbortTransaction(reason="the controller failed"),),
    (RemoveTopic(topic_id=LOGS),),
)
"""The sample: one batch each, a second apart. Offset 0 is a control record."""


@dataclass(slots=True)
class MetadataFolder:
    """Batches, written to a folder on demand."""

    path: Path
    batches: list[tuple[int, tuple[Record, ...]]] = field(default_factory=list)
    """The batches: (base offset, records). None: a control record."""
    end: int = 0
    disk: RealDisk = field(default_factory=lambda: RealDisk(sync=SyncStrategy.INLINE))

    @property
    def home(self) -> Path:
        return self.path / "__cluster_metadata-0"

    def append(self, *records: Record) -> None:
        self.batches.append((self.end, records))
        self.end += max(1, len(records))

    def time_of(self, offset: int) -> int:
        number = max(at for at, (base, _) in enumerate(self.batches) if base <= offset)
        return T0 + 1000 * number

    def loader_at(self, end: int) -> BatchLoader:
        """Return the loader after the records below `end`. It is the code of nodes, without any log."""
        loader = BatchLoader()
        for base, records in self.batches:
            if records and base < end:
                loader.load(records[: end - base], base_offset=base, epoch=1)
        return loader

    def write(self, *, committed: int | None = None, start: int = 0) -> Path:
        """Write all batches. `start`: the log begins there, with the snapshot that ends there."""
        trio.run(partial(self.save, committed=committed, start=start))
        return self.path

    async def save(self, *, committed: int | None = None, start: int = 0) -> None:
        """The same as `write`. With an autojump clock, a thread would wait for the interpreter at each of its
        steps."""
        self.path.mkdir(exist_ok=True)
        log = await Log.open(self.disk, str(self.home), LogConfig(own_recovery_point=True), now_ms=lambda: T0)
        if start and not log.end_offset:
            await log.reset(EpochEnd(Epoch(1), Offset(start)))
        for base, records in self.batches:
            if base >= log.end_offset:
                log.append_own(
                    self._batch(base, records),
                    base_offset=base,
                    end_offset=base + max(1, len(records)),
                    epoch=1,
                )
        await log.flush_and_close()
        checkpoint = WatermarkCheckpoint(self.disk, str(self.home), end_offset=Offset(log.end_offset))
        checkpoint.note_high_watermark(Offset(self.end if committed is None else committed))
        await checkpoint.store()

    def _batch(self, base: int, records: tuple[Record, ...]) -> bytes:
        time = self.time_of(base)
        if not records:
            return leader_change_batch(
                base_offset=base, epoch=1, timestamp_ms=time, leader=1, voters=[1], granting_voters=[1]
            )
        return build_batch(base_offset=base, epoch=1, timestamp_ms=time, values=list(map(encode, records)))

    def snapshot(self, end: int) -> Path:
        """Write the snapshot of all records below `end`. Return its file."""
        snapshot = SnapshotId(Offset(end), Epoch(1))

        async def write() -> None:
            self.home.mkdir(parents=True, exist_ok=True)
            store = await SnapshotStore.open(self.disk, str(self.home))
            [elected] = read_batches(self._batch(0, ()))
            writer = store.write(
                snapshot,
                last_timestamp_ms=self.time_of(end - 1),
                voters=None,
                leader_change=leader_change_in(elected),
            )
            for record in self.loader_at(end).records():
                writer.append(encode(record))
            await writer.freeze()
            store.close()

        trio.run(write)
        return self.home / f"{end:020}-{1:010}.checkpoint"


def story_folder(path: Path) -> MetadataFolder:
    """Return the sample in a node's folder, not written yet."""
    folder = MetadataFolder(path)
    folder.append()
    for records in STORY:
        folder.append(*records)
    return folder
