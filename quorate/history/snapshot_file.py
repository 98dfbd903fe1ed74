"""One snapshot file as a history, and the reading of snapshot files for the others."""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass

from quorate.history.history_errors import SnapshotNameError, UnreadableFilesError
from quorate.history.metadata_history import Extent, MetadataHistory, StoredSnapshot
from quorate.history.slabs import Slab
from quorate.log.snapshots.snapshot_file import SnapshotReader, parse_name
from quorate.quorum_state import SkippedBatches
from quorate.runtime import DiskError
from quorate.runtime.real import open_read_only
from quorate.types import SnapshotId


def snapshot_of(path: str) -> SnapshotId:
    """Return the snapshot that a file's name says it holds. Raises `SnapshotNameError` if it says none."""
    snapshot = parse_name(os.path.basename(path))
    if snapshot is None:
        raise SnapshotNameError(
            f"{path} is no snapshot; give a file named END-EPOCH.checkpoint, such as "
            f"{1024:020}-{3:010}.checkpoint"
        )
    return snapshot


def read_stored(path: str, snapshot: SnapshotId) -> StoredSnapshot | None:
    """Read the head of a snapshot's file; None if there is no such file. Raises `DamagedSnapshotError`,
    `UnreadableFilesError`."""
    try:
        with SnapshotReader(open_read_only(path), snapshot) as reader:
            return StoredSnapshot(snapshot, reader.contents.last_timestamp_ms)
    except FileNotFoundError:
        return None
    except DiskError as error:
        raise UnreadableFilesError(str(error)) from error


@contextmanager
def opened_file(path: str, snapshot: SnapshotId) -> Iterator[SnapshotReader]:
    """Open a snapshot's file for a block. Raises `DamagedSnapshotError`, `UnreadableFilesError`, in the block
    too."""
    try:
        with SnapshotReader(open_read_only(path), snapshot) as reader:
            yield reader
    except FileNotFoundError as error:
        raise _gone(path) from error
    except DiskError as error:
        raise UnreadableFilesError(str(error)) from error


def _gone(path: str) -> UnreadableFilesError:
    return UnreadableFilesError(f"{path} is gone; a newer snapshot may have its place, so try again")


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotFile(MetadataHistory):
    """A `MetadataHistory` of one snapshot file, in any folder. It has no log."""

    path: str

    @property
    def place(self) -> str:
        """Return the path of the file, for messages."""
        return self.path

    def extent(self, *, at_least: int = 0) -> Extent:
        """Return the empty extent at the end of the snapshot. Raises `SnapshotNameError`."""
        end = snapshot_of(self.path).end_offset
        return Extent(cluster="", start_offset=end, end_offset=end)

    def slabs(self, start: int, end: int) -> Iterator[Slab]:
        """Yield nothing: the file has no log."""
        return iter(())

    def snapshots(self, warn: Callable[[str], None]) -> Sequence[StoredSnapshot]:
        """Return the one snapshot. Raises `DamagedSnapshotError`: there is no other."""
        stored = read_stored(self.path, snapshot_of(self.path))
        if stored is None:
            raise _gone(self.path)
        return (stored,)

    def opened(self, snapshot: SnapshotId) -> AbstractContextManager[SnapshotReader]:
        """Open the snapshot. See `MetadataHistory.opened`."""
        return opened_file(self.path, snapshot)

    def skipped(self) -> SkippedBatches:
        """Return none: a snapshot is without the batches that its node left out."""
        return SkippedBatches()
