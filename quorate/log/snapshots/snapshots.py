"""The snapshots of a metadata log (KIP-630): written, received, read, deleted.

They lie beside the segments, named by what they hold: `<end offset>-<epoch>.checkpoint`. A name is given only
to a file that is whole and on the device. The bootstrap snapshot, 0-0, holds the first voters and nothing
else; it is never `latest`.
"""

from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass

from quorate.log.log_errors import DamagedSnapshotError, PositionOutOfRangeError, SnapshotMissingError
from quorate.log.snapshots.snapshot_file import BOOTSTRAP, SnapshotContents, SnapshotReader, name_of
from quorate.log.snapshots.snapshot_survey import DELETED_SUFFIX, set_aside, survey, verify
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
    """The snapshots of one folder. One task at a time owns it. An awaited call may overlap with every other
    one, but not with itself."""

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
        """Remove the leftovers of a crash, and check the newest snapshot as a whole.

        Damaged ones above it are in `damaged`. `open_metadata_log` finds out whether the log has their
        records. Raises `DamagedSnapshotError` for the bootstrap snapshot; `DiskError`.
        """
        found = await survey(disk, folder)
        return cls(disk, folder, found.whole, found.damaged)

    @property
    def folder(self) -> str:
        return self._folder

    @property
    def ids(self) -> tuple[SnapshotId, ...]:
        """The complete and durable snapshots in ascending order, without the bootstrap's."""
        return tuple(sorted(snapshot for snapshot in self._contents if snapshot != BOOTSTRAP))

    @property
    def latest(self) -> SnapshotId | None:
        """The last of the `ids`."""
        return max(self.ids, default=None)

    @property
    def damaged(self) -> tuple[DamagedSnapshotError, ...]:
        """The damaged snapshots above `latest` that `open` found, in ascending order."""
        return self._damaged

    @property
    def voters(self) -> VotersAt | None:
        """The voters in the latest snapshot, or else in the bootstrap's. None: it has none."""
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
        self,
        snapshot: SnapshotId,
        *,
        last_timestamp_ms: int,
        voters: VoterSet | None,
        leader_change: bytes | None = None,
        form: str | None = None,
        state_version: int = 0,
    ) -> SnapshotWriter:
        """Begin a snapshot (see `SnapshotContents`). `form`: that of the state's digest. None: there will be
        none. It must end at the end of a batch, at or below the high
        watermark and the durable end. Raises `ValueError` at offset 0, where there is no state (nats-server
        3844); `DiskError`."""
        if snapshot.end_offset <= 0:
            raise ValueError(f"a snapshot of nothing: {snapshot}")
        return self._writer(snapshot, last_timestamp_ms, voters, leader_change, form, state_version)

    async def write_bootstrap(self, voters: VoterSet) -> None:
        """Write the first voters of a new cluster. They are durable when this returns. Raises `DiskError`."""
        writer = self._writer(BOOTSTRAP, 0, voters, None, None, 0)
        try:
            await writer.freeze()
        finally:
            writer.abandon()

    def _writer(
        self,
        snapshot: SnapshotId,
        timestamp_ms: int,
        voters: VoterSet | None,
        leader_change: bytes | None,
        form: str | None,
        state_version: int,
    ) -> SnapshotWriter:
        return SnapshotWriter(
            self._disk,
            self._folder,
            snapshot,
            last_timestamp_ms=timestamp_ms,
            leader_change=leader_change,
            voters=voters,
            form=form,
            state_version=state_version,
            frozen=self._add,
        )

    def _add(self, contents: SnapshotContents) -> None:
        self._contents[contents.snapshot] = contents

    # Receiving one

    def part_position(self, snapshot: SnapshotId) -> int:
        """Return the number of bytes received of the snapshot. 0: it is not being fetched."""
        part = self._part
        return part.file.size if part is not None and part.snapshot == snapshot else 0

    def write_part(self, snapshot: SnapshotId, position: int, data: Buffer) -> None:
        """Write the next bytes. At position 0 the fetch begins again, and any other part is dropped.

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
        """Drop the received part."""
        part, self._part = self._part, None
        if part is not None:
            self._discard(part)

    async def complete_part(self, snapshot: SnapshotId) -> SnapshotContents:
        """Check the received bytes, and make the snapshot one of the `ids`. It is durable when this returns.

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
        """Return bytes from `position` on, for a FetchSnapshot, and the size of the whole. They are
        unchecked: the receiver checks the whole. Raises `SnapshotMissingError`, also for the bootstrap's and
        a deleted one, `PositionOutOfRangeError`, `DiskError`."""
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
        """Return the snapshots that end below the log start, in ascending order. They are not needed. The
        bootstrap's is one of them as soon as there is another."""
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
        """Rename the `damaged` snapshots, because the log has all their records. They keep their bytes."""
        if self._damaged:
            set_aside(self._disk, self._damaged)
            self._damaged = ()
            await self._disk.sync_folder(self._folder)

    def close(self) -> None:
        """Drop the part that is being received."""
        self.drop_part()
