"""How one log is kept."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class LogConfig:
    """Kafka's topic configuration of the same names where it has one."""

    segment_bytes: int = 1024 * 1024 * 1024
    segment_ms: int = 7 * 24 * 3600 * 1000
    """By the records' timestamps, as Kafka rolls."""
    index_interval_bytes: int = 4096
    segment_index_bytes: int = 10 * 1024 * 1024
    max_batch_bytes: int = 1024 * 1024 + 12
    tail_bytes: int = 1024 * 1024
    """How much of the end is kept in memory for Fetches."""
    reserve_bytes: int = 0
    """Room made ahead in a segment's file, in steps of this size, so that a sync after an append commits no
    new file size (`File.reserve`). For the metadata log, which is synced for each; 0 is off."""
    own_recovery_point: bool = False
    """For the metadata log: the log keeps its recovery point itself, and checks every record below it when
    opened. Otherwise the owner keeps it (one checkpoint per data directory) and passes it to `open`."""
    recovery_point_interval_bytes: int = 4 * 1024 * 1024
    """At most about this much is above an own recovery point after a sync."""
