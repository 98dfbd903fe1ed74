"""One segment: a file of batches named by its base offset, and its indexes."""

from typing import NamedTuple

from quorate.log.log_config import LogConfig
from quorate.log.log_errors import DamagedLogError
from quorate.log.segments.segment_indexes import SegmentIndexes
from quorate.log.segments.time_index import TimeEntry, TimeIndex
from quorate.log.segments.walk import HeaderWalk, Spot, Steps, is_batch, read_now
from quorate.runtime import Buffer, Disk, File, get_logger

log = get_logger(__name__)

LOG_SUFFIX = ".log"
CLEANED = ".cleaned"
"""The suffix of a file that is being written to replace others. It has no effect before it is a `SWAP`."""
SWAP = ".swap"
"""The suffix of a file that replaces others, also after a crash."""
DELETED = ".deleted"
"""The suffix of a file that was replaced."""
_MAX_POSITION = 2**31 - 1
_MAX_RELATIVE_OFFSET = 2**31 - 1


class DamagedPart(NamedTuple):
    """A range of bytes in a segment without a whole batch."""

    start: int
    end: int
    end_offset: int
    """The offset at which the batch at `end` starts."""


class Segment:
    """Mutable; owned by one `Log`."""

    __slots__ = (
        "_config",
        "_cuts",
        "_disk",
        "_reserved_end",
        "_stem",
        "_suffix",
        "base_offset",
        "damaged",
        "file",
        "indexes",
        "synced",
        "writes",
    )

    def __init__(
        self,
        disk: Disk,
        folder: str,
        base_offset: int,
        config: LogConfig,
        *,
        create: bool = False,
        suffix: str = "",
    ) -> None:
        """`suffix`: of the files' names while they are not the log's (`CLEANED`, `SWAP`)."""
        self._disk = disk
        self._config = config
        self._stem = f"{folder}/{base_offset:020}"
        self._suffix = suffix
        self.base_offset = base_offset
        self.file: File = disk.open(self._stem + LOG_SUFFIX + suffix, create=create)
        self.indexes = self._new_indexes()
        self.damaged: tuple[DamagedPart, ...] = ()
        """The damaged parts that a check found, in ascending order. No walk goes through them."""
        self._cuts = 0
        self._reserved_end = 0
        """The end of the reserved space."""
        self.writes = 0
        self.synced = 0
        """The number of the `writes` that are durable."""

    def _new_indexes(self) -> SegmentIndexes:
        return SegmentIndexes(self._disk, self._stem, self.base_offset, self._config, suffix=self._suffix)

    @property
    def path(self) -> str:
        return self._stem + LOG_SUFFIX + self._suffix

    @property
    def size(self) -> int:
        return self.file.size

    @property
    def max_timestamp(self) -> int:
        """The largest timestamp (ms) of any record. -1: no record has one."""
        return self.indexes.max_timestamp

    def relocate(self, folder: str) -> None:
        """Note the new name of the folder. The open file is the same."""
        self._stem = f"{folder}/{self.base_offset:020}"
        self.indexes.relocate(self._stem)

    def rename(self, suffix: str) -> None:
        """Rename the files to end in `suffix`, that of the batches last. The open file is the same.
        Durable after a sync of the folder. Raises `DiskError`."""
        self.indexes.rename(suffix)
        old, self._suffix = self.path, suffix
        self._disk.rename(old, self.path)

    def configure(self, config: LogConfig) -> None:
        self._config = config
        self.indexes.configure(config)

    def has_room_for(self, size: int, *, end_offset: int, timestamp: int) -> bool:
        """True if the segment has room for this append. Otherwise the log must roll."""
        held = self.file.size
        if held == 0:
            return True
        first_timestamp = self.indexes.first_timestamp
        return not (
            held + size > self._config.segment_bytes
            or held + size > _MAX_POSITION
            or end_offset - self.base_offset > _MAX_RELATIVE_OFFSET
            or self.indexes.is_full(self._config.segment_index_bytes)
            or (first_timestamp is not None and timestamp - first_timestamp > self._config.segment_ms)
        )

    def append(self, buffers: list[Buffer], size: int) -> int:
        """Write `size` bytes with one vectored write, and return the position of the first.
        `indexes.note_batch` must follow for each batch."""
        self.writes += 1
        if self._config.reserve_bytes:
            self._reserve(self.file.size + size)
        return self.file.append(buffers)

    def _reserve(self, end: int) -> None:
        if end > self._reserved_end:
            step = self._config.reserve_bytes
            # A segment that rolls earlier needs no more.
            self._reserved_end = max(end, min((end // step + 1) * step, self._config.segment_bytes))
            self.file.reserve(self._reserved_end)

    def release_reserve(self) -> None:
        """Cut the reserved space off the file, if there may be any. Durable after the next sync of the
        file."""
        if self._reserved_end > self.file.size:
            self.writes += 1
            self.file.truncate(self.file.size)
        self._reserved_end = 0

    # The indexes

    def finish_appends(self) -> None:
        """Write the indexes to their files, with an entry for the largest timestamp, because another
        segment follows."""
        self.release_reserve()
        self.indexes.add_max()
        self.indexes.save()

    def load_indexes(self, trusted_end_offset: int) -> Steps[None]:
        """Load the indexes from their files. If one is missing or wrong both are empty: the caller walks
        over the batches that they don't cover. Time entries for offsets at or above `trusted_end_offset`
        are dropped. Raises `DamagedLogError` if the first batch can't be read."""
        indexes = self.indexes
        loaded = yield from indexes.offsets.load(
            self._disk, indexes.offsets_path, segment_bytes=self.file.size
        )
        last = indexes.offsets.floor_position(_MAX_POSITION)
        if last is not None and not (yield from self._is_batch(*last)):
            loaded = False
        wrong = None if loaded else indexes.offsets_path
        times = indexes.times
        if (
            wrong is None
            and times is not None
            and not (yield from self._load_times(times, trusted_end_offset))
        ):
            wrong = times.path
        if wrong is not None:
            if self._disk.exists(wrong):
                log.warning("an index is wrong and is rebuilt", path=wrong)
            indexes.clear()
            last = None
        indexes.last_position = 0 if last is None else last[1]
        indexes.take_max()
        if indexes.last_position:
            first = yield from HeaderWalk(self.file, 0, self.file.size).next()
            indexes.first_timestamp = None if first is None else first.first_timestamp

    def _load_times(self, times: TimeIndex, trusted_end_offset: int) -> Steps[bool]:
        if not (yield from times.load()):
            return False
        times.cut(trusted_end_offset - self.base_offset)
        try:
            return times.last is None or (yield from self._is_time(times.last))
        except DamagedLogError:
            return False

    def index_up_to(self, end_position: int | None = None) -> Steps[Spot | None]:
        """Note the batches behind the last entries, after `load_indexes`, and return the last one, if any.
        They are all durable. So if the largest timestamp is among them, entries by time are missing."""
        indexes, known, start = self.indexes, self.indexes.max_timestamp, self.indexes.last_position
        last = yield from self.catch_up_indexes(end_position)
        if indexes.times is not None and start and indexes.max_timestamp > known:
            log.warning("an index lacks entries and is rebuilt", path=indexes.times.path)
            indexes.clear()
            last = yield from self.catch_up_indexes(end_position)
        return last

    def catch_up_indexes(self, end_position: int | None = None) -> Steps[Spot | None]:
        """Note the batches behind the last entry by offset, and return the last one, if any."""
        last: Spot | None = None
        indexes = self.indexes
        walk = HeaderWalk(
            self.file, indexes.last_position, self.file.size if end_position is None else end_position
        )
        while (spot := (yield from walk.next())) is not None:
            last = spot
            self._note_spot(indexes, spot)
        return last

    def rebuild_indexes(self, path: str) -> Steps[None]:
        """Make new indexes, and use them when they are complete. Appends may come meanwhile. No effect if the
        segment is cut meanwhile."""
        log.warning("an index is wrong and is rebuilt", path=path)
        cuts = self._cuts
        fresh = self._new_indexes()
        fresh.hold_back()
        position = 0
        while position < self.file.size:
            walk = HeaderWalk(self.file, position, self.file.size)
            while (spot := (yield from walk.next())) is not None:
                self._note_spot(fresh, spot)
            position = walk.end
        if self._cuts == cuts:
            self.indexes.clear()
            fresh.add_max()
            fresh.release()
            self.indexes = fresh

    def _note_spot(self, indexes: SegmentIndexes, spot: Spot) -> None:
        if (
            not 0
            <= spot.base_offset - self.base_offset
            <= _MAX_RELATIVE_OFFSET - (spot.end_offset - spot.base_offset)
        ):
            raise DamagedLogError(
                self.file.path, spot.position, f"offset {spot.base_offset} can't be in this segment"
            )
        indexes.note_batch(
            position=spot.position,
            last_offset=spot.end_offset - 1,
            first_timestamp=spot.first_timestamp,
            max_timestamp=spot.max_timestamp,
        )

    def _is_batch(self, relative_last_offset: int, position: int) -> Steps[bool]:
        return is_batch(self.file, position, last_offset=self.base_offset + relative_last_offset)

    def _is_time(self, entry: TimeEntry) -> Steps[bool]:
        """Return whether an entry by time agrees with its batch."""
        last_offset = self.base_offset + entry.relative_offset
        spot = yield from self._walk_to(last_offset)
        return (
            spot is not None and spot.end_offset == last_offset + 1 and spot.max_timestamp == entry.timestamp
        )

    def _walk_to(self, offset: int) -> Steps[Spot | None]:
        """Return the first batch that ends above `offset`, by a correct index by offset."""
        entry = self.indexes.offsets.floor(offset - self.base_offset)
        start = 0 if entry is None else entry[1]
        for part in self.damaged:
            if part.end_offset <= offset:
                start = max(start, part.end)
        walk = HeaderWalk(self.file, start, self.file.size)
        while (spot := (yield from walk.next())) is not None and spot.end_offset <= offset:
            pass
        return spot

    def find(self, offset: int) -> Steps[Spot | None]:
        """Return the first batch that ends above `offset`. None: all end at or below it. Raises
        `DamagedLogError`."""
        entry = self.indexes.offsets.floor(offset - self.base_offset)
        part = None if entry is None else self._part_at(entry[1])
        if part is not None and offset < part.end_offset:
            raise DamagedLogError(self.file.path, part.start, "what is here is damaged")
        if part is None and entry is not None and not (yield from self._is_batch(*entry)):
            yield from self.rebuild_indexes(self.indexes.offsets_path)
        return (yield from self._walk_to(offset))

    def find_timestamp(self, timestamp: int, from_offset: int) -> Steps[Spot | None]:
        """Return the first batch that ends above `from_offset` and, by its header, has a record at or after
        `timestamp` (ms). None: there is none. A bare header has no record, even if it has a timestamp."""
        first = yield from self._find_time(timestamp)
        relative = max(from_offset - self.base_offset, first)
        entry = None if self.damaged else self.indexes.offsets.floor(relative)
        if entry is not None and not (yield from self._is_batch(*entry)):
            yield from self.rebuild_indexes(self.indexes.offsets_path)
            entry = self.indexes.offsets.floor(relative)
        position = 0 if entry is None else entry[1]
        while position < self.file.size:
            stop, resume = self._next_part(position)
            walk = HeaderWalk(self.file, position, stop)
            while (spot := (yield from walk.next())) is not None:
                if spot.max_timestamp >= timestamp and spot.end_offset > from_offset and spot.count:
                    return spot
            position = resume
        return None

    def _part_at(self, position: int) -> DamagedPart | None:
        return next((each for each in self.damaged if each.start <= position < each.end), None)

    def _next_part(self, position: int) -> tuple[int, int]:
        """Return the end of the whole batches from `position` on, as far as is known, and where the next
        begin."""
        for part in self.damaged:
            if part.end > position:
                return max(part.start, position), part.end
        return self.file.size, self.file.size

    def _find_time(self, timestamp: int) -> Steps[int]:
        """Return the last offset, relative to the base, of a batch before which all records are earlier than
        `timestamp`. 0: none is known."""
        times = self.indexes.times
        if times is None or self.damaged:
            return 0
        found = yield from times.floor(timestamp)
        if found is None:
            return 0
        if not (yield from self._is_time(found)):
            yield from self.rebuild_indexes(times.path)
            times = self.indexes.times
            found = None if times is None else (yield from times.floor(timestamp))
        return 0 if found is None else found.relative_offset

    def extent(self, start: Spot, *, max_bytes: int, end_offset: int) -> Steps[int]:
        """Return the end position of the whole batches from `start` on, within `max_bytes`, that end at or
        below `end_offset`, or `start.position` if there are none. They end before damage."""
        end_position = start.position + max_bytes
        for part in reversed(self.damaged):
            if part.start > start.position:
                end_position = min(end_position, part.start)
        entry = self.indexes.offsets.floor_position(end_position)
        by_offset = self.indexes.offsets.floor(end_offset - self.base_offset)
        if entry is not None and by_offset is not None:
            entry = min(entry, by_offset)
        position = start.position
        if (
            entry is not None
            and by_offset is not None
            and entry[1] > position
            and (yield from self._is_batch(*entry))
        ):
            position = entry[1]
        # Batches appended meanwhile are left to the next read.
        walk = HeaderWalk(self.file, position, self.file.size)
        try:
            while walk.position < end_position and (spot := (yield from walk.next())) is not None:
                if spot.end_offset > end_offset or spot.position + spot.size > end_position:
                    return spot.position
        except DamagedLogError as error:
            if error.position == start.position:
                raise
            return error.position
        return walk.position

    def cut(self, position: int, end_offset: int) -> None:
        """Cut the file and the indexes to what ends at `end_offset`. Durable after the next sync of the file.
        The batches behind the last entries must be noted again (`catch_up_indexes`)."""
        self.writes += 1
        self._cuts += 1
        self.damaged = tuple(each for each in self.damaged if each.end <= position)
        self.file.truncate(position)
        self._reserved_end = 0
        self.indexes.cut(position, end_offset)
        self.indexes.save()

    def indexed_position(self, offset: int) -> int:
        """Return the position of a batch that ends at or below `offset`. 0: the index has none."""
        entry = self.indexes.offsets.floor(offset - self.base_offset - 1)
        return 0 if entry is None or not read_now(self._is_batch(*entry)) else entry[1]

    def open_again(self) -> File:
        """Open the file once more, for a reader that takes its time. Raises `FileNotFoundError`,
        `DiskError`."""
        return self._disk.open(self.path)

    def mend_index_files(self, wrong: str | None) -> Steps[None]:
        """Write the indexes' files again if they differ from memory. `wrong`: the path of an index that the
        batches contradict. Both are rebuilt then. Raises `DiskError`, `DamagedLogError`."""
        if wrong is not None:
            yield from self.rebuild_indexes(wrong)
        elif not (yield from self.indexes.offsets.agrees(self._disk, self.indexes.offsets_path)):
            log.warning("an index is wrong and is rebuilt", path=self.indexes.offsets_path)
            self.indexes.offsets.forget_file()
            self.indexes.save()

    def close(self) -> None:
        self.file.close()

    def remove(self) -> None:
        """Remove the files. Durable after a sync of the folder."""
        self.close()
        self._cuts += 1
        self._disk.remove(self.path)
        self.indexes.remove()
