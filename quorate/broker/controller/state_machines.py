"""The state machines of partitions and replicas, with the states and the legal moves of Kafka's first
controller, derived from the image: KRaft has no machine, so nothing is stored that could disagree.

A record may make two moves at once: a partition is new and online when it is created with a leader, and goes
offline when it is removed. `partition_moves` and `replica_moves` say which moves lie between two states.

What the image can't say is whether a replica that it no longer has is still on its broker's disk. That is
known from the offset of the removal and the metadata that the broker has applied: `deletion_status`.
"""

import enum
from collections.abc import Mapping
from itertools import pairwise
from types import MappingProxyType
from typing import Final, TypeVar

from quorate.broker.controller.operations import directory_online
from quorate.broker.metadata import NO_LEADER, UNASSIGNED, BrokerState, MetadataImage, PartitionKey


class PartitionStatus(enum.Enum):
    """The state of a partition."""

    NON_EXISTENT = "NonExistentPartition"
    """It was never created, or its topic or itself was removed."""
    NEW = "NewPartition"
    """It has replicas, and nobody has led it yet."""
    ONLINE = "OnlinePartition"
    """A broker that is not fenced leads it."""
    OFFLINE = "OfflinePartition"
    """Nobody leads it, or the broker that does was fenced and its successor is not elected yet."""


class ReplicaStatus(enum.Enum):
    """The state of a replica, of a partition on a broker."""

    NON_EXISTENT = "NonExistentReplica"
    NEW = "NewReplica"
    """Assigned to a broker that is not fenced and has not said yet in which directory it is (KIP-858)."""
    ONLINE = "OnlineReplica"
    """Its broker is not fenced, and its directory is online."""
    OFFLINE = "OfflineReplica"
    """Its broker is fenced or not registered, or its directory is offline."""
    DELETION_STARTED = "ReplicaDeletionStarted"
    """It was removed, and its broker has not applied that yet."""
    DELETION_SUCCESSFUL = "ReplicaDeletionSuccessful"
    """Its broker has applied the removal: it serves the replica no more, and what it has not removed of it
    when its process ends, the next one removes."""
    DELETION_INELIGIBLE = "ReplicaDeletionIneligible"
    """It was removed, and its broker is down: it removes the replica when it is back."""


PARTITION_MOVES: Final[Mapping[PartitionStatus, frozenset[PartitionStatus]]] = MappingProxyType(
    {
        PartitionStatus.NON_EXISTENT: frozenset({PartitionStatus.NEW}),
        PartitionStatus.NEW: frozenset({PartitionStatus.ONLINE, PartitionStatus.OFFLINE}),
        PartitionStatus.ONLINE: frozenset({PartitionStatus.ONLINE, PartitionStatus.OFFLINE}),
        PartitionStatus.OFFLINE: frozenset(
            {PartitionStatus.ONLINE, PartitionStatus.OFFLINE, PartitionStatus.NON_EXISTENT}
        ),
    }
)
"""The states that may follow each."""

REPLICA_MOVES: Final[Mapping[ReplicaStatus, frozenset[ReplicaStatus]]] = MappingProxyType(
    {
        ReplicaStatus.NON_EXISTENT: frozenset({ReplicaStatus.NEW}),
        ReplicaStatus.NEW: frozenset({ReplicaStatus.ONLINE, ReplicaStatus.OFFLINE}),
        ReplicaStatus.ONLINE: frozenset({ReplicaStatus.ONLINE, ReplicaStatus.OFFLINE}),
        # Not in Kafka's table: a broker is back and has still not said where the replica is.
        ReplicaStatus.OFFLINE: frozenset(
            {
                ReplicaStatus.ONLINE,
                ReplicaStatus.OFFLINE,
                ReplicaStatus.NEW,
                ReplicaStatus.DELETION_STARTED,
                ReplicaStatus.DELETION_INELIGIBLE,
            }
        ),
        ReplicaStatus.DELETION_STARTED: frozenset(
            {ReplicaStatus.DELETION_SUCCESSFUL, ReplicaStatus.DELETION_INELIGIBLE}
        ),
        ReplicaStatus.DELETION_SUCCESSFUL: frozenset({ReplicaStatus.NON_EXISTENT}),
        ReplicaStatus.DELETION_INELIGIBLE: frozenset({ReplicaStatus.ONLINE, ReplicaStatus.OFFLINE}),
    }
)
"""The states that may follow each."""


def partition_status(image: MetadataImage, key: PartitionKey) -> PartitionStatus:
    """Return the state of a partition, whether or not there is one."""
    state = image.partition(*key)
    if state is None:
        return PartitionStatus.NON_EXISTENT
    if state.leader == NO_LEADER:
        return PartitionStatus.OFFLINE if state.leader_epoch else PartitionStatus.NEW
    return PartitionStatus.ONLINE if _up(image.broker(state.leader)) else PartitionStatus.OFFLINE


def replica_status(image: MetadataImage, key: PartitionKey, broker_id: int) -> ReplicaStatus:
    """Return the state of a broker's replica of a partition. Of one that the image no longer has:
    NON_EXISTENT, because only `deletion_status` can say more."""
    state = image.partition(*key)
    if state is None or broker_id not in state.replicas:
        return ReplicaStatus.NON_EXISTENT
    if not _up(image.broker(broker_id)) or not directory_online(image, state, broker_id):
        return ReplicaStatus.OFFLINE
    return ReplicaStatus.NEW if state.directory_of(broker_id) == UNASSIGNED else ReplicaStatus.ONLINE


def deletion_status(broker: BrokerState | None, *, removed_at: int, applied: int) -> ReplicaStatus:
    """Return the state of a replica that the record at offset `removed_at` removed, on a broker whose last
    applied offset (inclusive) is `applied`; -1: not known."""
    if applied >= removed_at:
        return ReplicaStatus.DELETION_SUCCESSFUL
    return ReplicaStatus.DELETION_STARTED if _up(broker) else ReplicaStatus.DELETION_INELIGIBLE


def _up(broker: BrokerState | None) -> bool:
    # One in its controlled shutdown still leads what it has not handed over, and serves its replicas.
    return broker is not None and not broker.fenced


# Moves


Status = TypeVar("Status", PartitionStatus, ReplicaStatus)


def partition_moves(before: PartitionStatus, after: PartitionStatus) -> tuple[PartitionStatus, ...]:
    """Return the states between that one record leads through, with both ends."""
    gone = PartitionStatus.NON_EXISTENT
    if before is gone and after in (PartitionStatus.ONLINE, PartitionStatus.OFFLINE):
        return (before, PartitionStatus.NEW, after)
    if after is gone and before in (PartitionStatus.NEW, PartitionStatus.ONLINE):
        return (before, PartitionStatus.OFFLINE, after)
    return (before, after)


def replica_moves(before: ReplicaStatus, after: ReplicaStatus) -> tuple[ReplicaStatus, ...]:
    """Return the states between that one record leads through, with both ends."""
    if before is ReplicaStatus.NON_EXISTENT and after in (ReplicaStatus.ONLINE, ReplicaStatus.OFFLINE):
        return (before, ReplicaStatus.NEW, after)
    removed = (ReplicaStatus.DELETION_STARTED, ReplicaStatus.DELETION_INELIGIBLE)
    if before in (ReplicaStatus.NEW, ReplicaStatus.ONLINE) and after in removed:
        return (before, ReplicaStatus.OFFLINE, after)
    if before is ReplicaStatus.DELETION_INELIGIBLE and after is ReplicaStatus.DELETION_STARTED:
        return (before, ReplicaStatus.OFFLINE, after)
    return (before, after)


def illegal_move(
    moves: tuple[Status, ...], legal: Mapping[Status, frozenset[Status]]
) -> tuple[Status, Status] | None:
    """Return the first of `moves` that `legal` doesn't have; None if all are. To stay is no move."""
    for before, after in pairwise(moves):
        if before is not after and after not in legal[before]:
            return before, after
    return None


def partition_counts(image: MetadataImage) -> dict[PartitionStatus, int]:
    """Return the number of partitions in each state that an image can have, from the image's own counts. A
    partition that nobody has ever led counts as offline here: the controller creates each with a leader."""
    online = sum(image.leader_count(each) for each, broker in image.brokers.items() if _up(broker))
    return {
        PartitionStatus.ONLINE: online,
        PartitionStatus.OFFLINE: image.partition_count() - online,
    }
