"""The values that a compaction is given, and those that it gives back."""

from dataclasses import dataclass
from typing import Protocol

from quorate.log.batches.batch import BatchHeader
from quorate.log.log_errors import LogError
from quorate.types import Offset


class OffsetMapTooSmallError(LogError):
    """One batch has more records than the offset map takes keys, so the log can't be compacted."""

    def __init__(self, folder: str, *, offset: int, records: int, map_bytes: int) -> None:
        super().__init__(
            f"{folder}: the batch at offset {offset} has {records} records, more than an offset map of "
            f"{map_bytes} bytes takes keys; raise log.cleaner.dedupe.buffer.size"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionBounds:
    """The range of offsets in which a compaction looks for keys."""

    dirty_start: Offset
    """The first offset that no compaction has reached: `CompactionResult.cleaned_to` of the last one."""
    end: Offset
    """Exclusive. It is not above the high watermark, nor the base of the segment that is appended to, and the
    records below it have reached `min.compaction.lag.ms`: the caller sees to that (`compactable_end`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionRules:
    """Durations and times in ms."""

    now_ms: int
    """The wall clock's time, for delete horizons."""
    delete_retention_ms: int
    """The time that a tombstone stays after the first compaction that met it (`delete.retention.ms`)."""
    map_bytes: int
    """The memory for the last offset of each key. If it is full, the compaction ends earlier."""
    uncompressed_max_bytes: int = 2**31 - 1
    """The maximum size of a batch's decompressed records. A larger batch counts as damaged."""


class Pace(Protocol):
    """The rate of a compaction."""

    async def moved(self, bytes_read: int, bytes_written: int) -> None:
        """Return when it may go on. Called after each piece of some hundred KiB."""
        ...


class LastSequences(Protocol):
    """The last sequences of the producers that the log knows."""

    def __call__(self, header: BatchHeader) -> bool:
        """Return whether the log needs this batch's header to know its producer's last sequence. Asked by
        offset, not by sequence: some writers always begin at 0 (KAFKA-8335). Must be fast."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionResult:
    """The outcome of a compaction. Counts are of the segments that it read for copying."""

    cleaned_to: Offset
    """The next compaction's `dirty_start`: the end of the last batch whose keys were noted."""
    map_full: bool
    """True if the offset map could not take all keys. `cleaned_to` is then below the end of the bounds, and
    another compaction continues there."""
    bytes_before: int
    bytes_after: int
    records_before: int
    records_after: int
    tombstones_kept: int
    tombstones_dropped: int
    """The number of tombstones removed after their horizon."""
    next_horizon_ms: int | None
    """The time at which the first of the kept tombstones may be removed. A log without writes needs a
    compaction then. None: no tombstone was kept."""
