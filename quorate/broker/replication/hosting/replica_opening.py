"""A replica is opened: where it may be, with which settings, and how many at once."""

import uuid
from collections.abc import Container
from typing import Final

import trio

from quorate.broker.metadata.metadata_records import (
    LOST,
    MIGRATING,
    NO_LEADER,
    LeaderRecoveryState,
    is_reserved,
)
from quorate.broker.metadata.states import PartitionState
from quorate.broker.replication.producing.batch_check import ProduceRules
from quorate.broker.replication.replica.partition_replica import PartitionReplica, ReplicaContext
from quorate.broker.replication.replica.topic_settings import configure, log_config
from quorate.broker.replication.storage.folders import PartitionIdentity, folder_name
from quorate.broker.replication.storage.log_manager import LogManager
from quorate.runtime import DescriptorsExhaustedError


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
        # Its place was never recorded: it is the only copy that this broker ever had.
        return True
    follows = state.leader not in (NO_LEADER, broker_id) and broker_id not in (*state.isr, *state.elr)
    return follows and all_usable


_OPENED_AT_ONCE: Final = 8
"""Recovery holds a piece of each log in memory."""
_DESCRIPTORS_KEPT: Final = 16
"""The file descriptors that no partition log may use. Votes, checkpoints and other nodes need some."""


class ReplicaOpening:
    """Opens the log of a replica, and makes the replica that it is of."""

    def __init__(
        self,
        context: ReplicaContext,
        logs: LogManager,
    ) -> None:
        self._context = context
        self._logs = logs
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
        config = self._context.metadata.config(topic)
        opened = await self._logs.open_log(
            topic,
            partition_id,
            identity,
            log_config(config),
            directory=directory,
            counts=self._counts(target),
        )
        partition = PartitionReplica(
            self._context,
            topic=topic,
            topic_id=identity.topic_id,
            partition_id=partition_id,
            log=opened,
            min_isr=config.min_insync_replicas,
            rules=ProduceRules.of(config),
        )
        await partition.load_producers()
        # Metadata may have changed while it was opened.
        configure(partition, self._context.metadata.config(topic))
        return partition

    def _counts(self, state: PartitionState) -> bool:
        """Return whether the partition counts on what this replica had before the start: the controller has
        believed the broker's proof of it. An unclean leader may have lost records, and says so."""
        may_lack = state.leader_recovery_state is LeaderRecoveryState.RECOVERING
        return self._context.broker_id in (*state.isr, *state.elr) and not may_lack

    def _check_descriptors(self, key: tuple[str, int]) -> None:
        """Raise while only the reserve is left: it is for votes, checkpoints and the connections of nodes."""
        left = self._context.disk.descriptors_left()
        if left is not None and left < _DESCRIPTORS_KEPT:
            raise DescriptorsExhaustedError(
                f"only {left} file descriptors are left; raise the limit (ulimit -n, LimitNOFILE= of "
                "systemd, --ulimit nofile= of Docker). The disk is fine",
                path=folder_name(*key),
            )
