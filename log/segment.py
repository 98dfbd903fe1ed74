"""One segment: a file of batches named by its base offset, and its index."""

from collections.abc import Iterator

from quorate.log.config import LogConfig
from quorate.log.offset_index import ENTRY_BYTES, OffsetIndex
from quorate.log.walk import HeaderWalk, Spot, Steps, is_batch, read_now
from quorate.runtime.disk import Buffer, Disk, File
from quorate.runtime.log import get_logger

log = get_logger(__name__)

LOG_SUFFIX = ".log"
INDEX_SUFFIX = ".index"
_SAVE_INDEX_ENTRIES = 64
_MAX_POSITION = 2**31 - 1
_MAX_RELATIVE_OFFSET = 2**31 - 1


class Segment:
    """Mutable; owned by one `Log`."""

    __slots__ = (
        "_config",
        "_disk",
        "_last_indexed",
        "_reserved_end",
        "_stem",
        "base_offset",
        "file",
        "first_timestamp",
        "index",
        "max_timestamp",
        "synced",
        "writes",
    )

    def __init__(
        self, disk: Disk, folder: str, base_offset: int, config: LogConfig, *, create: bool = False
    ) -> None:
        self._disk = disk
        self._config = config
        self._stem = f"{folder}/{base_offset:020}"
        self.base_offset = base_offset
        self.file: File = disk.open(self._stem + LOG_SUFFIX, create=create)
        self.index = OffsetIndex()
        self._last_indexed = 0
        """End of what is covered by the last index entry."""
        self._reserved_end = 0
        """Up to where room was asked for."""
        self.first_timestamp: int | None = None
        self.max_timestamp = -1
        self.writes = 0
        self.synced = 0
        """Which of the `writes` are durable."""

    @property
    def path(self) -> str:
        return self.file.path

    @property
    def size(self) -> int:
        return self.file.size

    def configure(self, config: LogConfig) -> None:
        self._config = config

    def has_room_for(self, size: int, *, end_offset: int, timestamp: int) -> bool:
        """Whether an append may go here, or the log must roll."""
        held = self.file.size
        if held == 0:
            return True
        return not (
            held + size > self._config.segment_bytes
            or held + size > _MAX_POSITION
            or end_offset - self.base_offset > _MAX_RELATIVE_OFFSET
            or (len(self.index) + 1) * ENTRY_BYTES > self._config.segment_index_bytes
            or (
                self.first_timestamp is not None
                and timestamp - self.first_timestamp > self._config.segment_ms
            )
        )

    def append(self, buffers: list[Buffer], size: int) -> int:
        """One vectored write of `size` bytes; the position of the first. `noted` must follow for each
        batch."""
        self.writes += 1
        if self._config.reserve_bytes:
            self._reserve(self.file.size + size)
        return self.file.append(buffers)

    def _reserve(self, end: int) -> None:
        if end > self._reserved_end:
            step = self._config.reserve_bytes
            # What rolls before it is full needs no more.
            self._reserved_end = max(end, min((end // step + 1) * step, self._config.segment_bytes))
            self.file.reserve(self._reserved_end)

    def release_reserve(self) -> None:
        """Cut the file to what was written, if there may be more. Durable after the next sync of the file."""
        if self._reserved_end > self.file.size:
            self.writes += 1
            self.file.truncate(self.file.size)
        self._reserved_end = 0

    def noted(self, *, position: int, last_offset: int, base_timestamp: int, max_timestamp: int) -> None:
        """A batch is at `position`: index it, if it is far enough from the last one that is."""
        if self.first_timestamp is None:
            self.first_timestamp = base_timestamp
        if max_timestamp > self.max_timestamp:
            self.max_timestamp = max_timestamp
        if position - self._last_indexed >= self._config.index_interval_bytes:
            self._last_indexed = position
            self.index.add(last_offset - self.base_offset, position)
            if self.index.unsaved >= _SAVE_INDEX_ENTRIES:
                self.save_index()

    def save_index(self) -> None:
        self.index.save(self._disk, self._stem + INDEX_SUFFIX)

    def load_index(self) -> None:
        """From its file; rebuilt from the batches if that is missing or wrong. Raises `DamagedLogError` if
        the batches can't be walked."""
        name = self._stem + INDEX_SUFFIX
        loaded = self.index.load(self._disk, name, segment_bytes=self.file.size)
        last = self.index.floor_position(_MAX_POSITION)
        if last is not None and not read_now(self._is_batch(*last)):
            loaded = False
        if not loaded:
            if self._disk.exists(name):
                log.warning("an index is wrong and is rebuilt", path=name)
            self.index.clear()
            last = None
        self._last_indexed = 0 if last is None else last[1]
        if self._last_indexed:
            first = next(self.walk(0))
            self.first_timestamp = first.base_timestamp

    def catch_up_index(self, end_position: int | None = None) -> Spot | None:
        """Walk what the index does not cover yet, and index it. The last batch, or None if there is none."""
        last: Spot | None = None
        for last in self.walk(self._last_indexed, end_position):
            self.noted(
                position=last.position,
                last_offset=last.end_offset - 1,
                base_timestamp=last.base_timestamp,
                max_timestamp=last.max_timestamp,
            )
        return last

    def walk(self, position: int, end_position: int | None = None) -> Iterator[Spot]:
        """The batches from `position` on, by their headers alone. Raises `DamagedLogError`."""
        walk = HeaderWalk(self.file, position, self.file.size if end_position is None else end_position)
        while (spot := read_now(walk.next())) is not None:
            yield spot

    def _is_batch(self, relative_last_offset: int, position: int) -> Steps[bool]:
        return is_batch(self.file, position, last_offset=self.base_offset + relative_last_offset)

    def find(self, offset: int) -> Steps[Spot | None]:
        """The first batch that ends above `offset`; None if all end at or below it."""
        entry = self.index.floor(offset - self.base_offset)
        if entry is not None and not (yield from self._is_batch(*entry)):
            log.warning("an index is wrong and is rebuilt", path=self._stem + INDEX_SUFFIX)
            self.rebuild_index()
            entry = self.index.floor(offset - self.base_offset)
        walk = HeaderWalk(self.file, 0 if entry is None else entry[1], self.file.size)
        while (spot := (yield from walk.next())) is not None and spot.end_offset <= offset:
            pass
        return spot

    def rebuild_index(self) -> None:
        self.index.clear()
        self._last_indexed = 0
        self.catch_up_index()

    def extent(self, start: Spot, *, max_bytes: int, max_offset: int) -> Steps[int]:
        """The end position of the whole batches from `start` on, within `max_bytes`, that end at or below
        `max_offset`; `start.position` if not even that one does."""
        limit = start.position + max_bytes
        entry = self.index.floor_position(limit)
        by_offset = self.index.floor(max_offset - self.base_offset)
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
        # What is appended meanwhile is left for the next read.
        walk = HeaderWalk(self.file, position, self.file.size)
        while (spot := (yield from walk.next())) is not None:
            if spot.end_offset > max_offset or spot.position + spot.size > limit:
                return spot.position
        return walk.end

    def cut(self, position: int) -> None:
        """Cut the file and the index. Durable after the next sync of the file."""
        self.writes += 1
        self.file.truncate(position)
        self._reserved_end = 0
        self.cut_index(position)
        if position == 0:
            self.first_timestamp = None
        self.save_index()

    def cut_index(self, position: int) -> None:
        """Forget the index entries at and above `position`."""
        self.index.cut(position)
        last = self.index.floor_position(_MAX_POSITION)
        self._last_indexed = 0 if last is None else last[1]

    def indexed_position(self, offset: int) -> int:
        """A position at which a batch starts that ends at or below `offset`; 0 if the index does not help."""
        entry = self.index.floor(offset - self.base_offset - 1)
        return 0 if entry is None or not read_now(self._is_batch(*entry)) else entry[1]

    def close(self) -> None:
        self.file.close()

    def remove(self) -> None:
        """The files go; durable after a sync of the folder."""
        self.close()
        self._disk.remove(self._stem + LOG_SUFFIX)
        if self._disk.exists(self._stem + INDEX_SUFFIX):
            self._disk.remove(self._stem + INDEX_SUFFIX)
