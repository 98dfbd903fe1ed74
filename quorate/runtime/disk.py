"""The disk as quorate sees it: append-only files, durable only after a sync.

Writes go to the operating system's cache and return at once; `sync` is what waits for the device.
So everything that must be ordered with its caller (append, truncate, rename) is a plain call, and only
what may take milliseconds (sync, cold reads) is awaited. Operations on one file take effect in the order
in which they were called.

Two implementations: `quorate.runtime.real.disk.RealDisk` and `quorate.simulation.world.disk.SimulatedDisk`.
"""

from collections.abc import Sequence
from typing import Protocol

Buffer = bytes | bytearray | memoryview


class DiskError(OSError):
    """The disk refused or failed an operation. `path` names the file; nothing is known about what a
    failed write or sync left behind, so the file must not be written again before it was reopened and
    recovered."""

    def __init__(self, message: str, *, path: str) -> None:
        super().__init__(f"{path}: {message}")
        self.path = path


class DiskFullError(DiskError):
    """No space is left for the write."""


class DescriptorsExhaustedError(DiskError):
    """The process may open no more files. Nothing was done, and nothing is wrong with the disk: the same
    operation succeeds once others have closed theirs, or the limit is raised."""


class DiskLockedError(DiskError):
    """Another process holds the lock on this folder."""


class File(Protocol):
    """One open file. Positions and sizes are bytes."""

    @property
    def path(self) -> str: ...

    @property
    def size(self) -> int:
        """Bytes in the file, unsynced ones included and what this handle reserved not."""
        ...

    def reserve(self, size_bytes: int) -> None:
        """Make room up to that size, so that an append below it does not change the size that the device
        keeps (a sync of which costs a commit of the file system's journal).

        A hint: does nothing where the device has no room or can't. `size` stays as it is, but whoever opens
        the file later, or reads it through another handle, finds zeros from there to the end. `truncate`
        to `size` gives the room back. Raises `DiskError` only if the device is broken.
        """
        ...

    def append(self, buffers: Sequence[Buffer]) -> int:
        """Write all buffers at the end with one vectored write; return the position of the first byte.

        Not durable before `sync`. Either all of it is in the file or `DiskError` is raised.
        """
        ...

    def write_at(self, position: int, data: Buffer) -> None:
        """Overwrite bytes in place (recovery rewrites what it can't know to be durable)."""
        ...

    def read_at(self, position: int, size: int) -> bytes:
        """Up to `size` bytes; fewer only at the end of the file. May wait for the device: hot paths
        use `read`."""
        ...

    async def read(self, position: int, size: int) -> bytes:
        """As `read_at`, but what is not in the cache is fetched without holding up the event loop."""
        ...

    async def sync(self) -> None:
        """Return when every byte that was in the file at the call is durable.

        A `DiskError` is final for this file: what it covered may be lost even if a later sync succeeds.
        If cancelled, the sync may or may not have happened.
        """
        ...

    def sync_at_once(self) -> bool:
        """As `sync`, here and now, if that is how this disk syncs (`SyncStrategy.INLINE`); False otherwise,
        and nothing happened."""
        ...

    def truncate(self, size: int) -> None:
        """Cut the file to `size` bytes. Durable after the next `sync`."""
        ...

    def close(self) -> None:
        """Idempotent. Reads and syncs under way finish first."""
        ...


class Disk(Protocol):
    """The folders and files of one device. Paths are absolute or relative strings with `/`."""

    def open(self, path: str, *, create: bool = False) -> File:
        """Open for reading and appending. Raises `FileNotFoundError` unless `create`."""
        ...

    def exists(self, path: str) -> bool: ...

    def list(self, path: str) -> list[str]:
        """Names in a folder, sorted; empty if the folder does not exist."""
        ...

    def make_folder(self, path: str) -> None:
        """With its parents; no error if it exists."""
        ...

    def rename(self, old: str, new: str) -> None:
        """Atomic; replaces `new`. Durable after `sync_folder` of the folder(s)."""
        ...

    def remove(self, path: str) -> None:
        """Remove a file; `FileNotFoundError` if there is none."""
        ...

    def remove_folder(self, path: str) -> None:
        """Remove a folder and everything in it; no error if it does not exist."""
        ...

    async def sync_folder(self, path: str) -> None:
        """Make the folder's creations, renames and removals durable."""
        ...

    def in_background(self) -> "Disk":
        """The same files, for work on much at once (a snapshot of gigabytes): whatever is awaited leaves the
        event loop alone, even if this disk syncs on it (`SyncStrategy.INLINE`)."""
        ...

    def descriptors_left(self) -> int | None:
        """How many more files can be opened at least; None: as many as you like."""
        ...

    def lock(self, path: str) -> "DiskLock":
        """Hold an exclusive lock file until released or the process ends. Raises `DiskLockedError`."""
        ...


class DiskLock(Protocol):
    def release(self) -> None: ...


async def write_file_atomically(disk: Disk, path: str, data: Buffer) -> None:
    """Replace `path` by `data`, so that a crash at any point leaves the old content or the new one.

    Temporary file, sync, rename, folder sync. Durable when it returns.
    """
    temporary = f"{path}.tmp"
    if disk.exists(temporary):
        disk.remove(temporary)
    file = disk.open(temporary, create=True)
    try:
        file.append([data])
        await file.sync()
    finally:
        file.close()
    disk.rename(temporary, path)
    await disk.sync_folder(path.rpartition("/")[0] or ".")


def read_file(disk: Disk, path: str) -> bytes:
    """The whole content. Raises `FileNotFoundError`."""
    file = disk.open(path)
    try:
        return file.read_at(0, file.size)
    finally:
        file.close()
