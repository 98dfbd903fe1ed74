"""The snapshots of a metadata log (KIP-630): written, received, read, deleted.

They lie beside the segments, named by what they hold: `<end offset>-<epoch>.checkpoint`. A name is given only
to a file that is whole and on the device. The bootstrap snapshot, 0-0, holds the first voters and nothing
else; it is never `latest`.
"""

from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass

from quorate.log.log_errors import DamagedSnapshotError, PositionOutOfRangeError, SnapshotMissingError
from quorate.log.snapshots.snapshot_file import SnapshotContents, SnapshotReader, name_of, verify
from quorate.log.snapshots.snapshot_survey import BOOTSTRAP, DELETED_SUFFIX, set_aside, survey
from quorate.log.snapshots.snapshot_writer import PART_SUFFIX, SnapshotWriter
from quorate.runtime import Buffer, Disk, DiskError, File, get_logger
from quorate.types import Offset, SnapshotId, VotersAt, VoterSet

log = get_logger(__name__)

_FETCHED = ".fetched"


@dataclass(slots=True)
class _SnapshotPart:
    """A snapshot that is being fetched."""

    snapshot: SnapshotId
    path: str
    file: File


class SnapshotStore:
    """One folder's. Owned by one task at a time; what is awaited may overlap with anything but itself."""

    def __init__(
        self,
        disk: Disk,
        folder: str,
        whole: Iterable[SnapshotContents],
        damaged: Iterable[DamagedSnapshotError],
    ) -> None:
        """See `open`."""
        self._disk = disk
        self._folder = folder
        self._contents = {contents.snapshot: contents for contents in whole}
        self._damaged = tuple(damaged)
        self._part: _SnapshotPart | None = None

    @classmethod
    async def open(cls, disk: Disk, folder: str) -> "SnapshotStore":
        """Clean up what a crash left, and check the newest snapshot as a whole.

        A newer one that is damaged is in `damaged`: whether the log can do without it is seen when the log is
        opened (`open_metadata_log`). Raises `DamagedSnapshotError` for the bootstrap snapshot; `DiskError`.
        """
        found = await survey(disk, folder)
        return cls(disk, folder, found.whole, found.damaged)

    @property
    def folder(self) -> str:
        return self._folder

    @property
    def ids(self) -> tuple[SnapshotId, ...]:
        """Complete and durable, ascending. Not the bootstrap's."""
        return tuple(sorted(snapshot for snapshot in self._contents if snapshot != BOOTSTRAP))

    @property
    def latest(self) -> SnapshotId | None:
        """The last of the `ids`."""
        return max(self.ids, default=None)

    @property
    def damaged(self) -> tuple[DamagedSnapshotError, ...]:
        """Found by `open`, newer than `latest`; ascending."""
        return self._damaged

    @property
    def voters(self) -> VotersAt | None:
        """Those in the latest snapshot, or else in the bootstrap's; None if it has none."""
        latest = self.latest or BOOTSTRAP
        contents = self._contents.get(latest)
        if contents is None or contents.voters is None:
            return None
        return VotersAt(Offset(latest.end_offset - 1), contents.voters)

    def contents(self, snapshot: SnapshotId) -> SnapshotContents:
        """Return the contents of a snapshot. Raises `SnapshotMissingError`."""
        contents = self._contents.get(snapshot)
        if contents is None:
            raise SnapshotMissingError(snapshot)
        return contents

    # Taking one

    def write(
        self, snapshot: SnapshotId, *, last_timestamp_ms: int, voters: VoterSet | None
    ) -> SnapshotWriter:
        """Begin one. Its end must be the end of a batch, at or below the high watermark and the durable end.
        Raises `ValueError` at offset 0, where there is no state (nats-server 3844); `DiskError`."""
        if snapshot.end_offset <= 0:
            raise ValueError(f"a snapshot of nothing: {snapshot}")
        return self._writer(snapshot, last_timestamp_ms, voters)

    async def write_bootstrap(self, voters: VoterSet) -> None:
        """The voters that a new cluster begins with. Durable when it returns. Raises `DiskError`."""
        writer = self._writer(BOOTSTRAP, 0, voters)
        try:
            await writer.freeze()
        finally:
            writer.abandon()

    def _writer(self, snapshot: SnapshotId, timestamp_ms: int, voters: VoterSet | None) -> SnapshotWriter:
        return SnapshotWriter(
            self._disk,
            self._folder,
            snapshot,
            last_timestamp_ms=timestamp_ms,
            voters=voters,
            frozen=self._add,
        )

    def _add(self, contents: SnapshotContents) -> None:
        self._contents[contents.snapshot] = contents

    # Receiving one

    def part_position(self, snapshot: SnapshotId) -> int:
        """Bytes that were received of it; 0 if it is not the one being fetched."""
        part = self._part
        return part.file.size if part is not None and part.snapshot == snapshot else 0

    def write_part(self, snapshot: SnapshotId, position: int, data: Buffer) -> None:
        """The next bytes. At position 0 it begins anew, and any other part is dropped.

        Raises `PositionOutOfRangeError` if `position` is not `part_position`; `DiskError`, and the
        part is then dropped.
        """
        try:
            if position == 0:
                self.drop_part()
                self._begin_part(snapshot)
            part = self._part
            if part is None or part.snapshot != snapshot or part.file.size != position:
                raise PositionOutOfRangeError(snapshot, position, size=self.part_position(snapshot))
            part.file.append([data])
        except DiskError:
            self.drop_part()
            raise

    def _begin_part(self, snapshot: SnapshotId) -> None:
        path = f"{self._folder}/{name_of(snapshot)}{_FETCHED}{PART_SUFFIX}"
        if self._disk.exists(path):
            self._disk.remove(path)
        self._part = _SnapshotPart(snapshot, path, self._disk.open(path, create=True))

    def drop_part(self) -> None:
        """Forget what was received."""
        part, self._part = self._part, None
        if part is not None:
            self._discard(part)

    async def complete_part(self, snapshot: SnapshotId) -> SnapshotContents:
        """All bytes are there: check them, and make it one of the `ids`, durable when this returns.

        Raises `DamagedSnapshotError`, `SnapshotMissingError`, `DiskError`. Then, and if cancelled, the part
        is gone, or the snapshot is whole and has its name.
        """
        part = self._part
        if part is None or part.snapshot != snapshot:
            raise SnapshotMissingError(snapshot)
        self._part = None
        try:
            await part.file.sync()
            contents = await verify(part.file, snapshot)
            part.file.close()
            self._disk.rename(part.path, f"{self._folder}/{name_of(snapshot)}")
        except BaseException:
            self._discard(part)
            raise
        await self._disk.sync_folder(self._folder)
        self._add(contents)
        return contents

    def _discard(self, part: _SnapshotPart) -> None:
        part.file.close()
        try:
            self._disk.remove(part.path)
        except OSError as error:
            # The next start does it.
            log.warning("a part of a snapshot could not be removed", path=part.path, problem=str(error))

    # Reading one

    async def read_chunk(self, snapshot: SnapshotId, position: int, max_bytes: int) -> tuple[bytes, int]:
        """Bytes from `position` on, for a FetchSnapshot, and the size of the whole. As they are: whoever
        receives the last of them checks. Raises `SnapshotMissingError`, also for the bootstrap's and one that
        was deleted; `PositionOutOfRangeError`; `DiskError`."""
        if snapshot == BOOTSTRAP:
            raise SnapshotMissingError(snapshot)
        size = self.contents(snapshot).size_bytes
        if not 0 <= position < size:
            raise PositionOutOfRangeError(snapshot, position, size=size)
        with closing(self._open(snapshot)) as file:
            return await file.read(position, min(max_bytes, size - position)), size

    def reader(self, snapshot: SnapshotId) -> SnapshotReader:
        """Open a snapshot to load it. It stays readable if the snapshot is deleted meanwhile. Raises
        `SnapshotMissingError`, `DamagedSnapshotError`, `DiskError`."""
        self.contents(snapshot)
        return SnapshotReader(self._open(snapshot), snapshot)

    def _open(self, snapshot: SnapshotId) -> File:
        try:
            return self._disk.open(f"{self._folder}/{name_of(snapshot)}")
        except FileNotFoundError:
            raise SnapshotMissingError(snapshot) from None

    # Deleting

    def below(self, log_start_offset: int) -> tuple[SnapshotId, ...]:
        """Those that end below the log start, ascending: nobody needs them. The bootstrap's is one of them as
        soon as there is another."""
        latest = self.latest
        if latest is None:
            return ()
        return tuple(
            snapshot
            for snapshot in sorted(self._contents)
            if snapshot == BOOTSTRAP or (snapshot.end_offset < log_start_offset and snapshot != latest)
        )

    async def delete(self, snapshots: Iterable[SnapshotId]) -> None:
        """Delete snapshots; missing ones are ignored. Raises `ValueError` for the latest, without which
        the log may have no start, or for the bootstrap's if it is the only one. After a `DiskError` the
        next start deletes the rest."""
        doomed = [snapshot for snapshot in snapshots if snapshot in self._contents]
        needed = self.latest or BOOTSTRAP
        if needed in doomed:
            raise ValueError(f"{needed} is the latest snapshot and must stay")
        if not doomed:
            return
        paths: list[str] = []
        for snapshot in doomed:
            del self._contents[snapshot]
            path = f"{self._folder}/{name_of(snapshot)}"
            if self._disk.exists(path):
                self._disk.rename(path, path + DELETED_SUFFIX)
                paths.append(path)
        await self._disk.sync_folder(self._folder)
        for path in paths:
            log.info("deleted a snapshot", path=path)
            self._disk.remove(path + DELETED_SUFFIX)

    async def set_damaged_aside(self) -> None:
        """The log holds all that the `damaged` ones did: they keep their bytes, but not their names."""
        if self._damaged:
            set_aside(self._disk, self._damaged)
            self._damaged = ()
            await self._disk.sync_folder(self._folder)

    def close(self) -> None:
        """Drops what is being received."""
        self.drop_part()
