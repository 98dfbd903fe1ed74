"""A topic's settings as its replicas apply them."""

from typing import Final

from quorate.broker.replication.foundation.replication_quota import is_throttled
from quorate.broker.replication.producing.batch_check import ProduceRules
from quorate.broker.replication.replica.partition_replica import PartitionReplica
from quorate.broker.replication.replica.replica_parts import CompactionSettings
from quorate.broker.settings.topic_config import TopicConfig
from quorate.log import LogConfig

_LARGEST_BATCH: Final = 2**31 - 1


def configure(partition: PartitionReplica, config: TopicConfig) -> None:
    """Apply changed topic settings to the partition."""
    partition.min_isr = config.min_insync_replicas
    partition.rules = ProduceRules.of(config)
    partition.log.configure(log_config(config))
    partition.compaction.configure(CompactionSettings.of(config))
    partition.leader_throttled = _throttled(partition, config.leader_replication_throttled_replicas)
    partition.follower_throttled = _throttled(partition, config.follower_replication_throttled_replicas)
    partition.advance_high_watermark()


def _throttled(partition: PartitionReplica, replicas: str) -> bool:
    return bool(replicas) and is_throttled(
        replicas, partition_id=partition.partition_id, broker_id=partition.broker_id
    )


def log_config(config: TopicConfig) -> LogConfig:
    """Return the configuration of the log of a topic's partition."""
    return LogConfig(
        segment_bytes=config.segment_bytes,
        # A record of a compacted topic must not wait for its segment to roll.
        segment_ms=min(config.segment_ms, config.max_compaction_lag_ms)
        if config.cleanup_compact
        else config.segment_ms,
        index_interval_bytes=config.index_interval_bytes,
        segment_index_bytes=config.segment_index_bytes,
        # Producers are held to max.message.bytes, which may shrink below what is there.
        max_batch_bytes=_LARGEST_BATCH,
    )
