"""Elections of one partition's leader, by KRaft's rules and with the eligible leader replicas of KIP-966.

Each of the four selectors of Kafka's first controller is a pure function from a partition and the brokers
that may lead it to an `Election`: the leader, the ISR and the ELR, or the reason why there is no leader.
`as_change` makes the record of it.

No selector elects a leader that may lack a committed record, unless unclean elections are on, or no replica
is left that is sure to have them all. A member that can't lead leaves the ISR, the last one too: it stays
eligible (in the ELR) until it is known to have lost records.

In all of them `acceptable` says whether a broker may lead: unfenced, not shutting down, its directory online
(`directories.may_lead`). `leaving`: a broker to take out of the ISR, which may not lead whatever `acceptable`
says. `lost`: that broker may have lost records, so it is not eligible either.
"""

import enum
from collections.abc import Callable, Container
from dataclasses import dataclass

from quorate.broker.metadata.metadata_records import (
    NO_LEADER,
    ChangeReason,
    LeaderRecoveryState,
    PartitionChange,
)
from quorate.broker.metadata.states import PartitionKey, PartitionState, as_eligible
from quorate.runtime import WORK

Acceptable = Callable[[int], bool]


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
    """The outcome of an election: `leader` may be `NO_LEADER`, and `isr` empty."""

    leader: int
    isr: tuple[int, ...]
    recovery: LeaderRecoveryState
    elr: tuple[int, ...] = ()
    last_known: tuple[int, ...] = ()
    """The last leader, where the ISR is empty."""
    unclean: bool = False
    """The leader may lack records that were committed."""
    none: NoLeader | None = None
    """The reason why there is no leader; None if there is one."""

    def reason(self, cause: ChangeReason) -> ChangeReason:
        """Return the reason for its record. An unclean election says that it was, whatever its cause."""
        return ChangeReason.UNCLEAN_ELECTION if self.unclean else cause


def eligible_after(
    partition: PartitionState, *, isr: tuple[int, ...], min_isr: int, lost: Container[int] = ()
) -> tuple[int, ...]:
    """Return the ELR when `isr` takes the place of the partition's ISR: (ELR + old ISR) - new ISR - `lost`.
    It is empty while the new ISR has `min_isr` members (no more than there are replicas, without those that a
    reassignment adds).

    Sound because a leader commits nothing while its ISR is below `min_isr` or its ELR is not empty
    (`LeaderState.high_watermark`): a broker that was a member when the ISR became too small has all that is
    committed.
    """
    if len(isr) >= min(min_isr, len(partition.original_replicas)):
        return ()
    return tuple(
        each
        for each in partition.replicas
        if (each in partition.isr or each in partition.elr) and each not in isr and each not in lost
    )


def elected(partition: PartitionState, election: Election) -> PartitionState:
    """Return the partition after `election`, with the leader epoch that it had."""
    return partition._replace(
        leader=election.leader,
        isr=election.isr,
        leader_recovery_state=election.recovery,
        eligible=as_eligible(election.elr, election.last_known),
    )


def as_change(
    key: PartitionKey, partition: PartitionState, election: Election, *, cause: ChangeReason
) -> PartitionChange | None:
    """Return the record that makes `election` true, or None if it is. `cause`: of the election."""
    return change_between(key, partition, elected(partition, election), reason=election.reason(cause))


def change_between(
    key: PartitionKey, before: PartitionState, after: PartitionState, *, reason: ChangeReason
) -> PartitionChange | None:
    """Return the record that makes `before` into `after`; None if they are equal. `after` has the leader
    epoch of `before`, or the next one, which fences the replicas of the earlier one even if the leader
    stays."""
    if before == after:
        return None
    moved = after.leader != before.leader or after.leader_epoch != before.leader_epoch
    adds = not set(after.replicas) <= set(before.replicas)
    placed = after.replicas == before.replicas and after.directories != before.directories
    recovers = after.leader_recovery_state is not before.leader_recovery_state
    return PartitionChange(
        topic_id=key.topic_id,
        partition_id=key.partition_id,
        replicas=_new(before.replicas, after.replicas),
        isr=_new(before.isr, after.isr),
        removing_replicas=_new(before.removing_replicas, after.removing_replicas),
        adding_replicas=_new(before.adding_replicas, after.adding_replicas),
        leader=after.leader if moved else None,
        leader_recovery_state=after.leader_recovery_state if recovers else None,
        eligible_leader_replicas=_new(before.elr, after.elr),
        last_known_elr=_new(before.eligible.last_known, after.eligible.last_known),
        directories=after.directories if adds or placed else None,
        reason=reason,
    )


def _new(before: tuple[int, ...], after: tuple[int, ...]) -> tuple[int, ...] | None:
    return None if before == after else after


# The selectors


def offline_partition(
    partition: PartitionState,
    *,
    acceptable: Acceptable,
    min_isr: int,
    unclean: bool,
    leaving: int | None = None,
    lost: bool = False,
) -> Election:
    """Elect when a leader may be gone or come back: keep the current one if it can lead, else the first ISR
    member that can, in order of assignment, else the first eligible one, else with `unclean` any replica.

    With the ISR and the ELR empty, every replica that was sure to have all committed records has lost some:
    then the last known leader leads again with what it has, and must say that it has recovered. A sole
    replica whose host lost power is the usual case.
    """
    WORK.partitions += 1
    isr, lost_replicas = _left(partition, leaving, lost)
    clean = _clean(partition, isr, lost_replicas, acceptable=acceptable, min_isr=min_isr, leaving=leaving)
    if clean is not None:
        return clean
    last_known = _last_known(partition)
    eligible = eligible_after(partition, isr=(), min_isr=min_isr, lost=lost_replicas)
    willing = (*last_known, *partition.replicas) if unclean else () if eligible else last_known
    for each in willing:
        if each in partition.replicas and each != leaving and acceptable(each):
            return Election(leader=each, isr=(each,), recovery=LeaderRecoveryState.RECOVERING, unclean=True)
    if unclean:
        why = NoLeader.REPLICAS_UNAVAILABLE
    elif isr:
        why = NoLeader.ISR_UNAVAILABLE
    else:
        why = NoLeader.ELR_UNAVAILABLE if eligible else NoLeader.LAST_LEADER_UNAVAILABLE
    return _nobody(partition, isr, lost_replicas, min_isr=min_isr, why=why)


def reassigned_partition(
    partition: PartitionState,
    *,
    target: tuple[int, ...],
    acceptable: Acceptable,
    min_isr: int,
    unclean: bool,
) -> Election:
    """Elect when the replicas are `target` from now on (KIP-455): as `offline_partition` among them. No other
    replica stays in the ISR or the ELR."""
    among = partition._replace(
        replicas=target,
        isr=tuple(each for each in partition.isr if each in target),
        eligible=as_eligible(
            tuple(each for each in partition.elr if each in target), partition.eligible.last_known
        ),
    )
    return offline_partition(among, acceptable=acceptable, min_isr=min_isr, unclean=unclean)


def preferred_replica(
    partition: PartitionState, *, acceptable: Acceptable, min_isr: int
) -> Election | NoLeader:
    """Elect the first replica if it is in sync. If it can't lead, nothing changes."""
    WORK.partitions += 1
    first = partition.replicas[0]
    if first not in partition.isr:
        return NoLeader.PREFERRED_NOT_IN_SYNC
    if not acceptable(first):
        return NoLeader.PREFERRED_UNAVAILABLE
    return _led(partition, leader=first, isr=partition.isr, min_isr=min_isr, lost=())


def controlled_shutdown(
    partition: PartitionState,
    *,
    acceptable: Acceptable,
    min_isr: int,
    leaving: int,
    lost: bool = False,
) -> Election:
    """Elect when a broker leaves in order: as `offline_partition` without it, but never uncleanly, since the
    broker that leaves has all the data and will be back."""
    WORK.partitions += 1
    isr, lost_replicas = _left(partition, leaving, lost)
    clean = _clean(partition, isr, lost_replicas, acceptable=acceptable, min_isr=min_isr, leaving=leaving)
    return clean or _nobody(partition, isr, lost_replicas, min_isr=min_isr, why=NoLeader.SHUTTING_DOWN)


# Shared by the selectors


def _left(
    partition: PartitionState, leaving: int | None, lost: bool
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the ISR without the broker that leaves, and the replicas that may have lost records."""
    isr = tuple(each for each in partition.isr if each != leaving)
    return isr, (leaving,) if lost and leaving is not None else ()


def _clean(
    partition: PartitionState,
    isr: tuple[int, ...],
    lost_replicas: tuple[int, ...],
    *,
    acceptable: Acceptable,
    min_isr: int,
    leaving: int | None,
) -> Election | None:
    """Elect a leader that has every committed record, from the ISR, else from the ELR. None: there is
    none."""
    replicas, leader = partition.replicas, partition.leader
    if leader in isr and leader in replicas and acceptable(leader):
        return _led(partition, leader=leader, isr=isr, min_isr=min_isr, lost=lost_replicas)
    for each in replicas:
        if each in isr and acceptable(each):
            return _led(partition, leader=each, isr=isr, min_isr=min_isr, lost=lost_replicas)
    for each in eligible_after(partition, isr=(), min_isr=min_isr, lost=lost_replicas):
        if each != leaving and acceptable(each):
            return _led(partition, leader=each, isr=(each,), min_isr=min_isr, lost=lost_replicas)
    return None


def _led(
    partition: PartitionState, *, leader: int, isr: tuple[int, ...], min_isr: int, lost: tuple[int, ...]
) -> Election:
    return Election(
        leader=leader,
        isr=isr,
        recovery=partition.leader_recovery_state,
        elr=eligible_after(partition, isr=isr, min_isr=min_isr, lost=lost),
    )


def _nobody(
    partition: PartitionState,
    isr: tuple[int, ...],
    lost_replicas: tuple[int, ...],
    *,
    min_isr: int,
    why: NoLeader,
) -> Election:
    return Election(
        leader=NO_LEADER,
        isr=isr,
        recovery=partition.leader_recovery_state,
        elr=eligible_after(partition, isr=isr, min_isr=min_isr, lost=lost_replicas),
        last_known=() if isr else _last_known(partition),
        none=why,
    )


def _last_known(partition: PartitionState) -> tuple[int, ...]:
    if partition.leader != NO_LEADER:
        return (partition.leader,)
    # A log from before KIP-966 doesn't say who led; its last member did.
    return partition.eligible.last_known or (partition.isr if len(partition.isr) == 1 else ())
