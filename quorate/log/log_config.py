"""The configuration of one log."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class LogConfig:
    """The configuration of one log. Fields that are also topic keys of Kafka have Kafka's names and defaults.
    Durations are in ms, sizes in bytes."""

    segment_bytes: int = 1024 * 1024 * 1024
    segment_ms: int = 7 * 24 * 3600 * 1000
    """The maximum time between the first and the last timestamp of a segment, as in Kafka."""
    index_interval_bytes: int = 4096
    segment_index_bytes: int = 10 * 1024 * 1024
    max_batch_bytes: int = 1024 * 1024 + 12
    tail_bytes: int = 1024 * 1024
    """The size of the log's end that is kept in memory for Fetches."""
    reserve_bytes: int = 0
    """The step by which a segment's file is preallocated, so that a sync after an append commits no new
    file size (`File.reserve`). 0: no preallocation. The metadata log uses it, because it syncs after each
    append."""
    own_recovery_point: bool = False
    """True, for the metadata log: the log stores its recovery point itself, and checks every record below
    it when it is opened. False: the owner stores it, one checkpoint per data directory, and passes it to
    `open`."""
    recovery_point_interval_bytes: int = 4 * 1024 * 1024
    """The approximate maximum size of the log above an own recovery point, after a sync."""
