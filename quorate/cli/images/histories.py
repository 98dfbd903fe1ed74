"""The places that metadata is read from: a folder of a node, a snapshot file, a live cluster."""

import os
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

import trio

from quorate.broker.admin.controllers import Controllers
from quorate.broker.admin.quorum import controllers_of
from quorate.cli.console.cli_errors import CommandError, ExitCode
from quorate.cli.console.connections import ask_cluster
from quorate.error_code import ErrorCode
from quorate.log import HIGH_WATERMARKS, DamagedSnapshotError
from quorate.log.snapshots.snapshot_file import BOOTSTRAP, SnapshotReader, name_of, parse_name
from quorate.quorum_state import SkippedBatches, load_skipped
from quorate.raft import OutcomeUnknownError, RequestRefusedError
from quorate.raft.storage.storage import LOG_FOLDER
from quorate.runtime import Address, NetworkError
from quorate.runtime.real import RealNetwork, SyncStrategy, open_read_only, real_runtime
from quorate.spark_source import ClusterLog, FolderLog, LogUnavailableError
from quorate.types import SnapshotId

if TYPE_CHECKING:
    from quorate.log.batches.batch import Batch

Warn = Callable[[str], None]

_TIMEOUT_MS: Final = 10_000
"""The time that a live cluster has for each answer."""


class HistoryError(CommandError):
    """There is no such metadata here, or it can't be read. The message names the remedy."""


def snapshot_of(file: Path) -> SnapshotId:
    """Return the snapshot that a file's name says it holds. Raises `HistoryError` if it says none."""
    snapshot = parse_name(file.name)
    if snapshot is None:
        raise HistoryError(
            f"{file} is no snapshot; give a file named END-EPOCH.checkpoint, such as "
            f"{1024:020}-{3:010}.checkpoint",
            ExitCode.USAGE,
        )
    return snapshot


@dataclass(frozen=True, slots=True, order=True)
class StoredSnapshot:
    """A snapshot that can be read."""

    snapshot: SnapshotId
    last_timestamp_ms: int
    """The time of its last record."""

    @property
    def end_offset(self) -> int:
        return self.snapshot.end_offset


class MetadataHistory(ABC):
    """The metadata log from some offset on, and snapshots in place of the records before that."""

    @property
    @abstractmethod
    def place(self) -> str:
        """The place of the history, for messages."""

    @abstractmethod
    def bounds(self) -> tuple[int, int]:
        """Return the offsets [start, end) that the log has and that are known to be committed."""

    @abstractmethod
    def snapshots(self, warn: Warn) -> Sequence[StoredSnapshot]:
        """Return the snapshots, ascending. `warn` gets those that are damaged."""

    @abstractmethod
    def chunks(self, snapshot: SnapshotId) -> Iterator[bytes]:
        """Yield the records in a snapshot. Raises `DamagedSnapshotError`."""

    def batches(self, start: int, end: int) -> "Iterator[Batch]":
        """Yield batches in order, from the one that holds `start` on, while they begin below `end`."""
        return iter(())

    def skipped(self) -> SkippedBatches:
        """Return the batches that the node leaves out, because an operator said so."""
        return SkippedBatches()


@dataclass(frozen=True, slots=True)
class FolderHistory(MetadataHistory):
    """A node's folder. The node may be running: its high watermark is read from the file that it writes now
    and then, and records above it are not read."""

    path: Path

    @property
    def place(self) -> str:
        return str(self.path)

    @property
    def _log(self) -> FolderLog:
        return FolderLog(path=str(self.path))

    @property
    def _folder(self) -> Path:
        inside = self.path / LOG_FOLDER
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
class FileHistory(MetadataHistory):
    """One snapshot file, in any folder."""

    path: Path

    @property
    def place(self) -> str:
        return str(self.path)

    @property
    def _snapshot(self) -> SnapshotId:
        return snapshot_of(self.path)

    def bounds(self) -> tuple[int, int]:
        return self._snapshot.end_offset, self._snapshot.end_offset

    def snapshots(self, warn: Warn) -> Sequence[StoredSnapshot]:
        with SnapshotReader(open_read_only(str(self.path)), self._snapshot) as reader:
            return [StoredSnapshot(self._snapshot, reader.contents.last_timestamp_ms)]

    def chunks(self, snapshot: SnapshotId) -> Iterator[bytes]:
        with SnapshotReader(open_read_only(str(self.path)), snapshot) as reader:
            yield from reader


@dataclass(slots=True)
class ClusterHistory(MetadataHistory):
    """A live cluster: the log that a broker serves to any consumer, and the snapshots of all controllers that
    answer. The reader is no replica of the quorum, which never waits for it. `skipped` is empty: no node is
    asked for its own, and a batch that the image can't take is an error."""

    servers: tuple[Address, ...]
    """The listeners of brokers, or with `controllers` those of controllers."""
    controllers: bool = False
    _start: int = 0
    _holders: dict[SnapshotId, list[Address]] = field(default_factory=dict)

    @property
    def place(self) -> str:
        return f"the cluster at {','.join(map(str, self.servers))}"

    @property
    def _log(self) -> ClusterLog:
        return ClusterLog(
            bootstrap_servers=self.servers,
            retries=2,
            retry_interval_ms=200,
            request_timeout_ms=_TIMEOUT_MS,
            controllers=self.controllers,
        )

    def bounds(self) -> tuple[int, int]:
        extent = self._log.extent()
        self._start = extent.start_offset
        return extent.start_offset, extent.end_offset

    def snapshots(self, warn: Warn) -> Sequence[StoredSnapshot]:
        try:
            addresses = list(self.servers)
            if not self.controllers:
                addresses = ask_cluster(",".join(map(str, self.servers)), controllers_of)
            controllers = Controllers(RealNetwork(), addresses, timeout_ms=_TIMEOUT_MS)
            listed = trio.run(controllers.list_snapshots)
        except (NetworkError, OutcomeUnknownError):
            if self._start:
                raise
            # The log has it all, only slower.
            return ()
        self._holders.clear()
        found = {}
        for address, snapshots in listed.items():
            for each in snapshots:
                self._holders.setdefault(each.snapshot, []).append(address)
                found[each.snapshot] = StoredSnapshot(each.snapshot, each.last_timestamp_ms)
        return sorted(found.values())

    def chunks(self, snapshot: SnapshotId) -> Iterator[bytes]:
        with tempfile.TemporaryDirectory(prefix="quorate-snapshot-") as folder:
            file = Path(folder) / name_of(snapshot)
            self._download(snapshot, file)
            with SnapshotReader(open_read_only(str(file)), snapshot) as reader:
                yield from reader

    def _download(self, snapshot: SnapshotId, file: Path) -> None:
        problems: list[str] = []
        for address in self._holders.get(snapshot, ()):
            controllers = Controllers(RealNetwork(), [address], timeout_ms=_TIMEOUT_MS)
            try:
                with file.open("wb") as opened:
                    trio.run(controllers.read_snapshot, address, snapshot, opened.write)
            except RequestRefusedError as error:
                if error.code is not ErrorCode.SNAPSHOT_NOT_FOUND:
                    raise
                problems.append(f"{address} has deleted it")
            except (NetworkError, OutcomeUnknownError) as error:
                problems.append(str(error))
            else:
                return
        raise HistoryError(
            f"the snapshot at {snapshot.end_offset} can't be read: {'; '.join(problems)}. Try again",
            ExitCode.UNAVAILABLE,
        )

    def batches(self, start: int, end: int) -> "Iterator[Batch]":
        return self._log.batches(start, end)
