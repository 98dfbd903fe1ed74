"""The state machines of partitions and replicas, with the states and the legal moves of Kafka's first
controller. They are derived from the image: nothing is stored that could disagree with it.

A record may make two moves at once: a partition is new and online when it is created with a leader, and goes
offline when it is removed. `partition_changes` and `replica_changes` say which moves lie between two states.

What the image can't say is whether a replica that it no longer has is still on its broker's disk. That is
known from the offset of the removal and the metadata that the broker has applied: `deletion_phase`.
"""

import enum
import uuid
from collections.abc import Mapping
from itertools import pairwise
from types import MappingProxyType
from typing import Final, TypeVar

from quorate.broker.metadata.image import MetadataImage
from quorate.broker.metadata.metadata_records import NO_LEADER, UNASSIGNED
from quorate.broker.metadata.states import BrokerState, PartitionKey


class PartitionPhase(enum.Enum):
    """The state of a partition."""

    NON_EXISTENT = "NonExistentPartition"
    """It was never created, or its topic or itself was removed."""
    NEW = "NewPartition"
    """It has replicas, and never had a leader."""
    ONLINE = "OnlinePartition"
    """A broker that is not fenced leads it."""
    OFFLINE = "OfflinePartition"
    """It has no leader, or its leader was fenced and the successor is not elected yet."""


class ReplicaPhase(enum.Enum):
    """The state of a replica: a partition on one broker."""

    NON_EXISTENT = "NonExistentReplica"
    NEW = "NewReplica"
    """It is assigned to a broker that is not fenced and has not reported its directory yet (KIP-858)."""
    ONLINE = "OnlineReplica"
    """Its broker is not fenced, and its directory is online."""
    OFFLINE = "OfflineReplica"
    """Its broker is fenced or not registered, or its directory is offline."""
    DELETION_STARTED = "ReplicaDeletionStarted"
    """It was removed, and its broker has not applied that yet."""
    DELETION_SUCCESSFUL = "ReplicaDeletionSuccessful"
    """Its broker has applied the removal. It serves the replica no more. Files that are left when its process
    ends are removed by the next one."""
    DELETION_INELIGIBLE = "ReplicaDeletionIneligible"
    """It was removed, and its broker is down: it removes the replica when it is back."""


PARTITION_MOVES: Final[Mapping[PartitionPhase, frozenset[PartitionPhase]]] = MappingProxyType(
    {
        PartitionPhase.NON_EXISTENT: frozenset({PartitionPhase.NEW}),
        PartitionPhase.NEW: frozenset({PartitionPhase.ONLINE, PartitionPhase.OFFLINE}),
        PartitionPhase.ONLINE: frozenset({PartitionPhase.ONLINE, PartitionPhase.OFFLINE}),
        PartitionPhase.OFFLINE: frozenset(
            {PartitionPhase.ONLINE, PartitionPhase.OFFLINE, PartitionPhase.NON_EXISTENT}
        ),
    }
)
"""The states that may follow each."""

REPLICA_MOVES: Final[Mapping[ReplicaPhase, frozenset[ReplicaPhase]]] = MappingProxyType(
    {
        ReplicaPhase.NON_EXISTENT: frozenset({ReplicaPhase.NEW}),
        ReplicaPhase.NEW: frozenset({ReplicaPhase.ONLINE, ReplicaPhase.OFFLINE}),
        ReplicaPhase.ONLINE: frozenset({ReplicaPhase.ONLINE, ReplicaPhase.OFFLINE}),
        # Not in Kafka's table: a broker is back and has still not said where the replica is.
        ReplicaPhase.OFFLINE: frozenset(
            {
                ReplicaPhase.ONLINE,
                ReplicaPhase.OFFLINE,
                ReplicaPhase.NEW,
                ReplicaPhase.DELETION_STARTED,
                ReplicaPhase.DELETION_INELIGIBLE,
            }
        ),
        ReplicaPhase.DELETION_STARTED: frozenset(
            {ReplicaPhase.DELETION_SUCCESSFUL, ReplicaPhase.DELETION_INELIGIBLE}
        ),
        ReplicaPhase.DELETION_SUCCESSFUL: frozenset({ReplicaPhase.NON_EXISTENT}),
        ReplicaPhase.DELETION_INELIGIBLE: frozenset({ReplicaPhase.ONLINE, ReplicaPhase.OFFLINE}),
    }
)
"""The states that may follow each."""


def partition_phase(image: MetadataImage, key: PartitionKey) -> PartitionPhase:
    """Return the state of a partition. NON_EXISTENT: there is none."""
    state = image.partition(*key)
    if state is None:
        return PartitionPhase.NON_EXISTENT
    if state.leader == NO_LEADER:
        return PartitionPhase.OFFLINE if state.leader_epoch else PartitionPhase.NEW
    return PartitionPhase.ONLINE if _up(image.broker(state.leader)) else PartitionPhase.OFFLINE


def replica_phase(image: MetadataImage, key: PartitionKey, broker_id: int) -> ReplicaPhase:
    """Return the state of a broker's replica of a partition. NON_EXISTENT for a replica that the image no
    longer has: `deletion_phase` gives the state of its deletion."""
    state = image.partition(*key)
    if state is None or broker_id not in state.replicas:
        return ReplicaPhase.NON_EXISTENT
    return _phase_in(image.broker(broker_id), state.directory_of(broker_id))


def _phase_in(broker: BrokerState | None, directory: uuid.UUID) -> ReplicaPhase:
    """Return the state of a replica that the broker has in a directory, as the image records it."""
    if broker is None or not _up(broker) or not broker.has_online(directory):
        return ReplicaPhase.OFFLINE
    return ReplicaPhase.NEW if directory == UNASSIGNED else ReplicaPhase.ONLINE


def deletion_phase(broker: BrokerState | None, *, removed_at: int, applied: int) -> ReplicaPhase:
    """Return the state of a replica that the record at offset `removed_at` removed. `applied`: the last
    offset (inclusive) that its broker applied; -1: unknown."""
    if applied >= removed_at:
        return ReplicaPhase.DELETION_SUCCESSFUL
    return ReplicaPhase.DELETION_STARTED if _up(broker) else ReplicaPhase.DELETION_INELIGIBLE


def _up(broker: BrokerState | None) -> bool:
    # One in its controlled shutdown still leads what it has not handed over, and serves its replicas.
    return broker is not None and not broker.fenced


# Moves


Status = TypeVar("Status", PartitionPhase, ReplicaPhase)


def partition_changes(before: PartitionPhase, after: PartitionPhase) -> tuple[PartitionPhase, ...]:
    """Return the states that one record leads a partition through, including the first and the last."""
    absent = PartitionPhase.NON_EXISTENT
    if before is absent and after in (PartitionPhase.ONLINE, PartitionPhase.OFFLINE):
        return (before, PartitionPhase.NEW, after)
    if after is absent and before in (PartitionPhase.NEW, PartitionPhase.ONLINE):
        return (before, PartitionPhase.OFFLINE, after)
    return (before, after)


def replica_changes(before: ReplicaPhase, after: ReplicaPhase) -> tuple[ReplicaPhase, ...]:
    """Return the states that one record leads a replica through, including the first and the last."""
    if before is ReplicaPhase.NON_EXISTENT and after in (ReplicaPhase.ONLINE, ReplicaPhase.OFFLINE):
        return (before, ReplicaPhase.NEW, after)
    removed = (ReplicaPhase.DELETION_STARTED, ReplicaPhase.DELETION_INELIGIBLE)
    if before in (ReplicaPhase.NEW, ReplicaPhase.ONLINE) and after in removed:
        return (before, ReplicaPhase.OFFLINE, after)
    if before is ReplicaPhase.DELETION_INELIGIBLE and after is ReplicaPhase.DELETION_STARTED:
        return (before, ReplicaPhase.OFFLINE, after)
    return (before, after)


def illegal_change(
    transitions: tuple[Status, ...], legal: Mapping[Status, frozenset[Status]]
) -> tuple[Status, Status] | None:
    """Return the first of `transitions` that is not in `legal`. None: all are legal. Staying in a state is
    no transition."""
    for before, after in pairwise(transitions):
        if before is not after and after not in legal[before]:
            return before, after
    return None


def partition_counts(image: MetadataImage) -> dict[PartitionPhase, int]:
    """Return the number of partitions in each state that an image can have, from the image's own counts. A
    partition that never had a leader counts as offline here: the controller creates each with a leader."""
    online = sum(image.leader_count(each) for each, broker in image.brokers.items() if _up(broker))
    return {
        PartitionPhase.ONLINE: online,
        PartitionPhase.OFFLINE: image.partition_count() - online,
    }


def replica_counts(image: MetadataImage) -> dict[ReplicaPhase, int]:
    """Return the number of replicas in each state that an image can have, from the image's own counts."""
    counts: dict[ReplicaPhase, int] = dict.fromkeys(
        (ReplicaPhase.NEW, ReplicaPhase.ONLINE, ReplicaPhase.OFFLINE), 0
    )
    for (broker_id, directory), times in image.replica_homes().items():
        counts[_phase_in(image.broker(broker_id), directory)] += times
    return counts
