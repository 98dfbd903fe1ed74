"""Who leads a partition. The four selectors of Kafka's first controller as KRaft has them, in one function.

What never happens here: a leader outside the ISR unless unclean elections are on, and an ISR made empty. If
nobody can lead, the last members stay, so that only one of them can come back as leader.
"""

import enum
import uuid
from collections.abc import Callable
from dataclasses import dataclass

from quorate.broker.controller.image import PartitionState
from quorate.broker.controller.records import NO_LEADER, LeaderRecoveryState, PartitionChange


class Selector(enum.Enum):
    """Why a leader is chosen."""

    OFFLINE = "offline"
    """A leader may be gone or come back: keep the current one if it can lead, else the first that can."""
    PREFERRED = "preferred"
    """Lead from the first replica if it can, else as OFFLINE."""
    REASSIGNED = "reassigned"
    """The replicas have changed: as OFFLINE over the new ones, which the partition given has already."""
    CONTROLLED_SHUTDOWN = "controlled shutdown"
    """A broker leaves in order: as OFFLINE without it, but never from outside the ISR, since the broker that
    leaves has all the data and will be back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Election:
    """The outcome: `leader` may be `NO_LEADER`."""

    leader: int
    isr: tuple[int, ...]
    recovery: LeaderRecoveryState


def elect(
    partition: PartitionState,
    *,
    acceptable: Callable[[int], bool],
    unclean: bool,
    selector: Selector,
    leaving: int | None = None,
) -> Election:
    """Choose a leader.

    `acceptable` says of a broker whether it may lead: unfenced, not shutting down. `leaving`: a broker to
    take out of the ISR, which may not lead whatever `acceptable` says.
    """
    among = partition.replicas
    staying = tuple(each for each in partition.isr if each != leaving)
    isr = staying or partition.isr

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
        return Election(leader=leader, isr=isr, recovery=partition.leader_recovery_state)
    if unclean and selector is not Selector.CONTROLLED_SHUTDOWN:
        leader = next((each for each in among if can_lead(each)), NO_LEADER)
        if leader != NO_LEADER:
            return Election(leader=leader, isr=(leader,), recovery=LeaderRecoveryState.RECOVERING)
    return Election(leader=NO_LEADER, isr=isr, recovery=partition.leader_recovery_state)


def as_change(
    topic_id: uuid.UUID, partition_id: int, partition: PartitionState, election: Election
) -> PartitionChange | None:
    """The record that makes `election` true, or None if it is."""
    moved = election.leader != partition.leader
    shrunk = election.isr != partition.isr
    recovery = election.recovery if election.recovery is not partition.leader_recovery_state else None
    if not moved and not shrunk and recovery is None:
        return None
    return PartitionChange(
        topic_id=topic_id,
        partition_id=partition_id,
        isr=election.isr if shrunk else None,
        leader=election.leader if moved else None,
        leader_recovery_state=recovery,
    )
