"""Files that are only read, also by programs without an event loop and by users who may not write."""

import os

from quorate.runtime.real.disk_errors import disk_error


class ReadOnlyFile:
    """`quorate.runtime.disk.ReadableFile` over a file descriptor. Each read waits for the device."""

    __slots__ = ("_fd", "_path", "_size")

    def __init__(self, path: str, fd: int) -> None:
        self._path = path
        self._fd = fd
        self._size = os.fstat(fd).st_size

    @property
    def path(self) -> str:
        return self._path

    @property
    def size(self) -> int:
        """The size of the file when it was opened."""
        return self._size

    def read_at(self, position: int, size: int) -> bytes:
        try:
            return os.pread(self._fd, min(size, max(0, self._size - position)), position)
        except OSError as error:
            raise disk_error(error, self._path) from error

    async def read(self, position: int, size: int) -> bytes:
        return self.read_at(position, size)

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            # The number is soon another file's: a late caller must not get that one's bytes.
            self._fd = -1


def open_read_only(path: str) -> ReadOnlyFile:
    """Open a file for reading alone, as one of another user. Close it. Raises `FileNotFoundError`,
    `DiskError`."""
    try:
        return ReadOnlyFile(path, os.open(path, os.O_RDONLY | os.O_CLOEXEC))
    except FileNotFoundError:
        raise
    except OSError as error:
        raise disk_error(error, path) from error
