"""Doubles and builders for logs."""

from collections.abc import Awaitable, Callable

import pytest
import trio
from cut_disk import CutDisk

from quorate.log.batches.batch import BatchHeader, read_batches
from quorate.log.batches.records import build_batch, records_of
from quorate.log.compaction.compactor import compact
from quorate.log.compaction.terms import CompactionBounds, CompactionResult, CompactionRules
from quorate.log.log import Log
from quorate.log.log_config import LogConfig
from quorate.log.metadata_recovery import open_metadata_log
from quorate.log.snapshots.snapshot_file import SnapshotContents
from quorate.log.snapshots.snapshots import SnapshotStore
from quorate.simulation.world.simulated_disk import SimulatedDisk
from quorate.simulation.world.simulated_runtime import InlineCompute
from quorate.types import Offset, SnapshotId, VoterSet

OpenLog = Callable[..., Awaitable[Log]]


class FreePace:
    """A pace without a limit. `meanwhile` is done once, when `reads` pieces have been read."""

    def __init__(self, meanwhile: Callable[[], Awaitable[object]] | None = None, *, reads: int = 1) -> None:
        self.read = self.written = 0
        self._meanwhile = meanwhile
        self._reads = reads

    async def moved(self, bytes_read: int, bytes_written: int) -> None:
        self.read += bytes_read
        self.written += bytes_written
        self._reads -= 1
        if self._reads <= 0 and self._meanwhile is not None:
            meanwhile, self._meanwhile = self._meanwhile, None
            await meanwhile()


async def compacted(
    log: Log,
    *,
    dirty_start: int = 0,
    end: int | None = None,
    now_ms: int = 1_000_000,
    delete_retention_ms: int = 86_400_000,
    map_bytes: int = 1 << 20,
    last: Callable[[BatchHeader], bool] = lambda header: False,
    pace: FreePace | None = None,
) -> CompactionResult:
    """Compact the closed segments of `log` below `end`, or all of them."""
    return await compact(
        log,
        CompactionBounds(
            dirty_start=Offset(dirty_start), end=log.active_base_offset if end is None else Offset(end)
        ),
        CompactionRules(delete_retention_ms=delete_retention_ms, now_ms=now_ms, map_bytes=map_bytes),
        pace or FreePace(),
        last,
        InlineCompute(),
    )


def overtake(disk: SimulatedDisk) -> trio.Event:
    """Let a stalled disk carry out what is asked of it from now on. Operations that wait already go on
    waiting until the event is set."""
    assert disk._released is not None
    released, disk._released = disk._released, None
    return released


async def opened(
    disk: SimulatedDisk,
    *,
    config: LogConfig = LogConfig(),  # noqa: B008
    recovery_point: int | None = None,
    clean_shutdown: bool = False,
    complete_to: int | None = None,
    log_start_offset: int | None = None,
) -> Log:
    return await Log.open(
        disk,
        "data/t-0",
        config,
        recovery_point=None if recovery_point is None else Offset(recovery_point),
        clean_shutdown=clean_shutdown,
        complete_to=None if complete_to is None else Offset(complete_to),
        log_start_offset=None if log_start_offset is None else Offset(log_start_offset),
        now_ms=lambda: 1_000_000,
    )


async def new_log(config: LogConfig = LogConfig()) -> tuple[SimulatedDisk, Log]:  # noqa: B008
    """An empty log on a disk of its own."""
    disk = SimulatedDisk()
    return disk, await opened(disk, config=config)


@pytest.fixture
def open_log() -> OpenLog:
    return opened


@pytest.fixture
def batch() -> Callable[..., bytes]:
    def built(
        base_offset: int, count: int = 1, *, epoch: int = 1, size: int = 20, timestamp_ms: int = 1000
    ) -> bytes:
        values = [f"{base_offset + delta}/{epoch}:".encode().ljust(size, b".") for delta in range(count)]
        return build_batch(base_offset=base_offset, epoch=epoch, timestamp_ms=timestamp_ms, values=values)

    return built


FOLDER = "data/__cluster_metadata-0"
METADATA = LogConfig(
    segment_bytes=400, index_interval_bytes=100, tail_bytes=0, own_recovery_point=True,
    recovery_point_interval_bytes=1000,
)  # fmt: skip


class MetadataNode:
    """A disk with snapshots and a metadata log beside them; `values` is what a state machine would hold."""

    def __init__(
        self, disk: CutDisk, snapshots: SnapshotStore, log: Log, batch: Callable[..., bytes]
    ) -> None:
        self.disk = disk
        self.snapshots = snapshots
        self.log = log
        self._batch = batch

    async def restarted(self) -> "MetadataNode":
        """On the same disk."""
        snapshots = await SnapshotStore.open(self.disk, FOLDER)
        log = await open_metadata_log(self.disk, METADATA, snapshots=snapshots, now_ms=lambda: 1_000_000)
        return MetadataNode(self.disk, snapshots, log, self._batch)

    async def fill(self, batches: int, *, count: int = 1, epoch: int = 1) -> None:
        for _ in range(batches):
            self.log.append_as_follower(self._batch(int(self.log.end_offset), count, epoch=epoch))
        await self.log.sync()

    def id_at(self, end_offset: int) -> SnapshotId:
        epoch = self.log.epoch_at(end_offset - 1)
        return SnapshotId(Offset(end_offset), self.log.log_start_epoch if epoch is None else epoch)

    async def take(self, end_offset: int, *, voters: VoterSet | None = None) -> SnapshotId:
        values = await self.values(end_offset)
        snapshot = self.id_at(end_offset)
        writer = self.snapshots.write(snapshot, last_timestamp_ms=1000, voters=voters)
        for value in values:
            writer.append(value)
        await writer.freeze()
        return snapshot

    async def values(self, end_offset: int | None = None) -> list[bytes]:
        """The records of the latest snapshot and of the log above it, below `end_offset`."""
        found: list[bytes] = []
        latest = self.snapshots.latest
        if latest is not None and (end_offset is None or latest.end_offset <= end_offset):
            with self.snapshots.reader(latest) as reader:
                found += reader
            assert len(found) == latest.end_offset
        elif latest is not None:
            older = [one for one in self.snapshots.ids if one.end_offset <= (end_offset or 0)]
            if older:
                with self.snapshots.reader(older[-1]) as reader:
                    found += reader
        while len(found) < self.log.end_offset:
            data = await self.log.read(len(found), 10**6)
            for one in read_batches(data):
                found += [r.value or b"" for r in records_of(one) if r.offset >= len(found)]
        return found[:end_offset]


@pytest.fixture
def open_node(batch: Callable[..., bytes]) -> Callable[..., Awaitable[MetadataNode]]:
    async def opened(disk: CutDisk | None = None) -> MetadataNode:
        disk = disk or CutDisk()
        disk.make_folder(FOLDER)
        snapshots = await SnapshotStore.open(disk, FOLDER)
        log = await open_metadata_log(disk, METADATA, snapshots=snapshots, now_ms=lambda: 1_000_000)
        return MetadataNode(disk, snapshots, log, batch)

    return opened


@pytest.fixture
def fetch() -> Callable[..., Awaitable[SnapshotContents]]:
    """A snapshot from one node's store into another's, in chunks of `chunk_bytes`."""

    async def fetched(
        source: SnapshotStore, target: SnapshotStore, snapshot: SnapshotId, *, chunk_bytes: int = 100
    ) -> SnapshotContents:
        position, size = 0, 1
        while position < size:
            data, size = await source.read_chunk(snapshot, position, chunk_bytes)
            target.write_part(snapshot, position, data)
            position += len(data)
            assert target.part_position(snapshot) == position
        return await target.complete_part(snapshot)

    return fetched
