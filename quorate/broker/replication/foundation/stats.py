"""The counts of replication, for metrics and tests."""

from dataclasses import dataclass, field


@dataclass(slots=True)
class ReplicationStats:
    """Counters since the broker started."""

    duplicate_batches: int = 0
    """Batches of idempotent producers recognised as sent before."""
    appended_bytes: int = 0
    """Bytes appended as leader, from producers."""
    replicated_bytes: int = 0
    """Bytes appended as follower, from leaders."""
    bytes_to_consumers: int = 0
    bytes_to_followers: int = 0
    """Bytes sent to followers, as leader."""
    reassignment_bytes_in: int = 0
    """Bytes appended here as a replica that is being added (KIP-455)."""
    reassignment_bytes_out: int = 0
    """Bytes read here for replicas that are being added, as leader."""
    isr_shrinks: int = 0
    isr_expands: int = 0
    failed_isr_updates: int = 0
    truncations: int = 0
    truncations_below_high_watermark: int = 0
    fetch_errors: int = 0
    """Fetches from leaders that failed as a whole."""
    expired_produces: int = 0
    usable_bytes: dict[str, int] = field(default_factory=dict)
    """By directory: the free bytes of its file system."""
    total_bytes: dict[str, int] = field(default_factory=dict)
    """By directory: the bytes of its file system."""
    scrubbed_bytes: int = 0
    """Bytes of segments that the scrub has read."""
    scrubbed_since_ms: dict[str, int] = field(default_factory=dict)
    """By directory: the end of the oldest last check of its replicas, on the wall clock; 0: one was never
    checked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionCounts:
    """Gauges over the partitions of this broker, Kafka's names."""

    partition_count: int
    leader_count: int
    under_replicated_partitions: int
    under_min_isr_partition_count: int
    at_min_isr_partition_count: int
    offline_replica_count: int
    damaged_replica_count: int
    reassigning_partitions: int
    """Led here, with replicas that are being added or removed (KIP-455)."""
    delayed_produces: int
    delayed_fetches: int
