"""The places that metadata is read from: a folder of a node, a snapshot file, a live cluster."""

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from quorate.cli.console import CommandError, ExitCode
from quorate.log import HIGH_WATERMARKS, DamagedSnapshotError
from quorate.log.snapshots import BOOTSTRAP, SnapshotReader, name_of, parse_name
from quorate.raft.storage import SkippedBatches, load_skipped
from quorate.runtime.real import SyncStrategy, open_read_only, real_runtime
from quorate.spark_source import FolderLog, LogUnavailableError
from quorate.types import SnapshotId

if TYPE_CHECKING:
    from quorate.log.batches import Batch

Warn = Callable[[str], None]

METADATA_FOLDER: Final = "__cluster_metadata-0"


class HistoryError(CommandError):
    """There is no such metadata here, or it can't be read. The message names the remedy."""

    def __init__(self, message: str, code: ExitCode = ExitCode.FAILED) -> None:
        super().__init__(message)
        self.code = code


@dataclass(frozen=True, slots=True, order=True)
class StoredSnapshot:
    """A snapshot that is there to be read."""

    snapshot: SnapshotId
    last_timestamp_ms: int
    """Of the last record that it holds."""

    @property
    def end_offset(self) -> int:
        return self.snapshot.end_offset


class MetadataHistory(Protocol):
    """The metadata log from some offset on, and snapshots in place of what is before."""

    @property
    def place(self) -> str:
        """Where it is, for messages."""
        ...

    def bounds(self) -> tuple[int, int]:
        """The offsets [start, end) that the log has and that are known to be committed."""
        ...

    def snapshots(self, warn: Warn) -> Sequence[StoredSnapshot]:
        """Ascending. `warn` gets those that are damaged."""
        ...

    def chunks(self, snapshot: SnapshotId) -> Iterator[bytes]:
        """The records in a snapshot. Raises `DamagedSnapshotError`."""
        ...

    def batches(self, start: int, end: int) -> "Iterator[Batch]":
        """Batches in order, from the one that holds `start` on, while they begin below `end`."""
        ...

    def skipped(self) -> SkippedBatches:
        """The batches that the node leaves out, because an operator said so."""
        ...


@dataclass(frozen=True, slots=True)
class FolderHistory:
    """A node's folder. The node may be running: its high watermark is read from the file that it writes now
    and then, and what is above is not looked at."""

    path: Path

    @property
    def place(self) -> str:
        return str(self.path)

    @property
    def _log(self) -> FolderLog:
        return FolderLog(path=str(self.path))

    @property
    def _folder(self) -> Path:
        inside = self.path / METADATA_FOLDER
        return inside if inside.is_dir() else self.path

    def bounds(self) -> tuple[int, int]:
        try:
            extent = self._log.extent()
        except LogUnavailableError as error:
            high_watermarks = self._folder / HIGH_WATERMARKS
            if high_watermarks.exists() or not any(self._folder.glob("0*.log")):
                raise HistoryError(str(error), ExitCode.STORAGE) from error
            raise HistoryError(
                f"{high_watermarks} is missing, so that it is not known which records are committed. The "
                "node writes it while it runs and when it stops. --snapshot reads a snapshot without it",
                ExitCode.STORAGE,
            ) from error
        ends = (each.end_offset for each in self._snapshots())
        # A snapshot holds what is committed, and the high watermark's file may be older than it.
        return extent.start_offset, max((extent.end_offset, *ends))

    def snapshots(self, warn: Warn) -> Sequence[StoredSnapshot]:
        stored = []
        for snapshot in self._snapshots():
            try:
                with self._open(snapshot) as reader:
                    stored.append(StoredSnapshot(snapshot, reader.contents.last_timestamp_ms))
            except DamagedSnapshotError as error:
                warn(str(error))
            except FileNotFoundError:
                continue  # The node has deleted it since.
        return stored

    def _snapshots(self) -> list[SnapshotId]:
        found = (parse_name(name) for name in os.listdir(self._folder))
        return sorted(each for each in found if each is not None and each != BOOTSTRAP)

    def chunks(self, snapshot: SnapshotId) -> Iterator[bytes]:
        with self._open(snapshot) as reader:
            yield from reader

    def _open(self, snapshot: SnapshotId) -> SnapshotReader:
        return SnapshotReader(open_read_only(str(self._folder / name_of(snapshot))), snapshot)

    def batches(self, start: int, end: int) -> "Iterator[Batch]":
        return self._log.batches(start, end)

    def skipped(self) -> SkippedBatches:
        return load_skipped(real_runtime(sync=SyncStrategy.INLINE).disk, str(self._folder))


@dataclass(frozen=True, slots=True)
class FileHistory:
    """One snapshot file, wherever it was copied to."""

    path: Path

    @property
    def place(self) -> str:
        return str(self.path)

    @property
    def _snapshot(self) -> SnapshotId:
        snapshot = parse_name(self.path.name)
        if snapshot is None:
            raise HistoryError(
                f"{self.path} is no snapshot; give a file named END-EPOCH.checkpoint, such as "
                f"{1024:020}-{3:010}.checkpoint",
                ExitCode.USAGE,
            )
        return snapshot

    def bounds(self) -> tuple[int, int]:
        return self._snapshot.end_offset, self._snapshot.end_offset

    def snapshots(self, warn: Warn) -> Sequence[StoredSnapshot]:
        with SnapshotReader(open_read_only(str(self.path)), self._snapshot) as reader:
            return [StoredSnapshot(self._snapshot, reader.contents.last_timestamp_ms)]

    def chunks(self, snapshot: SnapshotId) -> Iterator[bytes]:
        with SnapshotReader(open_read_only(str(self.path)), snapshot) as reader:
            yield from reader

    def batches(self, start: int, end: int) -> "Iterator[Batch]":
        return iter(())

    def skipped(self) -> SkippedBatches:
        return SkippedBatches()
