"""A replica is opened: where it may be, with which settings, and how many at once."""

import uuid
from collections.abc import Callable, Container
from typing import Final

import trio

from quorate.broker.metadata import (
    LOST,
    MIGRATING,
    NO_LEADER,
    LeaderRecoveryState,
    PartitionState,
    TopicConfig,
    is_reserved,
)
from quorate.broker.replication.foundation import ReplicationConfig, ReplicationStats, is_throttled
from quorate.broker.replication.producing import ProduceRules
from quorate.broker.replication.replica import CompactionSettings, Eligible, IsrProposal, PartitionReplica
from quorate.broker.replication.storage import LogManager, PartitionIdentity, folder_name
from quorate.log import LogConfig
from quorate.runtime import DescriptorsExhaustedError, Disk


def may_open(
    state: PartitionState,
    broker_id: int,
    *,
    found: uuid.UUID | None,
    moved: uuid.UUID | None = None,
    own: Container[uuid.UUID],
    all_usable: bool,
) -> bool:
    """Return whether the broker may open its replica, and begin an empty log where there is none.

    `found`: the directory that has a folder of the replica, if one does. `moved`: the one that this broker
    moved it to, if metadata may not say so yet. `own`: the broker's directories. `all_usable`: none of them
    was bad at the start.

    A replica that is recorded in a directory that isn't here may not be opened: the controller would take an
    empty log or an older copy for the replica, which could lead without acknowledged records. Where another
    broker leads, and does not count on this one, the replica may follow.
    """
    recorded = state.directory_of(broker_id) if moved is None else moved
    if recorded in own:
        return True
    if is_reserved(recorded) and recorded != LOST:
        # One of unknown place may be in the folder that is bad.
        return found is not None or all_usable or recorded != MIGRATING
    if recorded == LOST and found is not None:
        # Nobody ever wrote down where it is: it is the only copy that this broker ever had.
        return True
    follows = state.leader not in (NO_LEADER, broker_id) and broker_id not in (*state.isr, *state.elr)
    return follows and all_usable


_LARGEST_BATCH: Final = 2**31 - 1
_OPENED_AT_ONCE: Final = 8
"""Recovery holds a piece of each log in memory."""
_DESCRIPTORS_KEPT: Final = 16
"""The file descriptors that no partition log may use. Votes, checkpoints and other nodes need some."""


class ReplicaOpening:
    """Opens the log of a replica, and makes the replica that it is of."""

    def __init__(
        self,
        broker_id: int,
        config: ReplicationConfig,
        logs: LogManager,
        *,
        disk: Disk,
        topic_config: Callable[[str], TopicConfig],
        eligible: Callable[[uuid.UUID, int], Eligible],
        propose: Callable[[PartitionReplica, IsrProposal], None],
        stats: ReplicationStats,
        disk_failed: Callable[[PartitionReplica, Exception], None],
    ) -> None:
        self._broker_id = broker_id
        self._config = config
        self._logs = logs
        self._disk = disk
        self._topic_config = topic_config
        self._eligible = eligible
        self._propose = propose
        self._stats = stats
        self._disk_failed = disk_failed
        self.turns = trio.CapacityLimiter(_OPENED_AT_ONCE)
        """To be held while a replica is opened."""

    async def open(
        self,
        key: tuple[str, int],
        identity: PartitionIdentity,
        target: PartitionState,
        directory: uuid.UUID,
    ) -> PartitionReplica:
        """Open the replica. Raises `DescriptorsExhaustedError` while only the reserve is left, and what
        `LogManager.open_log` raises."""
        self._check_descriptors(key)
        topic, partition_id = key
        topic_id = identity.topic_id
        config = self._topic_config(topic)
        opened = await self._logs.open_log(
            topic,
            partition_id,
            identity,
            log_config(config),
            directory=directory,
            counts=self._counts(target),
        )
        partition = PartitionReplica(
            broker_id=self._broker_id,
            topic=topic,
            topic_id=topic_id,
            partition_id=partition_id,
            disk=self._disk,
            log=opened,
            min_isr=config.min_insync_replicas,
            rules=ProduceRules.of(config),
            lag_s=self._config.replica_lag_time_max_ms / 1000,
            eligible=self._eligible(topic_id, partition_id),
            propose=self._propose,
            stats=self._stats,
            disk_failed=self._disk_failed,
        )
        await partition.load_producers()
        # Metadata may have changed while it was opened.
        configure(partition, self._topic_config(topic))
        return partition

    def _counts(self, state: PartitionState) -> bool:
        """Return whether the partition counts on what this replica had before the start: the controller has
        believed the broker's proof of it. An unclean leader may have lost records, and says so."""
        may_lack = state.leader_recovery_state is LeaderRecoveryState.RECOVERING
        return self._broker_id in (*state.isr, *state.elr) and not may_lack

    def _check_descriptors(self, key: tuple[str, int]) -> None:
        """Raise while only the reserve is left: it is for votes, checkpoints and the connections of nodes."""
        left = self._disk.descriptors_left()
        if left is not None and left < _DESCRIPTORS_KEPT:
            raise DescriptorsExhaustedError(
                f"only {left} file descriptors are left; raise the limit (ulimit -n, LimitNOFILE= of "
                "systemd, --ulimit nofile= of Docker). The disk is fine",
                path=folder_name(*key),
            )


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
