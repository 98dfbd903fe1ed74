"""The sparse index beside a segment, in Kafka's layout.

Entries of 8 bytes: the last offset of a batch relative to the segment's base (int32), and the position at
which that batch starts (int32). About one per `index_interval_bytes`.
"""

import sys
from array import array
from bisect import bisect_left, bisect_right
from contextlib import closing
from itertools import pairwise

from quorate.log.segments.walk import ReadRequest, Steps
from quorate.runtime import Disk, DiskError

ENTRY_BYTES = 8
_LOAD_BYTES = 64 * 1024


class OffsetIndex:
    """The index in memory. `save` brings the file up to date. The file is only a hint, which is checked when
    it is loaded and when it is used."""

    __slots__ = ("_offsets", "_positions", "_saved")

    def __init__(self) -> None:
        self._offsets = array("i")
        self._positions = array("i")
        self._saved = 0

    def __len__(self) -> int:
        return len(self._offsets)

    @property
    def unsaved(self) -> int:
        return len(self._offsets) - self._saved

    def add(self, relative_last_offset: int, position: int) -> None:
        self._offsets.append(relative_last_offset)
        self._positions.append(position)

    def floor(self, relative_offset: int) -> tuple[int, int] | None:
        """Return the last entry (offset, position) with an offset of at most `relative_offset`."""
        index = bisect_right(self._offsets, relative_offset)
        return (self._offsets[index - 1], self._positions[index - 1]) if index else None

    def floor_position(self, position: int) -> tuple[int, int] | None:
        """Return the last entry (offset, position) with a position of at most `position`."""
        index = bisect_right(self._positions, position)
        return (self._offsets[index - 1], self._positions[index - 1]) if index else None

    def cut(self, position: int) -> None:
        """Forget the batches that start at or above `position`."""
        index = bisect_left(self._positions, position)
        del self._offsets[index:]
        del self._positions[index:]
        if index < self._saved:
            # The file has too many entries; the next save rewrites it.
            self._saved = -1

    def clear(self) -> None:
        self.cut(-1)

    def load(self, disk: Disk, path: str, *, segment_bytes: int) -> Steps[bool]:
        """Read the file. False: it is missing or inconsistent, and the index is empty."""
        self.clear()
        offsets, positions = array("i"), array("i")
        try:
            with closing(disk.open(path)) as file:
                # Unless it is taken over below, the next save removes it.
                self._saved = -1
                size = file.size
                for start in range(0, size, _LOAD_BYTES):
                    data = yield ReadRequest(file, start, _LOAD_BYTES)
                    entries = array("i", data[: len(data) // ENTRY_BYTES * ENTRY_BYTES])
                    if sys.byteorder == "little":
                        entries.byteswap()
                    for values, new in ((offsets, entries[0::2]), (positions, entries[1::2])):
                        if not _increasing(values[-1:] + new):
                            return False
                        values += new
        except (FileNotFoundError, DiskError):
            return False
        if size % ENTRY_BYTES or (positions and positions[-1] >= segment_bytes):
            return False
        self._offsets, self._positions, self._saved = offsets, positions, len(offsets)
        return True

    def entry(self, number: int) -> tuple[int, int] | None:
        """Return the entry (offset, position) with that number, from 0. None: it is behind the last."""
        return (self._offsets[number], self._positions[number]) if number < len(self._offsets) else None

    def agrees(self, disk: Disk, path: str) -> Steps[bool]:
        """Return whether the file has exactly the entries that were saved."""
        if self._saved <= 0:
            return True
        try:
            with closing(disk.open(path)) as file:
                if file.size != self._saved * ENTRY_BYTES:
                    return False
                for start in range(0, file.size, _LOAD_BYTES):
                    data = yield ReadRequest(file, start, _LOAD_BYTES)
                    first = start // ENTRY_BYTES
                    if data != self._encoded(first, min(first + _LOAD_BYTES // ENTRY_BYTES, self._saved)):
                        return False
        except (FileNotFoundError, DiskError):
            return False
        return True

    def forget_file(self) -> None:
        """Let the next save write the whole file, because it is wrong."""
        self._saved = -1

    def save(self, disk: Disk, path: str) -> None:
        """Write the new entries, without a sync."""
        if self._saved < 0:
            if disk.exists(path):
                disk.remove(path)
            self._saved = 0
        if self._saved == len(self._offsets):
            return
        with closing(disk.open(path, create=True)) as file:
            if file.size != self._saved * ENTRY_BYTES:
                file.truncate(0)
                self._saved = 0
            file.append([self._encoded(self._saved, len(self._offsets))])
        self._saved = len(self._offsets)

    def _encoded(self, start: int, end: int) -> bytes:
        entries = array("i", bytes(ENTRY_BYTES * (end - start)))
        entries[0::2] = self._offsets[start:end]
        entries[1::2] = self._positions[start:end]
        if sys.byteorder == "little":
            entries.byteswap()
        return entries.tobytes()


def _increasing(values: "array[int]") -> bool:
    if values and values[0] < 0:
        return False
    return all(one < other for one, other in pairwise(values))
