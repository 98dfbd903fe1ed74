"""A check of a segment: every batch against its CRC, its place and its epoch, and the indexes against the
batches."""

from collections.abc import Awaitable, Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from itertools import chain
from typing import Final, TypeAlias

from crc32c import crc32c

from quorate.log.batches.batch import CRC_START, HEADER_BYTES, BatchHeader, read_header, stated_size
from quorate.log.log_errors import InvalidBatchError
from quorate.log.segments.cold_reads import read_cold
from quorate.log.segments.segment import DamagedPart, Segment
from quorate.log.segments.time_index import TimeEntry
from quorate.runtime import DiskError, File, Slices
from quorate.types import Epoch, Offset

_CHUNK_BYTES: Final = 256 * 1024
_CRC_BYTES: Final = 4 * 1024 * 1024
"""The bytes of a CRC in one step: 1 ms."""
_RANGES_MAX: Final = 100

Pace: TypeAlias = Callable[[int], Awaitable[None]]
"""Waits until so many more bytes may be read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DamagedRange:
    """A range of offsets with damaged or missing records."""

    path: str
    """The path of the segment's file."""
    position: int
    """The byte at which the first damaged batch starts, or should."""
    start_offset: Offset
    end_offset: Offset
    """The exclusive end: there the next whole batch starts, or the segment ends."""
    problem: str


@dataclass(slots=True)
class SegmentFindings:
    """The outcome of the check of a segment."""

    damaged: list[DamagedRange] = field(default_factory=list)
    """The first hundred damaged ranges, in ascending order."""
    parts: list[DamagedPart] = field(default_factory=list)
    """All damaged parts, as the segment needs them."""
    wrong_index: str | None = None
    """The path of an index that the batches contradict."""
    bytes_read: int = 0


class SegmentCheck:
    """One pass over the first `size` bytes of a segment, which end at `end_offset`. `epoch_at`: the leader
    epoch of an offset; None: not known."""

    def __init__(
        self,
        segment: Segment,
        *,
        size: int,
        end_offset: Offset,
        epoch_at: Callable[[int], Epoch | None],
        pace: Pace,
    ) -> None:
        self._segment = segment
        self._size = size
        self._end_offset = end_offset
        self._epoch_at = epoch_at
        self._pace = pace
        self._chunk = b""
        self._chunk_start = 0
        self._slices = Slices()
        self._next_entry = 0
        self.findings = SegmentFindings()

    async def run(self) -> SegmentFindings:
        """Read to the end, a few milliseconds at a time. What the device can't read is damaged too. Raises
        `DiskError`."""
        try:
            file = self._segment.open_again()
        except FileNotFoundError:
            base = Offset(self._segment.base_offset)
            self._note_damage(0, self._size, base, self._end_offset, "the file is gone")
            return self.findings
        with closing(file):
            await self._run(file)
        return self.findings

    async def _run(self, file: File) -> None:
        times = self._segment.indexes.times
        entries = None if times is None else await read_cold(times.saved_entries())
        if times is not None and entries is None:
            self._note_wrong_index(times.path)
        time = None if entries is None else next(entries, None)
        position, offset = 0, Offset(self._segment.base_offset)
        while position < self._size:
            await self._slices.pause()
            found = await self._batch_at(file, position, offset)
            if isinstance(found, str):
                position, offset = await self._skip_damage(file, position, offset, found)
                continue
            self._compare_offsets(position, found)
            last = found.end_offset - 1 - self._segment.base_offset
            while entries is not None and time is not None and time.relative_offset <= last:
                self._compare_time(time, last, found)
                time = next(entries, None)
            position += found.size
            offset = Offset(found.end_offset)
        if offset < self._end_offset:
            self._note_damage(
                position, position, offset, self._end_offset, f"the segment ends at offset {offset}"
            )
        if self._next_entry < len(self._segment.indexes.offsets) and position == self._segment.size:
            self._note_wrong_index(self._segment.indexes.offsets_path)
        if time is not None and times is not None and position == self._segment.size:
            self._note_wrong_index(times.path)

    async def _batch_at(self, file: File, position: int, offset: Offset | None) -> BatchHeader | str:
        """Return the batch there, or its problem. `offset`: the offset at which it must start. None: any."""
        left = self._size - position
        if left < HEADER_BYTES:
            return f"{left} bytes are too few for a header"
        problem = await self._fill_chunk(file, position, HEADER_BYTES)
        if problem is not None:
            return problem
        size = stated_size(self._chunk, position - self._chunk_start)
        if size > left:
            return f"a batch of {size} bytes is cut off after {left}"
        problem = await self._fill_chunk(file, position, max(size, HEADER_BYTES))
        if problem is not None:
            return problem
        at = position - self._chunk_start
        try:
            header = read_header(self._chunk, at, dense=False, check_crc=size <= _CRC_BYTES)
        except InvalidBatchError as error:
            return error.problem
        if size > _CRC_BYTES and await self._take_crc(at, size) != header.crc:
            return "the CRC is wrong"
        if offset is not None and header.base_offset != offset:
            return f"offset {header.base_offset} where {offset} was expected"
        if header.end_offset > self._end_offset:
            return f"offset {header.end_offset - 1} in a segment that ends at {self._end_offset}"
        epoch = self._epoch_at(header.base_offset)
        if epoch is not None and header.leader_epoch != epoch:
            return f"epoch {header.leader_epoch} where {epoch} was expected"
        return header

    async def _take_crc(self, at: int, size: int) -> int:
        view, crc = memoryview(self._chunk), 0
        for start in range(at + CRC_START, at + size, _CRC_BYTES):
            crc = crc32c(view[start : min(start + _CRC_BYTES, at + size)], crc)
            await self._slices.pause()
        return crc

    async def _fill_chunk(self, file: File, position: int, size: int) -> str | None:
        """Read the bytes into the chunk, if they are not there. Returns the problem, None on success."""
        at = position - self._chunk_start
        if at < 0 or at + size > len(self._chunk):
            wanted = min(max(size, _CHUNK_BYTES), self._size - position)
            await self._pace(wanted)
            self._chunk, self._chunk_start = b"", position
            try:
                self._chunk = await file.read_once(position, wanted)
            except DiskError as error:
                return f"it can't be read: {error}"
            self.findings.bytes_read += wanted
            if len(self._chunk) < size:
                return f"the file ends after {position + len(self._chunk)} bytes"
        return None

    async def _skip_damage(
        self, file: File, position: int, offset: Offset, problem: str
    ) -> tuple[int, Offset]:
        """Note the damage, and return where the next whole batch is: where the damaged one ends, or at an
        entry of the index behind it."""
        found = await self._next_whole(file, position, offset)
        end_position, end = (self._size, self._end_offset) if found is None else found
        self._note_damage(position, end_position, offset, end, problem)
        # Index entries of damaged batches can't be checked.
        while (entry := self._entry()) is not None and entry[1] < end_position:
            self._next_entry += 1
        return end_position, end

    async def _next_whole(self, file: File, position: int, offset: Offset) -> tuple[int, Offset] | None:
        for candidate in chain(await self._stated_end(file, position), self._indexed_behind(position)):
            await self._slices.pause()
            found = await self._batch_at(file, candidate, None)
            if not isinstance(found, str) and found.base_offset > offset:
                return candidate, Offset(found.base_offset)
        return None

    async def _stated_end(self, file: File, position: int) -> list[int]:
        """Return the end of the damaged batch, if its length is possible."""
        if self._size - position < HEADER_BYTES:
            return []
        if await self._fill_chunk(file, position, HEADER_BYTES) is not None:
            return []
        end = position + stated_size(self._chunk, position - self._chunk_start)
        return [end] if position + HEADER_BYTES <= end < self._size else []

    def _indexed_behind(self, position: int) -> Iterator[int]:
        number, offsets = self._next_entry, self._segment.indexes.offsets
        while (entry := offsets.entry(number)) is not None:
            if entry[1] > position:
                yield entry[1]
            number += 1

    def _note_damage(
        self, position: int, end_position: int, start: Offset, end: Offset, problem: str
    ) -> None:
        self.findings.parts.append(DamagedPart(position, end_position, end))
        if len(self.findings.damaged) < _RANGES_MAX:
            self.findings.damaged.append(
                DamagedRange(
                    path=self._segment.path,
                    position=position,
                    start_offset=start,
                    end_offset=end,
                    problem=problem,
                )
            )

    # The indexes

    def _entry(self) -> tuple[int, int] | None:
        return self._segment.indexes.offsets.entry(self._next_entry)

    def _compare_offsets(self, position: int, header: BatchHeader) -> None:
        last = header.end_offset - 1 - self._segment.base_offset
        while (entry := self._entry()) is not None and entry[1] <= position:
            if entry != (last, position):
                self._note_wrong_index(self._segment.indexes.offsets_path)
            self._next_entry += 1

    def _compare_time(self, time: TimeEntry, last: int, header: BatchHeader) -> None:
        times = self._segment.indexes.times
        if times is not None and time != (header.max_timestamp, last):
            self._note_wrong_index(times.path)

    def _note_wrong_index(self, path: str) -> None:
        self.findings.wrong_index = self.findings.wrong_index or path
