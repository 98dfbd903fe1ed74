"""The logs of a broker's partitions: where they are, how they are opened, and what is known to be durable.

The folders are scanned when the broker starts; a log is opened when metadata says that its partition belongs
here, so that what is stray is never read.
"""

import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import trio

from quorate.broker.replication.config import ReplicationConfig
from quorate.broker.replication.log_dir import LogDir
from quorate.broker.replication.log_folder import (
    DELETED_MARK,
    PAGE_CACHE,
    PARTITION_METADATA,
    UnreadablePartitionMetadataError,
    drop_page_cache,
    folder_name,
    load_clean_shutdown,
    load_page_cache,
    load_partition_metadata,
    parse_folder_name,
    remove_clean_shutdown,
    store_clean_shutdown,
    store_page_cache,
    store_partition_metadata,
)
from quorate.log import Log, LogConfig
from quorate.log.checkpoints import TopicPartition
from quorate.raft.core.types import Offset
from quorate.runtime.disk import Disk, DiskError
from quorate.runtime.log import get_logger

log = get_logger(__name__)

_METADATA_TOPIC = "__cluster_metadata"


class LogManager:
    """Use `open`. The caller opens, closes and removes any one partition's log one at a time."""

    def __init__(self, disk: Disk, dirs: list[LogDir], now_ms: Callable[[], int], *, boot_id: str) -> None:
        self._disk = disk
        self._dirs = dirs
        self._now_ms = now_ms
        self._boot_id = boot_id
        self._forsaken = False

    @classmethod
    async def open(
        cls, disk: Disk, config: ReplicationConfig, *, now_ms: Callable[[], int], boot_id: str
    ) -> "LogManager":
        """Scan the folders, and finish what a crash interrupted. Raises `DiskError`,
        `UnreadableCheckpointError`, `UnreadablePartitionMetadataError`."""
        dirs = []
        for path in config.log_dirs:
            if not disk.exists(path):
                disk.make_folder(path)
            clean_epoch = load_clean_shutdown(disk, path)
            complete_epoch = load_page_cache(disk, path, boot_id=boot_id)
            if clean_epoch is not None:
                # Before the mark goes: a process that is killed before it registers has spoilt nothing.
                complete_epoch = clean_epoch
                store_page_cache(disk, path, broker_epoch=clean_epoch, boot_id=boot_id)
            await remove_clean_shutdown(disk, path)
            each = LogDir(disk, path, clean_epoch=clean_epoch, complete_epoch=complete_epoch)
            await _scan(disk, each)
            dirs.append(each)
        return cls(disk, dirs, now_ms, boot_id=boot_id)

    @property
    def complete_epoch(self) -> int:
        """The broker epoch of the life before, if everything that it wrote is here; -1 if that isn't sure."""
        epochs = {each.complete_epoch for each in self._dirs}
        epoch = epochs.pop()
        return -1 if epochs or epoch is None else epoch

    def registered(self, broker_epoch: int) -> None:
        """What is written from now on belongs to `broker_epoch`."""
        if self._forsaken:
            return
        for each in self._dirs:
            try:
                store_page_cache(self._disk, each.path, broker_epoch=broker_epoch, boot_id=self._boot_id)
            except DiskError as error:
                # Nothing of a partition's is at stake: a next life in this boot can't prove what it has.
                log.warning("can't note the broker's epoch", path=each.path, reason=str(error))

    def forsake(self) -> None:
        """A disk failed: what the next life finds may be less than what was written, though the host runs on.
        An orderly shutdown, for which everything is synced, may mend that."""
        if self._forsaken:
            return
        self._forsaken = True
        for each in self._dirs:
            try:
                drop_page_cache(self._disk, each.path)
            except DiskError as error:
                log.error(
                    "the mark that the page cache is complete can't be removed; before the broker starts "
                    f"again, remove {each.path}/{PAGE_CACHE} or restart the host",
                    path=each.path,
                    reason=str(error),
                )

    @property
    def failed_dirs(self) -> tuple[str, ...]:
        return tuple(each.path for each in self._dirs if each.failure is not None)

    @property
    def all_failed(self) -> bool:
        return all(each.failure is not None for each in self._dirs)

    def held(self) -> list[tuple[str, int, uuid.UUID]]:
        """(topic, partition, topic id) of every folder that is there."""
        return [(*key, topic_id) for each in self._dirs for key, topic_id in each.topic_ids.items()]

    def dir_of(self, topic: str, partition_id: int) -> LogDir | None:
        key = (topic, partition_id)
        return next((each for each in self._dirs if key in each.topic_ids), None)

    async def open_log(self, topic: str, partition_id: int, topic_id: uuid.UUID, config: LogConfig) -> Log:
        """Recover the partition's log, or begin one in the folder that has the fewest. A folder of an earlier
        topic of this name is removed first. The high watermark is what the checkpoint says.

        Raises `DiskError`, `DamagedLogError`.
        """
        key = (topic, partition_id)
        where = self.dir_of(*key)
        if where is not None and where.topic_ids[key] != topic_id:
            await self.remove(topic, partition_id)
            where = None
        if where is None:
            usable = [each for each in self._dirs if each.failure is None]
            if not usable:
                raise DiskError("every folder of log.dirs has failed", path=self._dirs[0].path)
            where = min(usable, key=lambda each: len(each.topic_ids) + each.expected)
            await self._create(where, key, topic_id)
        if where.failure is not None:
            raise DiskError(where.failure, path=where.path)
        opened = await Log.open(
            self._disk,
            f"{where.path}/{folder_name(*key)}",
            config,
            recovery_point=where.recovery_points.get(key, Offset(0)),
            clean_shutdown=where.clean_epoch is not None and key in where.recovery_points,
            now_ms=self._now_ms,
        )
        known = where.high_watermarks.get(key, Offset(0))
        opened.high_watermark = Offset(max(opened.log_start_offset, min(known, opened.end_offset)))
        where.logs[key] = opened
        return opened

    async def _create(self, where: LogDir, key: TopicPartition, topic_id: uuid.UUID) -> None:
        where.expected += 1
        try:
            await where.forget_durably(key)
            folder = f"{where.path}/{folder_name(*key)}"
            self._disk.make_folder(folder)
            await store_partition_metadata(self._disk, folder, topic_id)
            await self._disk.sync_folder(where.path)
            where.topic_ids[key] = topic_id
        finally:
            where.expected -= 1

    async def remove(self, topic: str, partition_id: int) -> None:
        """Close the log and remove its folder, a file at a time. A crash on the way is finished at the next
        start. Raises `DiskError`."""
        key = (topic, partition_id)
        where = self.dir_of(*key)
        if where is None:
            return
        opened = where.logs.get(key)
        if opened is not None:
            opened.close()
        where.forget(key)
        if where.failure is None:
            await _remove_folder(self._disk, f"{where.path}/{folder_name(*key)}")

    def fail(self, failed: Log, reason: str) -> list[TopicPartition]:
        """A disk error: its whole folder of `log.dirs` is out. The partitions that were in it."""
        for each in self._dirs:
            if failed in each.logs.values():
                if each.failure is None:
                    each.failure = reason
                    self.forsake()
                    log.error(
                        "a folder of log.dirs has failed and is not used any more",
                        path=each.path,
                        reason=reason,
                    )
                return list(each.logs)
        return []

    def fail_dir_of(self, topic: str, partition_id: int, reason: str) -> list[TopicPartition]:
        """As `fail`, for a log that could not even be opened."""
        where = self.dir_of(topic, partition_id)
        if where is None:
            self.forsake()
            for each in self._dirs:
                each.failure = each.failure or reason
            return []
        if where.failure is None:
            where.failure = reason
            self.forsake()
            log.error(
                "a folder of log.dirs has failed and is not used any more", path=where.path, reason=reason
            )
        return list(where.logs)

    # Checkpoints

    async def store_high_watermarks(self) -> None:
        """Raises `DiskError`, after the other folders."""
        await self._on_each(LogDir.store_high_watermarks)

    async def store_recovery_points(self) -> None:
        """What the logs' last flushes made durable. Raises `DiskError`, after the other folders."""
        await self._on_each(LogDir.store_recovery_points)

    async def _on_each(self, store: Callable[[LogDir], Awaitable[None]]) -> None:
        failure: DiskError | None = None
        for each in self._sound():
            try:
                await store(each)
            except DiskError as error:
                failure = error
        if failure is not None:
            raise failure

    def _sound(self) -> list[LogDir]:
        return [each for each in self._dirs if each.failure is None]

    @asynccontextmanager
    async def cutting(self, topic: str, partition_id: int, end_offset: int) -> AsyncIterator[None]:
        """Around a cut of the partition's log to `end_offset`: see `LogDir.cutting`. Raises `DiskError`."""
        where = self.dir_of(topic, partition_id)
        if where is None:
            raise DiskError("the log is not here any more", path=folder_name(topic, partition_id))
        async with where.cutting((topic, partition_id), end_offset):
            yield

    async def close(self, *, clean_epoch: int | None) -> None:
        """Sync and close what is open, write the checkpoints, and last the mark of an orderly shutdown,
        unless `clean_epoch` is None. Raises `DiskError`; nothing is marked then."""
        for each in self._sound():
            for opened in each.logs.values():
                await opened.flush_and_close()
        await self.store_high_watermarks()
        await self.store_recovery_points()
        if clean_epoch is not None and all(each.complete for each in self._dirs):
            for each in self._sound():
                await store_clean_shutdown(self._disk, each.path, clean_epoch)

    def abandon(self) -> None:
        """Close all files as they are."""
        for each in self._dirs:
            for opened in each.logs.values():
                opened.close()


async def _scan(disk: Disk, where: LogDir) -> None:
    for name in disk.list(where.path):
        key = parse_folder_name(name)
        folder = f"{where.path}/{name}"
        files = disk.list(folder) if key is not None else []
        if key is None or key[0] == _METADATA_TOPIC:
            continue
        if DELETED_MARK in files:
            await _remove_folder(disk, folder)
            continue
        topic_id = load_partition_metadata(disk, folder)
        if topic_id is not None:
            where.topic_ids[key] = topic_id
        elif any(file.endswith(".log") for file in files):
            raise UnreadablePartitionMetadataError(f"{folder}/{PARTITION_METADATA}", "missing")
        else:
            # Its creation was interrupted before anything could be written to it.
            disk.remove_folder(folder)
    # The files go on naming what is gone, until something of the same name is made.
    for known in (where.recovery_points, where.high_watermarks):
        for key in [key for key in known if key not in where.topic_ids]:
            del known[key]


async def _remove_folder(disk: Disk, folder: str) -> None:
    mark = f"{folder}/{DELETED_MARK}"
    disk.open(mark, create=True).close()
    await disk.sync_folder(folder)
    for name in disk.list(folder):
        if name != DELETED_MARK:
            disk.remove(f"{folder}/{name}")
            await trio.lowlevel.checkpoint()
    disk.remove_folder(folder)
