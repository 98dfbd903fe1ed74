"""The four leader selectors of Kafka's first controller, by KRaft's rules, with the eligible leader replicas
of KIP-966: pure functions from a partition and who may lead it to an election, or to why there is none.

What never happens here: a leader that may lack a committed record, unless unclean elections are on or nobody
is left who is sure to have them all. A member that can't lead leaves the ISR, the last one too: it stays
eligible (in the ELR) until it is known to have lost records.

In all of them `acceptable` says of a broker whether it may lead: unfenced, not shutting down, its directory
online (`online_directories.may_lead`). `leaving`: a broker to take out of the ISR, which may not lead
whatever `acceptable` says. `lost`: that broker may have lost records, so it is not eligible either.
"""

from collections.abc import Callable

from quorate.broker.controller.operations.elections import Election, NoLeader, eligible_after
from quorate.broker.metadata import NO_LEADER, LeaderRecoveryState, PartitionState, as_eligible
from quorate.runtime import WORK

Acceptable = Callable[[int], bool]


def offline_partition(
    partition: PartitionState,
    *,
    acceptable: Acceptable,
    min_isr: int,
    unclean: bool,
    leaving: int | None = None,
    lost: bool = False,
) -> Election:
    """A leader may be gone or come back: keep the current one if it can lead, else the first ISR member that
    can, in order of assignment, else the first eligible one, else with `unclean` any replica.

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
    """The replicas are `target` from now on (KIP-455): as `offline_partition` among them. Nobody else stays
    in the ISR or the ELR."""
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
    """The first replica leads if it is in sync; if it can't, nothing changes."""
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
    """A broker leaves in order: as `offline_partition` without it, but never uncleanly, since the broker that
    leaves has all the data and will be back."""
    WORK.partitions += 1
    isr, lost_replicas = _left(partition, leaving, lost)
    clean = _clean(partition, isr, lost_replicas, acceptable=acceptable, min_isr=min_isr, leaving=leaving)
    return clean or _nobody(partition, isr, lost_replicas, min_isr=min_isr, why=NoLeader.SHUTTING_DOWN)


# What they share


def _left(
    partition: PartitionState, leaving: int | None, lost: bool
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The ISR without the broker that leaves, and who may have lost records."""
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
    """A leader that has every committed record, if one is there: from the ISR, else from the ELR."""
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
