"""The disk as quorate sees it: append-only files, durable only after a sync.

Writes go to the operating system's cache and return at once; `sync` is what waits for the device.
So everything that must be ordered with its caller (append, truncate, rename) is a plain call, and only
what may take milliseconds (sync, cold reads) is awaited. Operations on one file take effect in the order
in which they were called.

Two implementations: `RealDisk` of `quorate.runtime.real` and `SimulatedDisk` of `quorate.simulation`.
"""

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Protocol

Buffer = bytes | bytearray | memoryview


class DiskError(OSError):
    """The disk failed or refused an operation on the file `path`. After a failed write or sync the content of
    the file is unknown. Reopen and recover it before the next write."""

    def __init__(self, message: str, *, path: str) -> None:
        super().__init__(f"{path}: {message}")
        self.path = path


class DiskFullError(DiskError):
    """The device has no space left for the write."""


class DescriptorsExhaustedError(DiskError):
    """The process has no free file descriptor. Nothing happened, and the disk works: the operation succeeds
    after other files are closed, or with a higher limit."""


class DiskLockedError(DiskError):
    """Another process holds the lock on this folder."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskSpace:
    """The space of a file system, in bytes."""

    total: int
    usable: int
    """The part that is free for this user."""


class ReadableFile(Protocol):
    """One open file, as its readers use it. Positions and sizes are in bytes."""

    @property
    def path(self) -> str:
        """The path with which the file was opened."""
        ...

    @property
    def size(self) -> int:
        """The size of the file with its unsynced bytes, and without reserved space."""
        ...

    def read_at(self, position: int, size: int) -> bytes:
        """Return `size` bytes from `position`, fewer only at the end of the file. It may wait for the device,
        so use `read` on hot paths. Raises `DiskError`."""
        ...

    async def read(self, position: int, size: int) -> bytes:
        """Do the same as `read_at`, but fetch uncached bytes without blocking the event loop."""
        ...

    def close(self) -> None:
        """Close the file. Reads and syncs in progress finish first. Idempotent."""
        ...


class File(ReadableFile, Protocol):
    """One open file that can be written too."""

    def reserve(self, size_bytes: int) -> None:
        """Allocate space up to `size_bytes`. A sync of an append within it commits no new file size, which
        saves a commit of the file system's journal.

        It is a hint: without space, or without support, it has no effect. `size` does not change, but another
        handle reads zeros from `size` to the reserved end. `truncate` to `size` releases the space. Raises
        `DiskError` only if the device is broken.
        """
        ...

    def append(self, buffers: Sequence[Buffer]) -> int:
        """Write all buffers at the end with one vectored write, and return the position of the first byte.

        The bytes are durable after `sync`. Either all of them are in the file, or `DiskError` is raised.
        """
        ...

    def write_at(self, position: int, data: Buffer) -> None:
        """Overwrite bytes in place. Recovery uses it for bytes that may not be durable. Raises
        `DiskError`."""
        ...

    async def read_once(self, position: int, size: int) -> bytes:
        """Do the same as `read`, for bytes that are read once: they leave the page cache as it was, as far as
        the operating system helps. Meant for a handle of its own."""
        ...

    async def sync(self) -> None:
        """Return when every byte that was in the file at the call is durable.

        A `DiskError` is final for this file: its unsynced bytes may be lost even if a later sync succeeds. A
        cancelled sync may or may not have happened.
        """
        ...

    def sync_at_once(self) -> bool:
        """Do the same as `sync` without waiting, if this disk syncs inline (`SyncStrategy.INLINE`). False: it
        does not, and nothing happened."""
        ...

    def truncate(self, size: int) -> None:
        """Cut the file to `size` bytes. The cut is durable after the next `sync`."""
        ...


class Disk(Protocol):
    """The folders and files of a host. Paths are strings with `/`."""

    def open(self, path: str, *, create: bool = False) -> File:
        """Open a file for reading and appending. Raises `FileNotFoundError` unless `create` is set,
        `DiskError`."""
        ...

    def open_read_only(self, path: str) -> ReadableFile:
        """Open a file for reading alone, such as a backup that may not be written. Raises
        `FileNotFoundError`, `DiskError`."""
        ...

    def exists(self, path: str) -> bool:
        """Return True if the path is a file or a folder."""
        ...

    def mode(self, path: str) -> int:
        """Return the permission bits of a file. Raises `FileNotFoundError`, `DiskError`."""
        ...

    def list(self, path: str) -> list[str]:
        """Return the sorted names in a folder, none if the folder does not exist."""
        ...

    def make_folder(self, path: str) -> None:
        """Create a folder and its parents. No error if it exists."""
        ...

    def rename(self, old: str, new: str) -> None:
        """Rename a file or folder atomically. It replaces `new`. It is durable after `sync_folder` of the
        folder or folders."""
        ...

    def remove(self, path: str) -> None:
        """Remove a file. Raises `FileNotFoundError` if there is none."""
        ...

    def remove_folder(self, path: str) -> None:
        """Remove a folder with its content. No error if it does not exist."""
        ...

    async def sync_folder(self, path: str) -> None:
        """Make the creations, renames and removals in this folder durable."""
        ...

    def in_background(self) -> "Disk":
        """Return the same files for bulk work, such as a snapshot of gigabytes: no operation blocks the event
        loop, even if this disk syncs inline (`SyncStrategy.INLINE`)."""
        ...

    def space(self, path: str) -> DiskSpace:
        """Return the space of the file system that has this folder. Raises `DiskError`."""
        ...

    def descriptors_left(self) -> int | None:
        """Return the number of further files that can be opened at least. None: no limit."""
        ...

    def lock(self, path: str) -> "DiskLock":
        """Take an exclusive lock on a file, until it is released or the process ends. Raises
        `DiskLockedError`."""
        ...


class DiskLock(Protocol):
    """A lock on a folder that one process holds."""

    def release(self) -> None:
        """Release the lock, so that another process can take it."""
        ...


async def write_file_atomically(disk: Disk, path: str, data: Buffer) -> None:
    """Replace the content of `path` by `data`. A crash leaves either the old or the new content.

    It writes a temporary file, syncs it, renames it and syncs the folder. It is durable when this returns.
    Raises `DiskError`.
    """
    await replace_file(disk, path, data)
    await disk.sync_folder(path.rpartition("/")[0] or ".")


async def replace_file(disk: Disk, path: str, data: Buffer) -> None:
    """Do the same as `write_file_atomically`, but for the last step: it is durable after the folder's next
    sync."""
    temporary = f"{path}.tmp"
    if disk.exists(temporary):
        disk.remove(temporary)
    with closing(disk.open(temporary, create=True)) as file:
        file.append([data])
        await file.sync()
    disk.rename(temporary, path)


def read_file(disk: Disk, path: str) -> bytes:
    """Return the whole content of a file. Raises `FileNotFoundError`."""
    with closing(disk.open(path)) as file:
        return file.read_at(0, file.size)
