"""Elections: the leader of a partition, its ISR and its eligible replicas. The four selectors of Kafka's
first controller as KRaft has them, in one function, with the eligible leader replicas of KIP-966.

What never happens here: a leader that may lack a committed record, unless unclean elections are on or nobody
is left who is sure to have them all. A member that can't lead leaves the ISR, the last one too: it stays
eligible (in the ELR) until it is known to have lost records.
"""

import enum
import uuid
from collections.abc import Callable, Container
from dataclasses import dataclass

from quorate.broker.metadata import NO_LEADER, LeaderRecoveryState, PartitionChange, PartitionState
from quorate.runtime import WORK


class Selector(enum.Enum):
    """Why a leader is chosen."""

    OFFLINE = "offline"
    """A leader may be gone or come back: keep the current one if it can lead, else the first that can."""
    PREFERRED = "preferred"
    """Lead from the first replica if it can, else as OFFLINE."""
    REASSIGNED = "reassigned"
    """The replicas have changed: as OFFLINE over the new ones, which the partition given has already."""
    CONTROLLED_SHUTDOWN = "controlled shutdown"
    """A broker leaves in order: as OFFLINE without it, but never uncleanly, since the broker that leaves has
    all the data and will be back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Election:
    """The outcome: `leader` may be `NO_LEADER`, and `isr` empty."""

    leader: int
    isr: tuple[int, ...]
    recovery: LeaderRecoveryState
    elr: tuple[int, ...] = ()
    last_known: tuple[int, ...] = ()
    """Who led last, where the ISR is empty."""


def elect(
    partition: PartitionState,
    *,
    acceptable: Callable[[int], bool],
    unclean: bool,
    min_isr: int,
    selector: Selector,
    leaving: int | None = None,
    lost: bool = False,
) -> Election:
    """Choose a leader.

    `acceptable` says of a broker whether it may lead: unfenced, not shutting down, its directory online
    (`directories.may_lead`). `leaving`: a broker to
    take out of the ISR, which may not lead whatever `acceptable` says. `lost`: that broker may have lost
    records, so it is not eligible either.

    With the ISR and the ELR empty, every replica that was sure to have all committed records has lost some:
    then the last known leader leads again with what it has, and must say that it has recovered. A sole
    replica whose host lost power is the usual case.
    """
    WORK.partitions += 1
    among = partition.replicas
    isr = tuple(each for each in partition.isr if each != leaving)
    gone = (leaving,) if lost and leaving is not None else ()
    eligible = eligible_after(partition, isr=(), min_isr=min_isr, lost=gone)

    def can_lead(broker: int) -> bool:
        return broker != leaving and acceptable(broker)

    candidates = [each for each in among if each in isr and can_lead(each)]
    if candidates:
        if selector is Selector.PREFERRED and among[0] == candidates[0]:
            leader = candidates[0]
        elif partition.leader in candidates:
            leader = partition.leader
        else:
            leader = candidates[0]
        return _clean(partition, leader=leader, isr=isr, min_isr=min_isr, lost=gone)
    leader = next((each for each in among if each in eligible and can_lead(each)), NO_LEADER)
    if leader != NO_LEADER:
        return _clean(partition, leader=leader, isr=(leader,), min_isr=min_isr, lost=gone)
    last_known = _last_known(partition)
    if selector is not Selector.CONTROLLED_SHUTDOWN:
        willing = (*last_known, *among) if unclean else () if eligible else last_known
        leader = next((each for each in willing if each in among and can_lead(each)), NO_LEADER)
        if leader != NO_LEADER:
            return Election(leader=leader, isr=(leader,), recovery=LeaderRecoveryState.RECOVERING)
    return Election(
        leader=NO_LEADER,
        isr=isr,
        recovery=partition.leader_recovery_state,
        elr=eligible_after(partition, isr=isr, min_isr=min_isr, lost=gone),
        last_known=() if isr else last_known,
    )


def _clean(
    partition: PartitionState,
    *,
    leader: int,
    isr: tuple[int, ...],
    min_isr: int,
    lost: Container[int],
) -> Election:
    return Election(
        leader=leader,
        isr=isr,
        recovery=partition.leader_recovery_state,
        elr=eligible_after(partition, isr=isr, min_isr=min_isr, lost=lost),
    )


def _last_known(partition: PartitionState) -> tuple[int, ...]:
    if partition.leader != NO_LEADER:
        return (partition.leader,)
    # A log from before KIP-966 doesn't say who led; its last member did.
    return partition.eligible.last_known or (partition.isr if len(partition.isr) == 1 else ())


def eligible_after(
    partition: PartitionState, *, isr: tuple[int, ...], min_isr: int, lost: Container[int] = ()
) -> tuple[int, ...]:
    """The ELR when `isr` takes the place of the partition's ISR: (ELR + old ISR) - new ISR - `lost`, and
    nobody while the new one has `min_isr` members (no more than there are replicas).

    Sound because a leader commits nothing while its ISR is below `min_isr` or its ELR is not empty
    (`LeaderState.high_watermark`): who was a member when the ISR became too small has all that is committed.
    """
    if len(isr) >= min(min_isr, len(partition.replicas)):
        return ()
    return tuple(
        each
        for each in partition.replicas
        if (each in partition.isr or each in partition.elr) and each not in isr and each not in lost
    )


def as_change(
    topic_id: uuid.UUID, partition_id: int, partition: PartitionState, election: Election
) -> PartitionChange | None:
    """The record that makes `election` true, or None if it is."""
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
    )
