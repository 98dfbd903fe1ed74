"""A directory of `log.dirs`: the logs in it, its four checkpoint files, and its report to the rest of the
node."""

import os.path
import uuid
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Final, NamedTuple

import trio

from quorate.broker.replication.storage.folders import (
    Departed,
    FolderSync,
    FutureFolder,
    MovedTo,
    PartitionIdentity,
    SetAsideFolder,
)
from quorate.broker.replication.storage.proofs import Proof
from quorate.log import (
    CLEANED,
    HIGH_WATERMARKS,
    LOG_STARTS,
    RECOVERY_POINTS,
    Log,
    TopicPartition,
    UnreadableCheckpointError,
    load_offsets,
    store_offsets,
)
from quorate.present import present
from quorate.runtime import Disk, DiskError, DiskFullError, DiskSpace, get_logger
from quorate.types import Offset

log = get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Directory:
    """A directory of `log.dirs`, with its id (KIP-858)."""

    path: str
    id: uuid.UUID
    holds_metadata: bool = False
    """The metadata log is in it: a node can't go on without this folder."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BadDirectory:
    """A directory that was unusable at the start. Its replicas are offline, and its id is unknown."""

    path: str
    reason: str


_FULL: Final = (
    "the directory and its replicas are offline until the broker is started again. Before that, make room "
    "on its file system: grow it, or remove other files and the folders that quorate log-dirs damaged lists. "
    "Then shorten retention (retention.ms and retention.bytes of topics, log.retention.hours and "
    "log.retention.bytes), or move replicas to another disk (docs/how-to/move-between-disks.md). "
    "quorate.log.dir.free.warn.percent and quorate.log.dir.free.warn.bytes set how early a warning comes"
)


def failure_reason(error: Exception) -> str:
    """Return what happened, and for a full disk what to do."""
    return f"{error}; {_FULL}" if isinstance(error, DiskFullError) else str(error)


class OffsetsFile:
    """A checkpoint file, and what it may hold."""

    __slots__ = ("_disk", "_lock", "_path", "_sure", "held")

    def __init__(
        self, disk: Disk, path: str, held: Mapping[TopicPartition, Offset], *, sure: bool = True
    ) -> None:
        """Keep `held`, the contents as read. `sure`: the file says exactly that, and need not be
        rewritten."""
        self._disk = disk
        self._path = path
        self._lock = trio.Lock()
        self._sure = sure
        self.held = dict(held)
        """The contents of the file, or of a write under way."""

    @classmethod
    def of_recovery_points(cls, disk: Disk, folder: str) -> "OffsetsFile":
        """Open the file of the recovery points. Raises `UnreadableCheckpointError`, `DiskError`: without the
        points, damage could not be told from what a crash leaves."""
        path = f"{folder}/{RECOVERY_POINTS}"
        return cls(disk, path, load_offsets(disk, path))

    @classmethod
    def of_log_starts(cls, disk: Disk, folder: str) -> "OffsetsFile":
        """Open the file of the log starts. Raises `UnreadableCheckpointError`, `DiskError`: without the
        starts, deleted records would be back."""
        path = f"{folder}/{LOG_STARTS}"
        return cls(disk, path, load_offsets(disk, path))

    @classmethod
    def of_high_watermarks(cls, disk: Disk, folder: str) -> "OffsetsFile":
        """A file that can't be read counts as none: high watermarks are learned again from the replicas.
        Raises `UnreadableCheckpointError` for one that a newer quorate wrote, and `DiskError`."""
        return cls._if_readable(
            disk, f"{folder}/{HIGH_WATERMARKS}", "high watermarks are learned again from the replicas"
        )

    @classmethod
    def of_cleaned(cls, disk: Disk, folder: str) -> "OffsetsFile":
        """A file that can't be read counts as none: logs are compacted from their starts. Raises as
        `of_high_watermarks`."""
        return cls._if_readable(disk, f"{folder}/{CLEANED}", "logs are compacted from their starts")

    @classmethod
    def _if_readable(cls, disk: Disk, path: str, otherwise: str) -> "OffsetsFile":
        try:
            return cls(disk, path, load_offsets(disk, path))
        except UnreadableCheckpointError as error:
            if error.is_newer:
                raise
            log.warning(
                f"a checkpoint can't be read, and is written anew; {otherwise}",
                path=path,
                reason=error.problem,
            )
            return cls(disk, path, {}, sure=False)

    async def store(self, current: Callable[[], dict[TopicPartition, Offset]]) -> None:
        """Write the file durably, unless nothing changed. Raises `DiskError`."""
        async with self._lock:
            offsets = current()
            if self._sure and offsets == self.held:
                return
            # If the write fails, any of it may be there.
            self.held, self._sure = {**self.held, **offsets}, False
            await store_offsets(self._disk, self._path, offsets)
            self.held, self._sure = offsets, True


class LogDirectory:
    """One of `log.dirs`. It is mutable, and owned by the log manager."""

    def __init__(self, disk: Disk, directory: Directory, *, clean: bool, proof: Proof | None) -> None:
        """Read the four files. Raises `UnreadableCheckpointError`, `DiskError`."""
        path = directory.path
        self.path = path
        self.id = directory.id
        self.holds_metadata = directory.holds_metadata
        self.clean = clean
        """True if the shutdown before this start was orderly."""
        self.proof = proof
        """The life before whose data is all here: left in order, or killed on a host that has run on since;
        None if that isn't known."""
        self.points_file = OffsetsFile.of_recovery_points(disk, path)
        self.marks_file = OffsetsFile.of_high_watermarks(disk, path)
        self.starts_file = OffsetsFile.of_log_starts(disk, path)
        self.cleaned_file = OffsetsFile.of_cleaned(disk, path)
        self.recovery_points = dict(self.points_file.held)
        self.high_watermarks = dict(self.marks_file.held)
        self.log_starts = dict(self.starts_file.held)
        """The log starts that are in the middle of a segment. May have some that no longer are."""
        self.cleaned = dict(self.cleaned_file.held)
        """The ends (exclusive) of what is compacted. A log without an entry is compacted from its start."""
        self.identities: dict[TopicPartition, PartitionIdentity] = {}
        """The identities of the partition folders that exist."""
        self.namesakes: dict[TopicPartition, PartitionIdentity] = {}
        """The folders that are of another partition than the folder of the same name in another directory."""
        self.vanished: dict[TopicPartition, Offset] = {}
        """The high watermarks of the logs whose folder isn't here, and was never removed in order."""
        self.unbegun: set[TopicPartition] = set()
        """The partitions whose folder had no segment when it was scanned."""
        self.logs: dict[TopicPartition, Log] = {}
        self.futures: dict[TopicPartition, FutureFolder] = {}
        """Copies of replicas in other directories, which are to move here."""
        self.departed: dict[TopicPartition, Departed] = {}
        """The folders of replicas that were moved from here."""
        self.set_aside: list[SetAsideFolder] = []
        """The folders of damaged logs, which are no replicas any more."""
        self.expected = 0
        """Folders that are being made."""
        self.failure: str | None = None
        self.entries = FolderSync(disk, path)
        """Makes the partition folders that are in it durable."""
        self._cuts: dict[TopicPartition, Offset] = {}
        """The future ends of logs that are being cut."""

    @property
    def complete(self) -> bool:
        """Return whether no log was left in the middle of a cut."""
        return not self._cuts

    def forget(self, key: TopicPartition) -> None:
        """Forget a log whose folder is being removed."""
        self.logs.pop(key, None)
        self.identities.pop(key, None)
        self.namesakes.pop(key, None)
        self.recovery_points.pop(key, None)
        self.high_watermarks.pop(key, None)
        self.vanished.pop(key, None)
        self.log_starts.pop(key, None)
        self.cleaned.pop(key, None)
        self._cuts.pop(key, None)
        self.departed.pop(key, None)

    def note_namesake(self, key: TopicPartition) -> None:
        """Another directory's folder of that name counts."""
        if key in self.identities:
            self.namesakes[key] = self.identities.pop(key)

    def take_back(self, key: TopicPartition) -> None:
        """The folder that was set aside counts."""
        self.identities[key] = self.namesakes.pop(key)

    def take_place(self, key: TopicPartition) -> Log:
        """The future replica's log is the partition's from now on. Its folder has the partition's name."""
        future = self.futures.pop(key)
        opened = present(future.log, "the log of a future replica that takes its place")
        self.identities[key], self.logs[key] = future.identity, opened
        self.recovery_points[key] = opened.recovery_point
        self.high_watermarks[key] = opened.high_watermark
        return opened

    def depart(self, key: TopicPartition, moved: MovedTo) -> None:
        """The mark is in the replica's folder here."""
        self.departed[key] = Departed(self.identities[key], moved)

    async def forget_durably(self, key: TopicPartition) -> None:
        """Remove the log from all files before another partition of that name exists, which would otherwise
        inherit the entry. Raises `DiskError`."""
        if key in self.points_file.held:
            await self.store_recovery_points()
        if key in self.marks_file.held:
            await self.store_high_watermarks()
        if key in self.starts_file.held:
            await self.store_log_starts(())
        if key in self.cleaned_file.held:
            await self.store_cleaned()

    async def store_high_watermarks(self) -> None:
        """Write the high watermarks. Raises `DiskError`."""
        await self.marks_file.store(lambda: self._current(self.high_watermarks, attrgetter("high_watermark")))

    async def store_recovery_points(self) -> None:
        """Store the ends that the logs' last flushes made durable. Raises `DiskError`."""
        await self.points_file.store(
            lambda: self._current(self.recovery_points, attrgetter("recovery_point"))
        )

    def check_cleaned(self, key: TopicPartition, opened: Log) -> None:
        """Forget an end of what is compacted that the log doesn't reach: its tail was lost with the power."""
        cleaned = self.cleaned.get(key, Offset(0))
        if cleaned > opened.end_offset:
            log.warning(
                "a log ends below what its checkpoint says is compacted; it is compacted from its start",
                path=opened.folder,
                end_offset=opened.end_offset,
                cleaned=cleaned,
            )
            del self.cleaned[key]

    async def store_cleaned(self) -> None:
        """Write the ends of what is compacted. Raises `DiskError`."""
        await self.cleaned_file.store(
            lambda: {key: offset for key, offset in self.cleaned.items() if key in self.identities}
        )

    async def store_log_starts(self, keys: Iterable[TopicPartition]) -> None:
        """Make the present log starts of these partitions durable. Raises `DiskError`."""
        stored: dict[Log, Offset] = {}
        for key in keys:
            opened = self.logs.get(key)
            if opened is None and (future := self.futures.get(key)) is not None:
                opened = future.log
            if opened is None:
                continue
            stored[opened] = opened.log_start_offset
            if opened.log_start_offset > opened.first_base_offset:
                self.log_starts[key] = opened.log_start_offset
            else:
                self.log_starts.pop(key, None)
        await self.starts_file.store(lambda: dict(self.log_starts))
        for opened, offset in stored.items():
            # Unless the log begins anew, lower, since.
            if opened.durable_log_start_offset < offset <= opened.log_start_offset:
                opened.durable_log_start_offset = offset

    def _current(
        self, held: dict[TopicPartition, Offset], of_log: Callable[[Log], Offset]
    ) -> dict[TopicPartition, Offset]:
        held.update({key: of_log(opened) for key, opened in self.logs.items()})
        for key, end_offset in self._cuts.items():
            held[key] = min(held.get(key, end_offset), end_offset)
        return {key: offset for key, offset in held.items() if key in self.identities}

    @asynccontextmanager
    async def cutting(self, key: TopicPartition, end_offset: Offset) -> AsyncIterator[None]:
        """While a log is cut to `end_offset`, let no file claim that more of it is there, or compacted: a
        crash halfway must not look like damage. If the block fails or is cancelled, that stays so. A log that
        begins anew at a lower offset starts there, also after a crash. Raises `DiskError`."""
        self._cuts[key] = end_offset
        if self.cleaned.get(key, 0) > end_offset:
            self.cleaned[key] = end_offset
        if self.cleaned_file.held.get(key, 0) > end_offset:
            await self.store_cleaned()
        if self.points_file.held.get(key, 0) > end_offset:
            await self.store_recovery_points()
        if self.marks_file.held.get(key, 0) > end_offset:
            await self.store_high_watermarks()
        yield
        self._cuts.pop(key, None)
        opened = self.logs.get(key)
        if opened is not None and self.starts_file.held.get(key, 0) > opened.log_start_offset:
            await self.store_log_starts((key,))


class FutureProgress(NamedTuple):
    """A future replica, and the replica in another directory that it is a copy of, if that is open."""

    log: Log
    current: Log | None

    @property
    def offset_lag(self) -> int:
        """The records that it has yet to copy; -1: unknown."""
        return -1 if self.current is None else max(self.current.end_offset - self.log.end_offset, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectoryReport:
    """One directory. Without a `failure` it has `space`, `logs`, those that are open, as they go on, and
    `futures`."""

    path: str
    """Absolute."""
    failure: str | None = None
    space: DiskSpace | None = None
    logs: Mapping[TopicPartition, Log] = field(default_factory=dict)
    futures: Mapping[TopicPartition, FutureProgress] = field(default_factory=dict)


def report(
    disk: Disk,
    path: str,
    *,
    failure: str | None,
    logs: Mapping[TopicPartition, Log] | None = None,
    futures: Mapping[TopicPartition, FutureProgress] | None = None,
) -> DirectoryReport:
    """Describe a directory. One whose file system can't tell its space counts as failed."""
    absolute = os.path.abspath(path)
    if failure is None:
        try:
            return DirectoryReport(
                path=absolute, space=disk.space(path), logs=logs or {}, futures=futures or {}
            )
        except DiskError as error:
            failure = str(error)
    return DirectoryReport(path=absolute, failure=failure)
