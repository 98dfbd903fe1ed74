"""The configuration of a broker's replication."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicationConfig:
    """The configuration of replication. Fields have the names of Kafka's keys, with `_` for `.`, and
    Kafka's defaults. Durations are in ms, sizes in bytes."""

    replica_lag_time_max_ms: int = 30_000
    replica_fetch_wait_max_ms: int = 500
    replica_fetch_min_bytes: int = 1
    replica_fetch_max_bytes: int = 1_048_576
    replica_fetch_response_max_bytes: int = 10_485_760
    replica_fetch_backoff_ms: int = 1000
    """The longest pause after an error; the first is `replica_fetch_backoff_min_ms`."""
    replica_fetch_backoff_min_ms: int = 20
    """Ours: doubled with each error in a row, so that a leader that is a moment late costs no second."""
    replica_socket_timeout_ms: int = 30_000
    replica_high_watermark_checkpoint_interval_ms: int = 5000
    log_flush_offset_checkpoint_interval_ms: int = 60_000
    """The interval at which partitions are synced, their producers saved and recovery points written."""
    log_retention_check_interval_ms: int = 300_000
    log_cleaner_enable: bool = True
    log_cleaner_threads: int = 1
    """The logs that are compacted at once."""
    log_cleaner_backoff_ms: int = 15_000
    log_cleaner_io_max_bytes_per_second: float = float("inf")
    log_cleaner_dedupe_buffer_size: int = 134_217_728
    producer_id_expiration_ms: int = 86_400_000
    log_close_timeout_ms: int = 60_000
    """Ours: a disk that takes longer to sync everything at shutdown is given up."""
    alter_partition_retry_ms: int = 50
    """Ours: the pause between tries to reach the controller."""
    broker_session_timeout_ms: int = 9000
    """The silence of the controller and of every follower after which a leader takes itself for cut off."""
    log_dir_failure_timeout_ms: int = 30_000
    """The time that a replica leads though its log can't be opened for want of file descriptors, if others
    can."""
    reads_from_closest_replica: bool = False
    """`replica.selector.class` names Kafka's RackAwareReplicaSelector (KIP-392)."""
    fetch_max_bytes: int = 57_671_680
    """Upper bound of one Fetch answer, whatever the client asks for."""
    max_incremental_fetch_session_cache_slots: int = 1000
    """The most fetch sessions (KIP-227) that are kept; 0: none."""
    batch_uncompressed_max_bytes: int = 104_857_600
    """Ours: the limit of a produced batch after decompression; as large as a request may be."""
    scrub_interval_ms: int = 604_800_000
    """Ours: each closed segment is read and checked once in so long; 0: no scrub."""
    scrub_io_max_bytes_per_second: int = 8_388_608
    """Ours: so much of that per directory."""
    replica_refetch_damaged: bool = False
    """Ours: a damaged replica is fetched anew by itself, as soon as enough others are in sync."""
    free_warn_percent: int = 10
    """Ours: a directory whose file system has less than this share free is told of; 0: not by that."""
    free_warn_bytes: int = 0
    """Ours: the same by bytes."""
