"""A snapshot in the making: a `.part` file that gets its name when all of it is on the device."""

import hashlib
from collections.abc import Callable
from typing import Final, TypedDict

from quorate.log.batches.control import snapshot_footer_batch, snapshot_header_batch, voters_batch
from quorate.log.batches.records import build_batch
from quorate.log.snapshots.snapshot_file import MAX_CHUNK_BYTES, SnapshotContents, name_of
from quorate.runtime import Disk, DiskError, File
from quorate.types import SnapshotId, StateDigest, VoterSet

PART_SUFFIX = ".part"
_BATCH_BYTES = 1024 * 1024
_BATCH_RECORDS = 1024
"""A batch is built, and later read, in one piece: small chunks must not add up to many milliseconds."""
_SYNC_BYTES = 8 * 1024 * 1024
_DIGEST_BYTES: Final = 16
"""Enough that no two states of a cluster ever have one digest by chance."""


class _Place(TypedDict):
    base_offset: int
    epoch: int
    timestamp_ms: int


class SnapshotWriter:
    """A snapshot under way, from `SnapshotStore.write`. End it with `freeze` or `abandon`."""

    def __init__(
        self,
        disk: Disk,
        folder: str,
        snapshot: SnapshotId,
        *,
        last_timestamp_ms: int,
        leader_change: bytes | None,
        voters: VoterSet | None,
        form: str | None,
        state_version: int,
        frozen: Callable[[SnapshotContents], None],
    ) -> None:
        """`form`: that of the state's digest. None: no digest is made. `frozen`: called when the snapshot is
        complete and durable. Raises `DiskError`."""
        self._disk = disk
        self._folder = folder
        self.snapshot = snapshot
        self._last_timestamp_ms = last_timestamp_ms
        self._leader_change = leader_change
        self._voters = voters
        self._form = form
        self._state_version = state_version
        self._digest = hashlib.blake2b(digest_size=_DIGEST_BYTES)
        self._frozen = frozen
        self._path = f"{folder}/{name_of(snapshot)}"
        self._chunks: list[bytes] = []
        self._buffered_bytes = 0
        self._unsynced_bytes = 0
        self._next_offset = 0
        self._open = True
        if disk.exists(self._path + PART_SUFFIX):
            disk.remove(self._path + PART_SUFFIX)
        self._file: File = disk.open(self._path + PART_SUFFIX, create=True)
        header = snapshot_header_batch(
            **self._next_place(), leader_change=leader_change, state_version=state_version
        )
        self._append(header, records=1 if leader_change is None else 2)
        if voters is not None:
            self._append(voters_batch(**self._next_place(), voters=voters, first=True), records=2)

    @property
    def size_bytes(self) -> int:
        """The size of the written and buffered bytes."""
        return self._file.size + self._buffered_bytes

    def append(self, chunk: bytes) -> None:
        """Append a chunk of the state. Its reader gets the same chunk. Raises `ValueError` for more than 8
        MiB (`MAX_CHUNK_BYTES`), `DiskError`."""
        self._check_open()
        if len(chunk) > MAX_CHUNK_BYTES:
            raise ValueError(
                f"a chunk of {len(chunk)} bytes; give the state in chunks of at most {MAX_CHUNK_BYTES}"
            )
        if self._chunks and self._buffered_bytes + len(chunk) > _BATCH_BYTES:
            self._flush()
        if self._form is not None:
            self._digest.update(chunk)
        self._chunks.append(chunk)
        self._buffered_bytes += len(chunk)
        if self._buffered_bytes >= _BATCH_BYTES or len(self._chunks) >= _BATCH_RECORDS:
            self._flush()

    async def keep_up(self) -> None:
        """Sync the written bytes, if they are 8 MiB or more, between slices of a large snapshot. So `freeze`
        has little left to sync. No checkpoint if there is nothing to do. Raises `DiskError`."""
        self._check_open()
        if self._unsynced_bytes >= _SYNC_BYTES:
            self._unsynced_bytes = 0
            await self._sync()

    async def freeze(self) -> SnapshotContents:
        """Complete the snapshot. It has its name, and is durable, when this returns. Raises `DiskError`.
        After that, or if cancelled, it may have its name, and is whole if so."""
        self._check_open()
        if self._chunks:
            self._flush()
        state = None if self._form is None else StateDigest(self._form, self._digest.hexdigest())
        self._append(snapshot_footer_batch(**self._next_place(), state=state), records=1)
        contents = SnapshotContents(
            snapshot=self.snapshot,
            size_bytes=self._file.size,
            last_timestamp_ms=self._last_timestamp_ms,
            leader_change=self._leader_change,
            voters=self._voters,
            state_version=self._state_version,
            state=state,
        )
        # Never named before it is on the device (KAFKA-15312).
        await self._sync()
        self._close()
        self._disk.rename(self._path + PART_SUFFIX, self._path)
        await self._disk.sync_folder(self._folder)
        self._frozen(contents)
        return contents

    def abandon(self) -> None:
        """Remove the written file, unless it has its name already. Idempotent."""
        self._close()
        try:
            if self._disk.exists(self._path + PART_SUFFIX):
                self._disk.remove(self._path + PART_SUFFIX)
        except DiskError:
            pass  # The next start removes it.

    def _next_place(self) -> _Place:
        return {
            "base_offset": self._next_offset,
            "epoch": self.snapshot.epoch,
            "timestamp_ms": self._last_timestamp_ms,
        }

    def _flush(self) -> None:
        batch = build_batch(**self._next_place(), values=self._chunks)
        count, self._chunks, self._buffered_bytes = len(self._chunks), [], 0
        self._append(batch, records=count)

    def _append(self, batch: bytes, *, records: int) -> None:
        try:
            self._file.append([batch])
        except DiskError:
            self._close()
            raise
        self._next_offset += records
        self._unsynced_bytes += len(batch)

    async def _sync(self) -> None:
        try:
            await self._file.sync()
        except DiskError:
            self._close()
            raise

    def _close(self) -> None:
        self._open = False
        self._file.close()

    def _check_open(self) -> None:
        if not self._open:
            raise DiskError("the snapshot was frozen, was abandoned, or failed", path=self._path)
