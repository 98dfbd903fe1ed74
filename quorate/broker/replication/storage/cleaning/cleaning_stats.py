"""The figures of a broker's compactions, for metrics."""

from dataclasses import dataclass, field

from quorate.log.compaction import CompactionResult


@dataclass(slots=True)
class CleaningStats:
    """Since the broker started. Times in seconds, of trio's clock."""

    passes: int = 0
    """Passes that ended well."""
    bytes_before: int = 0
    """The sizes of what passes read, and what they left of it."""
    bytes_after: int = 0
    records_before: int = 0
    records_after: int = 0
    longest_s: float = 0.0
    """The longest of the last passes, one of each of the logs that were compacted in the last round."""
    dirtiest: float = 0.0
    """The largest share of dirty bytes of any log, at the last look."""
    longest_delay_s: float = 0.0
    """How far the oldest dirty record was above max.compaction.lag.ms, at the last look."""
    looked_at: float | None = None
    """The time of the last look at all logs. None: there was none."""
    uncleanable: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Of each directory: the logs that can't be compacted, and their dirty bytes."""
    recopied_percent: float = 0.0
    """What the passes of the last round left, of what they read."""

    def ended(self, result: CompactionResult, *, seconds: float) -> None:
        """Count a pass that has ended."""
        self.passes += 1
        self.bytes_before += result.bytes_before
        self.bytes_after += result.bytes_after
        self.records_before += result.records_before
        self.records_after += result.records_after
        self.longest_s = max(self.longest_s, seconds)
