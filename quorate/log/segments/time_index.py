"""The index by time beside a segment, in Kafka's layout.

Entries of 12 bytes: a timestamp in ms (int64), and an offset relative to the segment's base (int32). Up to
where an entry was made the timestamp was the largest, and the offset is the last one of the first batch that
had it. So later records come after that offset. Timestamps grow strictly, offsets too.
"""

import struct
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Final, NamedTuple

from quorate.log.segments.walk import ReadRequest, Steps, read_now
from quorate.runtime import Disk, DiskError, File

TIME_ENTRY_BYTES: Final = 12
_ENTRY = struct.Struct(">qi")
_NO_TIMESTAMP: Final = -1


class TimeEntry(NamedTuple):
    timestamp: int
    relative_offset: int
    """The offset of the batch's last record, inclusive."""


class TimeIndex:
    """Only entries that are not in the file yet are in memory. The file is only a hint: the user of an entry
    compares it with its batch."""

    __slots__ = ("_disk", "_entries", "_path", "_saved", "_timestamps", "last", "unsynced")

    def __init__(self, disk: Disk, path: str) -> None:
        self._disk = disk
        self._path = path
        self._entries: list[TimeEntry] = []
        self._timestamps: list[int] = []
        """The timestamps of the `_entries`."""
        self._saved = 0
        self.last: TimeEntry | None = None
        self.unsynced = False
        """True if entries may not be durable."""

    def __len__(self) -> int:
        return self._saved + len(self._entries)

    @property
    def path(self) -> str:
        return self._path

    def relocate(self, path: str) -> None:
        """Note the new path of the file."""
        self._path = path

    def add(self, timestamp: int, relative_offset: int) -> None:
        """`timestamp` is the largest so far. Nothing happens unless it has grown since the last entry."""
        if timestamp > (_NO_TIMESTAMP if self.last is None else self.last.timestamp):
            self.last = TimeEntry(timestamp, relative_offset)
            self._entries.append(self.last)
            self._timestamps.append(timestamp)
            self.unsynced = True

    def load(self) -> Steps[bool]:
        """Load the file. False: it is missing or invalid. Then the index is empty, and the file unchanged."""
        self._forget()
        try:
            with closing(self._disk.open(self._path)) as file:
                count, rest = divmod(file.size, TIME_ENTRY_BYTES)
                last = (yield from self._read_entry(file, count - 1)) if count else None
        except (FileNotFoundError, DiskError):
            return False
        if rest or (last is not None and (last.timestamp < 0 or last.relative_offset < 0)):
            return False
        self._saved, self.last = count, last
        return True

    def floor(self, timestamp: int) -> Steps[TimeEntry | None]:
        """Return the last entry that is not later than `timestamp`."""
        number = bisect_right(self._timestamps, timestamp)
        if number:
            return self._entries[number - 1]
        if not self._saved:
            return None
        try:
            with closing(self._disk.open(self._path)) as file:
                _, found = yield from self._last_saved(file, lambda entry: entry.timestamp <= timestamp)
        except FileNotFoundError:
            # Removed from outside: no batch has this either.
            return TimeEntry(_NO_TIMESTAMP, _NO_TIMESTAMP)
        return found

    def _last_saved(
        self, file: File, is_kept: Callable[[TimeEntry], bool]
    ) -> Steps[tuple[int, TimeEntry | None]]:
        """The number of the file's entries that `is_kept` accepts, and the last of them. They are the first
        ones in the file."""
        low, high = 0, self._saved
        last: TimeEntry | None = None
        while low < high:
            middle = (low + high) // 2
            entry = yield from self._read_entry(file, middle)
            if is_kept(entry):
                low, last = middle + 1, entry
            else:
                high = middle
        return low, last

    def saved_entries(self) -> Steps[Iterator[TimeEntry] | None]:
        """Return the entries in the file. None: it is missing, or its size is wrong."""
        if not self._saved:
            return iter(())
        data = b""
        try:
            with closing(self._disk.open(self._path)) as file:
                if file.size == self._saved * TIME_ENTRY_BYTES:
                    data = yield ReadRequest(file, 0, file.size)
        except FileNotFoundError:
            return None
        if len(data) != self._saved * TIME_ENTRY_BYTES:
            return None
        return (TimeEntry(*each) for each in _ENTRY.iter_unpack(data))

    def _read_entry(self, file: File, number: int) -> Steps[TimeEntry]:
        data = yield ReadRequest(file, number * TIME_ENTRY_BYTES, TIME_ENTRY_BYTES)
        if len(data) < TIME_ENTRY_BYTES:
            # Cut meanwhile, or from outside: no batch has this, and so it is found to be wrong.
            return TimeEntry(_NO_TIMESTAMP, _NO_TIMESTAMP)
        return TimeEntry(*_ENTRY.unpack(data))

    def cut(self, relative_offset: int) -> None:
        """Forget the entries at and above that offset. Raises `DiskError`."""
        if self.last is None or self.last.relative_offset < relative_offset:
            return
        keep = bisect_left(self._entries, relative_offset, key=_offset_of)
        del self._entries[keep:]
        del self._timestamps[keep:]
        if not keep and self._saved:
            self._cut_file(relative_offset)
        elif keep:
            self.last = self._entries[-1]
        else:
            self.last = None

    def _cut_file(self, relative_offset: int) -> None:
        with closing(self._disk.open(self._path)) as file:
            kept, last = read_now(
                self._last_saved(file, lambda entry: entry.relative_offset < relative_offset)
            )
            if kept < self._saved:
                file.truncate(kept * TIME_ENTRY_BYTES)
                self.unsynced = True
            self._saved, self.last = kept, last

    def clear(self) -> None:
        """Remove all entries, in the file too. Raises `DiskError`."""
        self._forget()
        if self._disk.exists(self._path):
            with closing(self._disk.open(self._path)) as file:
                file.truncate(0)
            self.unsynced = True

    def _forget(self) -> None:
        self._entries.clear()
        self._timestamps.clear()
        self._saved, self.last = 0, None

    def save(self) -> None:
        """Write the new entries, without a sync. Raises `DiskError`."""
        if not self._entries:
            return
        with closing(self._disk.open(self._path, create=True)) as file:
            if file.size != self._saved * TIME_ENTRY_BYTES:
                # Another process wrote to it: only the entries that are known to be right stay.
                file.truncate(0)
                self._saved = 0
            file.append([b"".join([_ENTRY.pack(*entry) for entry in self._entries])])
        self._saved += len(self._entries)
        self._entries.clear()
        self._timestamps.clear()

    async def sync(self) -> None:
        """Make the saved entries durable. No checkpoint if they are. Raises `DiskError`."""
        if not self.unsynced:
            return
        self.unsynced = False
        try:
            with closing(self._disk.open(self._path)) as file:
                await file.sync()
        except FileNotFoundError:
            return
        except BaseException:
            self.unsynced = True
            raise

    def remove(self) -> None:
        """Remove the file, if there is one."""
        self._forget()
        if self._disk.exists(self._path):
            self._disk.remove(self._path)


def _offset_of(entry: TimeEntry) -> int:
    return entry.relative_offset
