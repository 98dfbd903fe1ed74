"""The dirty part of a log, and the end that a compaction may reach."""

from dataclasses import dataclass

from quorate.log.log import Log
from quorate.log.segments.cold_reads import read_cold
from quorate.log.segments.segment import Segment
from quorate.log.segments.walk import HeaderWalk, Steps
from quorate.types import Offset


@dataclass(frozen=True, slots=True, kw_only=True)
class DirtySurvey:
    """Sizes in bytes, of batches."""

    clean_bytes: int
    """The size below the dirty start."""
    dirty_bytes: int
    """The size from there to the requested end."""
    first_dirty_ms: int | None
    """The oldest timestamp (ms) that a dirty segment begins with, for `max.compaction.lag.ms`; None: there is
    none. Timestamps that are not positive don't count, as in Kafka."""

    @property
    def dirty_ratio(self) -> float:
        """The share of dirty bytes, for `min.cleanable.dirty.ratio`; 0 for nothing."""
        return self.dirty_bytes / max(self.clean_bytes + self.dirty_bytes, 1)


def compactable_end(log: Log, *, dirty_start: Offset, limit: Offset, newest_ms: int) -> Offset:
    """Return how far a compaction may reach: not above `limit` (the high watermark), nor into the segment
    that is appended to, nor into a segment from `dirty_start` on with a record later than `newest_ms` (now
    less `min.compaction.lag.ms`). At least the log's first offset."""
    end = min(limit, log.active_base_offset)
    for segment, segment_end in log.closed_spans():
        if segment_end > dirty_start and segment.max_timestamp > newest_ms:
            end = min(end, Offset(segment.base_offset))
            break
    return max(end, log.first_base_offset)


async def survey(log: Log, *, dirty_start: Offset, end: Offset) -> DirtySurvey:
    """Look at the closed segments below `end`: the indexes, and a header of each dirty one. Raises
    `DamagedLogError`, `DiskError`; `CompactionAbandonedError` is left to `compact`."""
    clean = dirty = 0
    first_ms: int | None = None
    for segment, segment_end in log.closed_spans():
        if segment.base_offset >= end:
            break
        below_end = segment.size
        if segment_end > end:
            below_end = await read_cold(_position_of(segment, end))
        below_dirty = below_end
        if segment_end > dirty_start:
            below_dirty = min(below_end, await read_cold(_position_of(segment, dirty_start)))
        clean += below_dirty
        if below_end > below_dirty:
            dirty += below_end - below_dirty
            found = await read_cold(_first_timestamp(segment, below_dirty))
            if found > 0:
                first_ms = found if first_ms is None else min(first_ms, found)
    return DirtySurvey(clean_bytes=clean, dirty_bytes=dirty, first_dirty_ms=first_ms)


def _position_of(segment: Segment, offset: int) -> Steps[int]:
    spot = yield from segment.find(offset)
    return segment.size if spot is None else spot.position


def _first_timestamp(segment: Segment, position: int) -> Steps[int]:
    spot = yield from HeaderWalk(segment.file, position, segment.size).next()
    return -1 if spot is None else spot.first_timestamp
