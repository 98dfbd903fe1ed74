"""The logs of a broker's partitions: where they are, how they are opened, and what is known to be durable.

The folders are scanned when the broker starts; a log is opened when metadata says that its partition belongs
here, so that what is stray is never read.
"""

import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager

from quorate.broker.metadata.metadata_records import UNASSIGNED
from quorate.broker.replication.foundation.errors import AllDirectoriesFailedError
from quorate.broker.replication.storage.folders import PartitionIdentity, folder_name
from quorate.broker.replication.storage.future_logs import FutureLogs
from quorate.broker.replication.storage.log_directory import (
    BadDirectory,
    Directory,
    DirectoryReport,
    LogDirectory,
    failure_reason,
    report,
)
from quorate.broker.replication.storage.partition_folders import PartitionFolders
from quorate.broker.replication.storage.proofs import (
    PAGE_CACHE,
    Proof,
    drop_page_cache,
    newest_proof,
    store_clean_shutdown,
    store_page_cache,
)
from quorate.broker.replication.storage.startup_scan import open_directory, settle_duplicates, settle_moves
from quorate.log import LOG_STARTS, DamagedLogError, IncompleteLogError, Log, LogConfig, TopicPartition
from quorate.runtime import DescriptorsExhaustedError, Disk, DiskError, get_logger, uuid_text
from quorate.types import Offset

log = get_logger(__name__)


class LogManager:
    """The logs in all directories. `open` makes it. The caller opens, closes and removes any one partition's
    log one at a time."""

    def __init__(
        self,
        disk: Disk,
        opened: list[LogDirectory],
        bad: Sequence[BadDirectory],
        now_ms: Callable[[], int],
        *,
        boot_id: str,
    ) -> None:
        self._disk = disk
        self.directories: Sequence[LogDirectory] = opened
        """The directories that were usable at the start, failed since or not."""
        self._bad = bad
        self._now_ms = now_ms
        self.own_ids = frozenset(each.id for each in opened)
        """The ids of the directories that were usable at the start, failed since or not."""
        self._boot_id = boot_id
        self._forsaken = False
        self.futures = FutureLogs(disk, opened, now_ms)
        self.folders = PartitionFolders(disk, opened, bad, self.futures)

    @classmethod
    async def open(
        cls,
        disk: Disk,
        directories: Sequence[Directory | BadDirectory],
        *,
        now_ms: Callable[[], int],
        boot_id: str,
    ) -> "LogManager":
        """Scan the folders, and finish the work that a crash interrupted. Unreadable folders stay offline.
        Raises `AllDirectoriesFailedError` if none is left, `DiskError` for the metadata log's folder;
        `DuplicateReplicaError`, `UnreadableCheckpointError`, `UnreadablePartitionMetadataError`,
        `ForeignFolderError`."""
        opened: list[LogDirectory] = []
        bad: list[BadDirectory] = []
        for directory in directories:
            if isinstance(directory, Directory):
                try:
                    opened.append(await open_directory(disk, directory, boot_id))
                    continue
                except DescriptorsExhaustedError:
                    raise
                except DiskError as error:
                    if directory.holds_metadata:
                        raise
                    directory = BadDirectory(path=directory.path, reason=failure_reason(error))
            log.error(
                "a directory of log.dirs can't be used; what is in it is offline until the broker is started "
                "with it again",
                path=directory.path,
                reason=directory.reason,
            )
            bad.append(directory)
        if not opened:
            reasons = "; ".join(each.reason for each in bad)
            raise AllDirectoriesFailedError(
                f"no directory of log.dirs can be used: {reasons}; mend the disk, or correct log.dirs, and "
                "start again"
            )
        await settle_moves(disk, opened)
        await settle_duplicates(disk, opened)
        return cls(disk, opened, bad, now_ms, boot_id=boot_id)

    @property
    def proof(self) -> Proof:
        """The newest life of the broker whose data is all here, but for directories that are missing now;
        `NO_PROOF` if that isn't sure."""
        return newest_proof((each.id, each.proof) for each in self.directories)

    @property
    def paths(self) -> tuple[str, ...]:
        """The paths of the directories that were usable at the start, failed since or not."""
        return tuple(each.path for each in self.directories)

    @property
    def online_ids(self) -> tuple[uuid.UUID, ...]:
        """The ids of the directories that work."""
        return tuple(each.id for each in self.directories if each.failure is None)

    @property
    def failed_ids(self) -> tuple[uuid.UUID, ...]:
        """The ids of the directories that have failed since the start."""
        return tuple(each.id for each in self.directories if each.failure is not None)

    @property
    def all_usable(self) -> bool:
        """True if no directory was bad at the start."""
        return not self._bad

    def registered(self, broker_epoch: int) -> None:
        """Assign the writes from now on to `broker_epoch`."""
        if self._forsaken:
            return
        proof = Proof(broker_epoch, frozenset(self.online_ids))
        for each in self.directories:
            try:
                store_page_cache(self._disk, each.path, proof, boot_id=self._boot_id)
            except DiskError as error:
                # No partition is at stake: a next life in this boot can't prove what it has.
                log.warning("can't note the broker's epoch", path=each.path, reason=str(error))

    def forsake(self) -> None:
        """Withdraw the proof after a disk failed: writes may be missing in the next life, though the host
        runs on. An orderly shutdown, which syncs everything, may restore it."""
        if self._forsaken:
            return
        self._forsaken = True
        for each in self.directories:
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
        return tuple(each.path for each in self.directories if each.failure is not None)

    @property
    def unused_dirs(self) -> tuple[str, ...]:
        """Return `failed_dirs`, and those that were bad at the start."""
        return (*(each.path for each in self._bad), *self.failed_dirs)

    @property
    def can_go_on(self) -> bool:
        """Return whether a folder is left, and that of the metadata log has not failed."""
        failed = [each for each in self.directories if each.failure is not None]
        return len(failed) < len(self.directories) and not any(each.holds_metadata for each in failed)

    def reports(self) -> list[DirectoryReport]:
        """Describe every directory of `log.dirs`, those that were bad at the start included."""
        bad = [report(self._disk, each.path, failure=each.reason) for each in self._bad]
        return bad + [
            report(
                self._disk,
                each.path,
                failure=each.failure,
                logs=each.logs,
                futures=self.futures.progress(each),
            )
            for each in self.directories
        ]

    async def open_log(
        self,
        topic: str,
        partition_id: int,
        identity: PartitionIdentity,
        config: LogConfig,
        *,
        directory: uuid.UUID = UNASSIGNED,
        counts: bool = False,
    ) -> Log:
        """Recover the partition's log, or begin one in `directory` if that is ours, else in the one with the
        fewest. A folder of an earlier partition of this name is removed first. The high watermark is the
        checkpoint's. `counts`: the replica is in the ISR or the ELR, so that it must have what it had.

        Raises `DiskError`, `DamagedLogError`; `IncompleteLogError` for one that counts, and is shorter now.
        """
        key = (topic, partition_id)
        where = self.folders.log_directory_of(*key)
        if where is not None and where.identities[key] != identity:
            await self.folders.remove(topic, partition_id)
            where = None
        await self.folders.namesakes.remove(key)
        if where is None:
            self.folders.check_vanished(key, counts=counts)
            await self.futures.forget_departed(key)
            where = self.folders.place_for(directory)
            await self.folders.create(where, key, identity)
        if where.failure is not None:
            raise DiskError(where.failure, path=where.path)
        point, known = where.recovery_points.get(key, Offset(0)), where.high_watermarks.get(key, Offset(0))
        clean = where.clean and key in where.recovery_points
        opened = await Log.open(
            self._disk,
            f"{where.path}/{folder_name(*key)}",
            config,
            recovery_point=point,
            clean_shutdown=clean,
            complete_to=max(point, known) if clean or counts else None,
            now_ms=self._now_ms,
        )
        where.logs[key] = opened
        try:
            await self._begin_at_start(where, key, opened, counts=counts)
        except BaseException:
            opened.close()
            del where.logs[key]
            raise
        where.check_cleaned(key, opened)
        opened.high_watermark = max(opened.log_start_offset, min(known, opened.end_offset))
        return opened

    async def _begin_at_start(
        self, where: LogDirectory, key: TopicPartition, opened: Log, *, counts: bool
    ) -> None:
        """Let the log start where the checkpoint says. One whose records up to there were lost with the power
        is empty then: an offset that was deleted is never given to another record. Raises `DamagedLogError`
        if that can't be what happened."""
        start = where.log_starts.get(key, Offset(0))
        problem = f"{opened.folder} starts at offset {start} by this file, and ends at {opened.end_offset}"
        if start > opened.end_offset and where.clean and key in where.recovery_points:
            problem += ", although the broker was stopped in order"
            raise DamagedLogError(f"{where.path}/{LOG_STARTS}", 0, problem)
        if start > opened.end_offset and counts:
            raise IncompleteLogError(f"{where.path}/{LOG_STARTS}", 0, problem)
        if start > opened.end_offset:
            async with where.cutting(key, Offset(0)):
                await opened.truncate_fully_and_start_at(start)
        elif start > opened.log_start_offset:
            await opened.advance_log_start(start)
            opened.durable_log_start_offset = start

    def fail_directory(self, directory: uuid.UUID, reason: str) -> list[TopicPartition]:
        """Take a directory offline as `fail`."""
        return [key for each in self.directories if each.id == directory for key in self._fail(each, reason)]

    def elsewhere(self, opened: Log, error: Exception) -> uuid.UUID | None:
        """Return the directory that a disk error is of, if that isn't the one of this log: an earlier place
        of its replica. None: it is this one, or isn't known."""
        if not isinstance(error, DiskError):
            return None
        for each in self.directories:
            if error.path.startswith(f"{each.path}/") and not opened.folder.startswith(f"{each.path}/"):
                return each.id
        return None

    def fail(self, failed: Log, reason: str) -> list[TopicPartition]:
        """Take the log's whole directory of `log.dirs` offline after a disk error. Return its partitions."""
        for each in self.directories:
            if failed in each.logs.values():
                return self._fail(each, reason)
        return []

    def fail_dir_of(self, topic: str, partition_id: int, error: Exception) -> list[TopicPartition]:
        """Take the partition's folder offline as `fail`, for a log that could not be opened or made."""
        where = self.folders.log_directory_of(topic, partition_id)
        if where is None and isinstance(error, DiskError):
            path = error.path
            inside = [
                each for each in self.directories if path == each.path or path.startswith(f"{each.path}/")
            ]
            where = max(inside, key=lambda each: len(each.path), default=None)
        failed = self.directories if where is None else [where]
        return [key for each in failed for key in self._fail(each, failure_reason(error))]

    def _fail(self, where: LogDirectory, reason: str) -> list[TopicPartition]:
        if where.failure is None:
            where.failure = reason
            self.forsake()
            log.error(
                "a directory of log.dirs has failed and is not used any more",
                path=where.path,
                directory_id=uuid_text(where.id),
                reason=reason,
            )
        return list(where.logs)

    # Checkpoints

    async def store_high_watermarks(self) -> None:
        """Store the high watermarks of all folders. Raises `DiskError` at the end."""
        await self._on_each(LogDirectory.store_high_watermarks)

    async def store_recovery_points(self) -> None:
        """Store the ends that the logs' last flushes made durable, in all folders. Raises `DiskError` at the
        end."""
        await self._on_each(LogDirectory.store_recovery_points)

    async def store_cleaned(self) -> None:
        """Store the ends of what is compacted (`LogDirectory.cleaned`), of all folders. Raises `DiskError` at
        the end."""
        await self._on_each(LogDirectory.store_cleaned)

    async def store_log_starts(self, keys: Iterable[TopicPartition]) -> dict[TopicPartition, DiskError]:
        """Make the present log starts of these partitions durable. Return those of folders that failed."""
        by_directory: dict[LogDirectory, list[TopicPartition]] = {}
        for key in keys:
            where = self.folders.log_directory_of(*key)
            if where is not None and where.failure is None:
                by_directory.setdefault(where, []).append(key)
            sealed = self.futures.sealed(key)
            if sealed is not None:
                by_directory.setdefault(sealed, []).append(key)
        failures: dict[TopicPartition, DiskError] = {}
        for where, concerned in by_directory.items():
            try:
                await where.store_log_starts(concerned)
            except DiskError as error:
                failures.update(dict.fromkeys(concerned, error))
        return failures

    async def _on_each(self, store: Callable[[LogDirectory], Awaitable[None]]) -> None:
        failure: DiskError | None = None
        for each in self._sound():
            try:
                await store(each)
            except DiskError as error:
                failure = error
        if failure is not None:
            raise failure

    def _sound(self) -> list[LogDirectory]:
        return [each for each in self.directories if each.failure is None]

    @asynccontextmanager
    async def cutting(self, topic: str, partition_id: int, end_offset: Offset) -> AsyncIterator[None]:
        """Wrap a cut of the partition's log to `end_offset`: see `LogDirectory.cutting`. Raises
        `DiskError`."""
        where = self.folders.log_directory_of(topic, partition_id)
        if where is None:
            raise DiskError("the log is not here any more", path=folder_name(topic, partition_id))
        async with where.cutting((topic, partition_id), end_offset):
            yield

    async def close(self, *, clean_epoch: int | None) -> None:
        """Sync and close what is open, write the checkpoints, and last the mark of an orderly shutdown,
        unless `clean_epoch` is None or a log was being changed when the broker stopped: that one must be
        recovered. Raises `DiskError`; nothing is marked then."""
        recovers = self.futures.any_interrupted or any(
            opened.is_interrupted for each in self.directories for opened in each.logs.values()
        )
        for each in self._sound():
            for opened in each.logs.values():
                await opened.flush_and_close()
        await self.futures.close()
        await self.store_high_watermarks()
        await self.store_recovery_points()
        await self.store_cleaned()
        if clean_epoch is not None and not recovers and all(each.complete for each in self.directories):
            proof = Proof(clean_epoch, frozenset(self.online_ids))
            for each in self._sound():
                await store_clean_shutdown(self._disk, each.path, proof)

    def abandon(self) -> None:
        """Close all files as they are."""
        for each in self.directories:
            for opened in each.logs.values():
                opened.close()
        self.futures.abandon()
