"""Elections in some of the image's partitions: what follows from a change of a broker, of settings, or from
time passing. Each is decided from the image as it is, a partition at a time, so that `chores` can stop and go
on between any two."""

from collections.abc import Container, Iterable, Iterator, Mapping
from functools import partial

from quorate.broker.controller.operations.elections import NoLeader, as_change, eligible_after
from quorate.broker.controller.operations.leader_selectors import (
    controlled_shutdown,
    offline_partition,
    preferred_replica,
)
from quorate.broker.controller.operations.online_directories import may_lead
from quorate.broker.controller.operations.topic_rules import TopicRules
from quorate.broker.metadata import (
    NO_LEADER,
    ChangeReason,
    MetadataImage,
    PartitionChange,
    PartitionKey,
    PartitionState,
)

Partitions = Iterable[tuple[PartitionKey, PartitionState]]
"""Some of the image's partitions as they are now."""
Changes = Iterator[tuple[PartitionChange]]


def leave_isrs(
    image: MetadataImage,
    broker_id: int,
    *,
    among: Partitions,
    static: Mapping[str, str],
    reason: ChangeReason,
    lost: bool = False,
) -> Changes:
    """Take an inactive broker out of the ISRs of some partitions, and what it leads to other leaders. `lost`:
    out of their ELRs too, because it may lack records that were committed. `reason`: why it is inactive."""
    broker = image.broker(broker_id)
    in_order = broker is not None and broker.in_controlled_shutdown and not broker.fenced
    rules = TopicRules(image, static)
    for key, state in among:
        if broker_id not in state.isr and not (lost and broker_id in state.elr):
            continue
        unclean, min_isr = rules.of(key.topic_id)
        acceptable = partial(may_lead, image, state)
        if in_order:
            election = controlled_shutdown(
                state, acceptable=acceptable, min_isr=min_isr, leaving=broker_id, lost=lost
            )
        else:
            election = offline_partition(
                state, acceptable=acceptable, min_isr=min_isr, unclean=unclean, leaving=broker_id, lost=lost
            )
        change = as_change(*key, state, election, reason=reason)
        if change is not None:
            yield (change,)


def elect_leaderless(
    image: MetadataImage, *, among: Partitions, static: Mapping[str, str], reason: ChangeReason
) -> Changes:
    """Leaders for those of some partitions that have none and could have one. `reason`: why they could."""
    rules = TopicRules(image, static)
    for key, state in among:
        if state.leader != NO_LEADER:
            continue
        unclean, min_isr = rules.of(key.topic_id)
        election = offline_partition(
            state, acceptable=partial(may_lead, image, state), min_isr=min_isr, unclean=unclean
        )
        change = as_change(*key, state, election, reason=reason)
        if change is not None:
            yield (change,)


def settle_elrs(image: MetadataImage, *, among: Partitions, static: Mapping[str, str]) -> Changes:
    """Those of some partitions whose ISR has enough members by now, because min.insync.replicas was lowered:
    nobody else is eligible, and until that is committed their leaders commit nothing."""
    rules = TopicRules(image, static)
    for key, state in among:
        if not state.elr:
            continue
        if not eligible_after(state, isr=state.isr, min_isr=rules.of(key.topic_id).min_isr):
            yield (
                PartitionChange(
                    topic_id=key.topic_id,
                    partition_id=key.partition_id,
                    eligible_leader_replicas=(),
                    reason=ChangeReason.CONFIG_CHANGED,
                ),
            )


def elect_preferred(
    image: MetadataImage,
    *,
    among: Partitions,
    static: Mapping[str, str],
    brokers: Container[int] | None = None,
) -> Changes:
    """Give those of some partitions back to their first replica where that can lead: leaders that moved away
    when a broker stopped don't come back by themselves. `brokers`: only to these; None: to any."""
    rules = TopicRules(image, static)
    for key, state in among:
        first = state.replicas[0]
        if state.leader in (NO_LEADER, first) or (brokers is not None and first not in brokers):
            continue
        election = preferred_replica(
            state, acceptable=partial(may_lead, image, state), min_isr=rules.of(key.topic_id).min_isr
        )
        if isinstance(election, NoLeader):
            continue
        change = as_change(*key, state, election, reason=ChangeReason.PREFERRED_LEADER)
        if change is not None:
            yield (change,)
