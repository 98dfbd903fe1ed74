"""The choice of the logs to compact, the dirtiest first (KIP-58, KIP-354), and the figures of compaction for
metrics."""

from dataclasses import dataclass, field

from quorate.broker.replication.replica.partition_replica import PartitionReplica
from quorate.broker.replication.replica.replica_parts import CompactionSettings
from quorate.broker.settings.config_key import LONG_MAX
from quorate.log.compaction.dirty import DirtySurvey, compactable_end, survey
from quorate.log.compaction.terms import CompactionBounds, CompactionResult
from quorate.types import Offset


@dataclass(slots=True)
class CleaningStats:
    """Since the broker started. Times in seconds, of trio's clock."""

    passes: int = 0
    """Passes that ended well."""
    bytes_before: int = 0
    """The bytes that passes read. `bytes_after`: the bytes that they left of them."""
    bytes_after: int = 0
    records_before: int = 0
    records_after: int = 0
    longest_s: float = 0.0
    """The longest of the last passes, one of each of the logs that were compacted in the last round."""
    dirtiest: float = 0.0
    """The largest share of dirty bytes of any log, at the last look."""
    longest_delay_s: float = 0.0
    """The time by which the oldest dirty record was above max.compaction.lag.ms, at the last look."""
    looked_at: float | None = None
    """The time of the last look at all logs. None: there was none."""
    uncleanable: dict[str, tuple[int, int]] = field(default_factory=dict)
    """By directory: the logs that can't be compacted, and their dirty bytes."""
    recopied_percent: float = 0.0
    """The share of the bytes read that the passes of the last round left."""

    def ended(self, result: CompactionResult, *, seconds: float) -> None:
        """Count a pass that has ended."""
        self.passes += 1
        self.bytes_before += result.bytes_before
        self.bytes_after += result.bytes_after
        self.records_before += result.records_before
        self.records_after += result.records_after
        self.longest_s = max(self.longest_s, seconds)


@dataclass(frozen=True, slots=True)
class Look:
    """A compacted log as it was found."""

    bounds: CompactionBounds
    survey: DirtySurvey

    @property
    def ratio(self) -> float:
        """The share of bytes that are dirty and may be compacted."""
        return self.survey.dirty_ratio

    def delay_ms(self, settings: CompactionSettings, *, now_ms: int) -> int:
        """Return for how long the oldest dirty record has waited beyond max.compaction.lag.ms."""
        oldest = self.survey.first_dirty_ms
        if oldest is None:
            return 0
        return max(0, now_ms - oldest - settings.max_lag_ms)


@dataclass(slots=True)
class CleaningState:
    """The cleaner's memory of one log, until the broker stops. Times are in ms since 1970."""

    uncleanable: str | None = None
    """Why it is not compacted until the broker starts again."""
    fruitless: CompactionBounds | None = None
    """A pass over these bounds got no further, and none will until they change (KAFKA-8764)."""
    postponed_until: float = 0.0
    """The time, of trio's clock, before which it isn't tried again."""
    tombstones_until_ms: int | None = None
    """The time at which the first tombstone that a pass left may go. None: it left none."""
    look: Look | None = None
    """The last look, while nothing has changed that it depends on."""
    seen_end: Offset = Offset(-1)
    """The log's end at the last look."""


async def look_at(
    partition: PartitionReplica,
    settings: CompactionSettings,
    *,
    cleaned: Offset,
    now_ms: int,
    before: Look | None,
) -> Look:
    """Find what of a log is dirty and may be compacted: below the high watermark, in closed segments, and
    older than min.compaction.lag.ms. An idle log is as it was at the look `before`. Raises `DiskError`,
    `LogError`."""
    log = partition.log
    # A log that begins anew may start above what was compacted, or DeleteRecords may have raised its start.
    start = Offset(max(cleaned, log.log_start_offset))
    # Without a lag, a record of the future may be compacted too.
    newest_ms = now_ms - settings.min_lag_ms if settings.min_lag_ms else LONG_MAX
    end = compactable_end(log, dirty_start=start, limit=partition.high_watermark, newest_ms=newest_ms)
    bounds = CompactionBounds(dirty_start=start, end=max(start, end))
    if before is not None and before.bounds == bounds:
        return before
    return Look(bounds, await survey(log, dirty_start=start, end=bounds.end))


def is_due(look: Look, settings: CompactionSettings, *, now_ms: int) -> bool:
    """Return whether a log is dirty enough, or a record in it has waited for too long."""
    if look.bounds.end <= look.bounds.dirty_start or not look.survey.dirty_bytes:
        return False
    return look.ratio > settings.dirty_ratio or look.delay_ms(settings, now_ms=now_ms) > 0
