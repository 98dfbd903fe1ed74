"""Elections in an image: by the state of its brokers, and by the settings of each partition's topic.

The functions carry out the consequences of a change of a broker or of settings, or of time. Each decides from
the image as it is, a partition at a time, so that `Chores` can stop and continue between any two.
"""

import uuid
from collections.abc import Container, Iterable, Iterator, Mapping
from functools import partial
from typing import NamedTuple

from quorate.broker.controller.operations.directories import may_lead
from quorate.broker.controller.operations.elections import (
    Election,
    NoLeader,
    as_change,
    controlled_shutdown,
    eligible_after,
    offline_partition,
    preferred_replica,
    reassigned_partition,
)
from quorate.broker.metadata.configs import min_insync_replicas, unclean_elections
from quorate.broker.metadata.image import MetadataImage
from quorate.broker.metadata.metadata_records import NO_LEADER, ChangeReason, PartitionChange
from quorate.broker.metadata.states import PartitionKey, PartitionState

Partitions = Iterable[tuple[PartitionKey, PartitionState]]
"""Some of the image's partitions as they are now."""
Changes = Iterator[tuple[PartitionChange]]


class ElectionSettings(NamedTuple):
    """The settings of one topic that elections go by."""

    unclean: bool
    """`unclean.leader.election.enable`"""
    min_isr: int
    """`min.insync.replicas`"""


class Elections:
    """The selectors, applied to partitions of `image`. Settings are looked up once for each topic: use it for
    one step, in which the image's configs don't change."""

    __slots__ = ("_by_topic", "_static", "image")

    def __init__(self, image: MetadataImage, static: Mapping[str, str]) -> None:
        self.image = image
        self._static = static
        self._by_topic: dict[uuid.UUID, ElectionSettings] = {}

    def settings(self, key: PartitionKey) -> ElectionSettings:
        """Return the settings of the partition's topic, which must exist."""
        held = self._by_topic.get(key.topic_id)
        if held is None:
            name = self.image.topics[key.topic_id].name
            held = self._by_topic[key.topic_id] = ElectionSettings(
                unclean=unclean_elections(self.image, name, static=self._static),
                min_isr=min_insync_replicas(self.image, name, static=self._static),
            )
        return held

    def offline(
        self,
        key: PartitionKey,
        state: PartitionState,
        *,
        leaving: int | None = None,
        lost: bool = False,
        unclean: bool = False,
    ) -> Election:
        """Elect as `offline_partition`. `unclean`: uncleanly too, whatever the topic's setting."""
        settings = self.settings(key)
        return offline_partition(
            state,
            acceptable=partial(may_lead, self.image, state),
            min_isr=settings.min_isr,
            unclean=unclean or settings.unclean,
            leaving=leaving,
            lost=lost,
        )

    def shutdown(self, key: PartitionKey, state: PartitionState, *, leaving: int, lost: bool) -> Election:
        """Elect as `controlled_shutdown`."""
        return controlled_shutdown(
            state,
            acceptable=partial(may_lead, self.image, state),
            min_isr=self.settings(key).min_isr,
            leaving=leaving,
            lost=lost,
        )

    def reassigned(self, key: PartitionKey, state: PartitionState) -> Election:
        """Elect as `reassigned_partition` among the replicas that `state` has now."""
        settings = self.settings(key)
        return reassigned_partition(
            state,
            target=state.replicas,
            acceptable=partial(may_lead, self.image, state),
            min_isr=settings.min_isr,
            unclean=settings.unclean,
        )

    def preferred(self, key: PartitionKey, state: PartitionState) -> Election | NoLeader:
        """Elect as `preferred_replica`."""
        return preferred_replica(
            state, acceptable=partial(may_lead, self.image, state), min_isr=self.settings(key).min_isr
        )


def leave_isrs(
    image: MetadataImage,
    broker_id: int,
    *,
    among: Partitions,
    static: Mapping[str, str],
    reason: ChangeReason,
    lost: bool = False,
) -> Changes:
    """Remove an inactive broker from the ISRs of some partitions, and elect other leaders for those that it
    leads. `lost`: from their ELRs too, because it may lack committed records. `reason`: why it is
    inactive."""
    broker = image.broker(broker_id)
    in_order = broker is not None and broker.in_controlled_shutdown and not broker.fenced
    elections = Elections(image, static)
    for key, state in among:
        if broker_id in state.isr or (lost and broker_id in state.elr):
            if in_order:
                election = elections.shutdown(key, state, leaving=broker_id, lost=lost)
            else:
                election = elections.offline(key, state, leaving=broker_id, lost=lost)
            change = as_change(key, state, election, cause=reason)
            if change is not None:
                yield (change,)


def elect_leaderless(
    image: MetadataImage, *, among: Partitions, static: Mapping[str, str], reason: ChangeReason
) -> Changes:
    """Elect leaders for those of some partitions that have none and can have one. `reason`: why they can."""
    elections = Elections(image, static)
    for key, state in among:
        if state.leader == NO_LEADER:
            change = as_change(key, state, elections.offline(key, state), cause=reason)
            if change is not None:
                yield (change,)


def settle_elrs(image: MetadataImage, *, among: Partitions, static: Mapping[str, str]) -> Changes:
    """Empty the ELRs of those of some partitions whose ISR has enough members, because min.insync.replicas
    was lowered. Until that is committed their leaders commit nothing."""
    elections = Elections(image, static)
    for key, state in among:
        if state.elr and not eligible_after(state, isr=state.isr, min_isr=elections.settings(key).min_isr):
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
    """Return those of some partitions to their first replica where it can lead: a leader that moved away when
    a broker stopped does not come back by itself. `brokers`: only to these; None: to any."""
    elections = Elections(image, static)
    for key, state in among:
        first = state.replicas[0]
        if state.leader in (NO_LEADER, first) or (brokers is not None and first not in brokers):
            continue
        election = elections.preferred(key, state)
        if isinstance(election, Election):
            change = as_change(key, state, election, cause=ChangeReason.PREFERRED_LEADER)
            if change is not None:
                yield (change,)
