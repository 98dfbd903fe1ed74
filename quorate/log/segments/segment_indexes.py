"""The indexes of a segment by offset and by time, and its largest timestamp."""

from collections.abc import Iterator
from contextlib import suppress

from quorate.log.log_config import LogConfig
from quorate.log.segments.offset_index import ENTRY_BYTES, OffsetIndex
from quorate.log.segments.time_index import TIME_ENTRY_BYTES, TimeIndex
from quorate.runtime import DescriptorsExhaustedError, Disk

INDEX_SUFFIX = ".index"
TIME_INDEX_SUFFIX = ".timeindex"
_SAVE_ENTRIES = 64
_MAX_POSITION = 2**31 - 1


class SegmentIndexes:
    """The indexes of one segment. Mutable. Both files are only hints, checked when loaded and when used.

    A metadata log has no index by time, because it is never searched by time.
    """

    __slots__ = (
        "_base_offset",
        "_disk",
        "_interval_bytes",
        "_save_entries",
        "_stem",
        "_suffix",
        "first_timestamp",
        "last_position",
        "max_relative_offset",
        "max_timestamp",
        "offsets",
        "times",
    )

    def __init__(
        self, disk: Disk, stem: str, base_offset: int, config: LogConfig, *, suffix: str = ""
    ) -> None:
        self._disk = disk
        self._stem = stem
        self._suffix = suffix
        self._base_offset = base_offset
        self._interval_bytes = config.index_interval_bytes
        self._save_entries = _SAVE_ENTRIES
        self.offsets = OffsetIndex()
        self.times = None if config.own_recovery_point else TimeIndex(disk, stem + TIME_INDEX_SUFFIX + suffix)
        self.last_position = 0
        """The position of the batch in the last entry of `offsets`."""
        self.first_timestamp: int | None = None
        """The timestamp of the first batch. None: it was not read yet."""
        self.max_timestamp = -1
        self.max_relative_offset = -1
        """The last offset, relative to the base, of the first batch with `max_timestamp`."""

    @property
    def offsets_path(self) -> str:
        return self._stem + INDEX_SUFFIX + self._suffix

    def relocate(self, stem: str) -> None:
        """Note the new beginning of the files' paths."""
        self._stem = stem
        if self.times is not None:
            self.times.relocate(stem + TIME_INDEX_SUFFIX + self._suffix)

    def rename(self, suffix: str) -> None:
        """Rename the existing files to end in `suffix`. Durable after a sync of the folder."""
        before = list(self._paths())
        self._suffix = suffix
        self.relocate(self._stem)
        for old, new in zip(before, self._paths(), strict=True):
            if self._disk.exists(old):
                self._disk.rename(old, new)

    def configure(self, config: LogConfig) -> None:
        self._interval_bytes = config.index_interval_bytes

    @property
    def size_bytes(self) -> int:
        """The size of the larger of the two files, including its unsaved entries."""
        times = 0 if self.times is None else len(self.times) * TIME_ENTRY_BYTES
        return max(len(self.offsets) * ENTRY_BYTES, times)

    def is_full(self, limit_bytes: int) -> bool:
        """Return whether another entry would make a file larger than `limit_bytes`."""
        return (len(self.offsets) + 1) * ENTRY_BYTES > limit_bytes or (
            self.times is not None and (len(self.times) + 1) * TIME_ENTRY_BYTES > limit_bytes
        )

    def note_batch(
        self, *, position: int, last_offset: int, first_timestamp: int, max_timestamp: int
    ) -> None:
        """Note a batch at `position`, and index it if it is far enough from the last indexed one."""
        if self.first_timestamp is None:
            self.first_timestamp = first_timestamp
        if max_timestamp > self.max_timestamp:
            self.max_timestamp = max_timestamp
            self.max_relative_offset = last_offset - self._base_offset
        if position - self.last_position >= self._interval_bytes:
            self.last_position = position
            self.offsets.add(last_offset - self._base_offset, position)
            self.add_max()
            if self.offsets.unsaved >= self._save_entries:
                # In the middle of an append, which a file that can't be opened now must not fail.
                with suppress(DescriptorsExhaustedError):
                    self.save()

    def add_max(self) -> None:
        """Add an entry for the largest timestamp so far. All durable batches must be covered by one."""
        if self.times is not None:
            self.times.add(self.max_timestamp, self.max_relative_offset)

    def save(self) -> None:
        """Write the new entries, without a sync."""
        self.offsets.save(self._disk, self.offsets_path)
        if self.times is not None:
            self.times.save()

    def cut(self, position: int, end_offset: int) -> None:
        """Forget the batches that start at or above `position`, whose offsets are `end_offset` and above. If
        one of them had the largest timestamp, what is behind the last entries has to be noted again."""
        self.offsets.cut(position)
        last = self.offsets.floor_position(_MAX_POSITION)
        self.last_position = 0 if last is None else last[1]
        if position == 0:
            self.first_timestamp = None
        end = end_offset - self._base_offset
        if self.times is not None:
            self.times.cut(end)
            if self.max_relative_offset >= end:
                self.take_max()

    def take_max(self) -> None:
        """Set the largest timestamp to that of the last entry. Without an index by time it stays, and may be
        too large."""
        if self.times is not None:
            entry = self.times.last
            self.max_timestamp, self.max_relative_offset = (-1, -1) if entry is None else entry

    def clear(self) -> None:
        """Remove all entries, in the files too."""
        self.offsets.clear()
        self.last_position = 0
        self.first_timestamp = None
        if self.times is not None:
            self.times.clear()
        self.take_max()

    def hold_back(self) -> None:
        """Write nothing until `release`, because the files have the entries of other indexes."""
        self._save_entries = _MAX_POSITION

    def release(self) -> None:
        self._save_entries = _SAVE_ENTRIES
        self.save()

    @property
    def times_unsynced(self) -> bool:
        """True if `sync_times` has something to do."""
        return self.times is not None and self.times.unsynced and self.last_position > 0

    async def sync_times(self) -> None:
        """Write the entries by time to the device: a start does not read durable batches again for them.

        Missing entries by offset are made again from the batches behind the last one. While there is none, a
        start reads all of the segment, and nothing needs to be synced."""
        if self.times is not None:
            self.times.save()
            if self.last_position:
                await self.times.sync()

    def remove(self) -> None:
        for path in self._paths():
            with suppress(FileNotFoundError):
                self._disk.remove(path)

    def _paths(self) -> Iterator[str]:
        yield self.offsets_path
        if self.times is not None:
            yield self.times.path
