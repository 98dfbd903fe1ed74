"""The outcome of an election: the leader of a partition, its ISR and its eligible replicas (KIP-966), or why
nobody leads, and the record that makes it true. `leader_selectors` has the four ways to hold one.
"""

import enum
import uuid
from collections.abc import Container
from dataclasses import dataclass

from quorate.broker.metadata import ChangeReason, LeaderRecoveryState, PartitionChange, PartitionState


class NoLeader(enum.Enum):
    """Why an election gives no partition a leader, or not the leader that was asked for."""

    ISR_UNAVAILABLE = (
        "every in-sync replica is fenced, shutting down or in an offline directory, and "
        "unclean.leader.election.enable is off"
    )
    ELR_UNAVAILABLE = (
        "no replica is in sync, every eligible one is fenced, shutting down or in an offline directory, and "
        "unclean.leader.election.enable is off"
    )
    LAST_LEADER_UNAVAILABLE = (
        "no replica is sure to have every committed record, the last known leader is not available, and "
        "unclean.leader.election.enable is off"
    )
    REPLICAS_UNAVAILABLE = "every replica is fenced, shutting down or in an offline directory"
    SHUTTING_DOWN = (
        "only the broker that shuts down is sure to have every committed record, and it will be back"
    )
    DIRECTORY_AWAITED = (
        "only a replica in an offline directory is sure to have every committed record, and it may come back"
    )
    PREFERRED_NOT_IN_SYNC = "the first replica is not in sync"
    PREFERRED_UNAVAILABLE = "the first replica is fenced, shutting down or in an offline directory"


@dataclass(frozen=True, slots=True, kw_only=True)
class Election:
    """The outcome: `leader` may be `NO_LEADER`, and `isr` empty."""

    leader: int
    isr: tuple[int, ...]
    recovery: LeaderRecoveryState
    elr: tuple[int, ...] = ()
    last_known: tuple[int, ...] = ()
    """Who led last, where the ISR is empty."""
    unclean: bool = False
    """The leader may lack records that were committed."""
    none: NoLeader | None = None
    """Why nobody leads; None if somebody does."""


def eligible_after(
    partition: PartitionState, *, isr: tuple[int, ...], min_isr: int, lost: Container[int] = ()
) -> tuple[int, ...]:
    """The ELR when `isr` takes the place of the partition's ISR: (ELR + old ISR) - new ISR - `lost`, and
    nobody while the new one has `min_isr` members (no more than there are replicas, without those that a
    reassignment adds).

    Sound because a leader commits nothing while its ISR is below `min_isr` or its ELR is not empty
    (`LeaderState.high_watermark`): who was a member when the ISR became too small has all that is committed.
    """
    if len(isr) >= min(min_isr, len(partition.original_replicas)):
        return ()
    return tuple(
        each
        for each in partition.replicas
        if (each in partition.isr or each in partition.elr) and each not in isr and each not in lost
    )


def as_change(
    topic_id: uuid.UUID,
    partition_id: int,
    partition: PartitionState,
    election: Election,
    *,
    reason: ChangeReason,
) -> PartitionChange | None:
    """The record that makes `election` true, or None if it is. `reason`: of the election; the record of an
    unclean one says that it was, whatever led to it."""
    moved = election.leader != partition.leader
    shrunk = election.isr != partition.isr
    recovery = election.recovery if election.recovery is not partition.leader_recovery_state else None
    elr = election.elr if election.elr != partition.elr else None
    last_known = election.last_known if election.last_known != partition.eligible.last_known else None
    if not moved and not shrunk and recovery is None and elr is None and last_known is None:
        return None
    return PartitionChange(
        topic_id=topic_id,
        partition_id=partition_id,
        isr=election.isr if shrunk else None,
        leader=election.leader if moved else None,
        leader_recovery_state=recovery,
        eligible_leader_replicas=elr,
        last_known_elr=last_known,
        reason=said_of(election, reason),
    )


def said_of(election: Election, reason: ChangeReason) -> ChangeReason:
    """Return what the record of an election that `reason` led to says."""
    return ChangeReason.UNCLEAN_ELECTION if election.unclean else reason
