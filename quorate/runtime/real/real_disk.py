"""Files of the operating system.

A read that has to wait for the device does so on a thread. Where a sync runs is a choice of the disk's owner
(`SyncStrategy`), measured in docs/explanation/performance.md: inline is the fastest and holds the loop up;
the thread keeps a loop that serves clients free of stalls.
"""

import contextlib
import enum
import errno
import fcntl
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Final, TypeVar

import trio

from quorate.runtime.disk import Buffer, DiskLockedError, DiskSpace
from quorate.runtime.real import descriptors
from quorate.runtime.real.disk_errors import disk_error
from quorate.runtime.real.disk_threads import DiskThreads
from quorate.runtime.real.read_only_file import ReadOnlyFile, open_read_only

_IOV_MAX = 1024
_NO_RESERVE = frozenset(
    (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS, errno.ENODEV)
)
"""Why a file can't have a reserve and is none the worse for it."""


class SyncStrategy(enum.Enum):
    """The place where a sync waits for the device."""

    INLINE = "inline"
    """The event loop waits: no hop, but nothing else runs meanwhile. For a loop that has only a quorum."""

    THREAD = "thread"
    """A thread waits. Syncs of several files may be under way together."""


_Result = TypeVar("_Result")
_DISCARDED: Final = memoryview(bytearray(64 * 1024))
"""The target of reads that only ask whether pages are in the cache. It is not read."""
_FREED_INLINE_BYTES: Final = 16 * 1024 * 1024
"""The largest file that is removed on the event loop: 1 ms."""
_OWNER_ONLY: Final = 0o600
"""The mode of every file: logs and snapshots hold data of users, and keys of their passwords."""
_PAGE_BYTES: Final = 4096
_HELD_MAX: Final = 64
"""The most descriptors that one removal takes."""
_SYNCS_MAX: Final = 16
"""More than a broker has under way by opening and flushing logs. A vote or a commit must not wait behind the
sync of a large log, nor for another device that hangs."""
_READS_MAX: Final = 8


class RealFile:
    """`quorate.runtime.disk.File` over a file descriptor."""

    __slots__ = (
        "_advised",
        "_busy",
        "_closing",
        "_fd",
        "_lost",
        "_path",
        "_reads",
        "_size",
        "_sync_ended",
        "_syncs",
    )

    def __init__(self, path: str, fd: int, syncs: DiskThreads | None, reads: DiskThreads) -> None:
        """`syncs`, `reads`: the threads for syncs and cold reads. None: the event loop syncs."""
        self._path = path
        self._fd = fd
        self._size = os.fstat(fd).st_size
        self._syncs = syncs
        self._reads = reads
        self._sync_ended: trio.Event | None = None
        self._lost: OSError | None = None
        """The error of the sync that failed."""
        self._busy = 0
        self._closing = False
        self._advised = False

    @property
    def path(self) -> str:
        return self._path

    @property
    def size(self) -> int:
        return self._size

    def append(self, buffers: Sequence[Buffer]) -> int:
        position = self._size
        total = sum(map(len, buffers))
        try:
            written = os.pwritev(self._fd, buffers[:_IOV_MAX], position)
            if written != total:
                self._append_rest(b"".join(buffers)[written:], position + written)
        except OSError as error:
            raise disk_error(error, self._path) from error
        self._size = position + total
        return position

    def reserve(self, size_bytes: int) -> None:
        if size_bytes <= self._size:
            return
        try:
            os.posix_fallocate(self._fd, self._size, size_bytes - self._size)
        except OSError as error:
            if error.errno not in _NO_RESERVE:
                raise disk_error(error, self._path) from error
            # The space allocated before the device was full is given back.
            self.truncate(self._size)

    def _append_rest(self, rest: bytes, position: int) -> None:
        while rest:
            written = os.pwrite(self._fd, rest, position)
            rest = rest[written:]
            position += written

    def write_at(self, position: int, data: Buffer) -> None:
        try:
            self._append_rest(bytes(data), position)
        except OSError as error:
            raise disk_error(error, self._path) from error
        self._size = max(self._size, position + len(data))

    def read_at(self, position: int, size: int) -> bytes:
        try:
            return os.pread(self._fd, min(size, max(0, self._size - position)), position)
        except OSError as error:
            raise disk_error(error, self._path) from error

    async def read(self, position: int, size: int) -> bytes:
        size = min(size, max(0, self._size - position))
        cached = self._cached(position, size)
        if cached is not None:
            return cached
        return await self._blocking(self._reads, lambda: os.pread(self._fd, size, position))

    def _cached(self, position: int, size: int) -> bytes | None:
        if size <= len(_DISCARDED):
            buffer = bytearray(size)
            return bytes(buffer) if self._read_cached([buffer], position) == size else None
        # Zeroed memory for a large read, and a copy of it as bytes, cost three times as much as the read: so
        # ask for the pages first, then read them as bytes.
        whole, rest = divmod(size, len(_DISCARDED))
        buffers = [*[_DISCARDED] * whole, _DISCARDED[:rest]]
        if len(buffers) > _IOV_MAX or self._read_cached(buffers, position) != size:
            return None
        try:
            return os.pread(self._fd, size, position)
        except OSError as error:
            raise disk_error(error, self._path) from error

    def _read_cached(self, buffers: Sequence[bytearray | memoryview], position: int) -> int:
        """Return how many bytes were read without a wait for the device."""
        try:
            return os.preadv(self._fd, buffers, position, os.RWF_NOWAIT)
        except BlockingIOError:
            return 0
        except OSError as error:
            if error.errno != errno.EOPNOTSUPP:
                raise disk_error(error, self._path) from error
            return 0

    async def read_once(self, position: int, size: int) -> bytes:
        size = min(size, max(0, self._size - position))
        if not self._advised:
            # Read-ahead pages would look as if another reader had wanted them.
            self._advised = True
            with contextlib.suppress(OSError):
                os.posix_fadvise(self._fd, 0, 0, os.POSIX_FADV_RANDOM)

        def read() -> bytes:
            data = os.pread(self._fd, size, position)
            start = position // _PAGE_BYTES * _PAGE_BYTES
            end = -(-(position + size) // _PAGE_BYTES) * _PAGE_BYTES
            with contextlib.suppress(OSError):
                os.posix_fadvise(self._fd, start, end - start, os.POSIX_FADV_DONTNEED)
            return data

        cached = self._cached(position, size)
        return await self._blocking(self._reads, read) if cached is None else cached

    async def sync(self) -> None:
        if self.sync_at_once():
            return
        with self._in_use():
            # One at a time: of two, the kernel would tell but one that bytes were lost.
            while self._sync_ended is not None:
                await self._sync_ended.wait()
            self._sync_ended = ended = trio.Event()
            try:
                await self._blocking(self._syncs, self._fdatasync)
            finally:
                self._sync_ended = None
                ended.set()

    def sync_at_once(self) -> bool:
        if self._syncs is not None:
            return False
        try:
            self._fdatasync()
        except OSError as error:
            raise disk_error(error, self._path) from error
        return True

    def _fdatasync(self) -> None:
        if self._lost is not None:
            raise self._lost
        try:
            os.fdatasync(self._fd)
        except OSError as error:
            # The kernel says so once. The next sync would succeed, without the bytes.
            self._lost = OSError(error.errno, error.strerror)
            raise

    async def _blocking(self, threads: DiskThreads | None, function: Callable[[], _Result]) -> _Result:
        with self._in_use():
            try:
                return await _run_on(threads, function)
            except OSError as error:
                raise disk_error(error, self._path) from error

    @contextlib.contextmanager
    def _in_use(self) -> Iterator[None]:
        """Keep the file open in the block."""
        self._busy += 1
        try:
            yield
        finally:
            self._busy -= 1
            if self._closing and not self._busy:
                self._close()

    def truncate(self, size: int) -> None:
        try:
            os.ftruncate(self._fd, size)
        except OSError as error:
            raise disk_error(error, self._path) from error
        self._size = size

    def close(self) -> None:
        if not self._closing:
            self._closing = True
            if not self._busy:
                self._close()

    def _close(self) -> None:
        os.close(self._fd)
        # The number is soon another file's: a late caller must not get that one's bytes.
        self._fd = -1


async def _run_on(threads: DiskThreads | None, function: Callable[[], _Result]) -> _Result:
    return function() if threads is None else await threads.call(function)


class RealLock:
    """An flock on a file; the kernel drops it when the process ends, however it ends."""

    __slots__ = ("_fd",)

    def __init__(self, path: str) -> None:
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, _OWNER_ONLY)
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            os.close(self._fd)
            raise DiskLockedError(
                "another process is using this folder; stop it, or give this node a folder of its own",
                path=path,
            ) from error

    def release(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


class RealDisk:
    """`quorate.runtime.disk.Disk` over the operating system's files."""

    def __init__(self, *, sync: SyncStrategy) -> None:
        self._syncs = DiskThreads(most=_SYNCS_MAX) if sync is SyncStrategy.THREAD else None
        self._reads = DiskThreads(most=_READS_MAX)
        self._background: RealDisk | None = None
        self._freeing: DiskThreads | None = None

    def in_background(self) -> "RealDisk":
        if self._syncs is not None:
            return self
        if self._background is None:
            self._background = RealDisk(sync=SyncStrategy.THREAD)
        return self._background

    def open(self, path: str, *, create: bool = False) -> RealFile:
        flags = os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0)
        try:
            return self._opened(path, os.open(path, flags, _OWNER_ONLY))
        except FileNotFoundError:
            raise
        except OSError as error:
            raise disk_error(error, path) from error

    def open_read_only(self, path: str) -> ReadOnlyFile:
        return open_read_only(path)

    def _opened(self, path: str, fd: int) -> RealFile:
        return RealFile(path, fd, self._syncs, self._reads)

    def exists(self, path: str) -> bool:
        return os.path.exists(path)

    def mode(self, path: str) -> int:
        try:
            return os.stat(path).st_mode & 0o7777
        except FileNotFoundError:
            raise
        except OSError as error:
            raise disk_error(error, path) from error

    def list(self, path: str) -> list[str]:
        try:
            return sorted(os.listdir(path))
        except FileNotFoundError:
            return []
        except OSError as error:
            raise disk_error(error, path) from error

    def make_folder(self, path: str) -> None:
        try:
            os.makedirs(path, 0o700, exist_ok=True)
        except OSError as error:
            raise disk_error(error, path) from error

    def rename(self, old: str, new: str) -> None:
        try:
            os.rename(old, new)
        except OSError as error:
            raise disk_error(error, old) from error

    def remove(self, path: str) -> None:
        with self._freed_later([path]):
            try:
                os.remove(path)
            except FileNotFoundError:
                raise
            except OSError as error:
                raise disk_error(error, path) from error

    def remove_folder(self, path: str) -> None:
        with self._freed_later(
            os.path.join(found, name) for found, _, names in os.walk(path) for name in names
        ):
            try:
                shutil.rmtree(path)
            except FileNotFoundError:
                pass
            except OSError as error:
                raise disk_error(error, path) from error

    @contextlib.contextmanager
    def _freed_later(self, paths: Iterable[str]) -> Iterator[None]:
        """What of these files is large loses its name in the block, and its space on a thread of its own: the
        kernel frees it when no process has the file open any more, which takes 50 ms for a gigabyte."""
        held: list[int] = []
        for path in paths:
            # A file that can't be opened is freed at once.
            with contextlib.suppress(OSError):
                if os.stat(path).st_size > _FREED_INLINE_BYTES and len(held) < _HELD_MAX:
                    held.append(os.open(path, os.O_RDONLY | os.O_CLOEXEC))
        try:
            yield
        finally:
            if held:
                if self._freeing is None:
                    self._freeing = DiskThreads(most=1)
                for fd in held:
                    self._freeing.post(partial(os.close, fd))

    async def sync_folder(self, path: str) -> None:
        def sync() -> None:
            fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                os.fsync(fd)
            finally:
                os.close(fd)

        try:
            await _run_on(self._syncs, sync)
        except OSError as error:
            raise disk_error(error, path) from error

    def space(self, path: str) -> DiskSpace:
        try:
            found = os.statvfs(path)
        except OSError as error:
            raise disk_error(error, path) from error
        return DiskSpace(total=found.f_blocks * found.f_frsize, usable=found.f_bavail * found.f_frsize)

    def descriptors_left(self) -> int:
        return descriptors.left()

    def lock(self, path: str) -> RealLock:
        try:
            return RealLock(path)
        except DiskLockedError:
            raise
        except OSError as error:
            raise disk_error(error, path) from error
