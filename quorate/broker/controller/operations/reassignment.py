"""The rules of a reassignment (KIP-455): a partition's replicas change while it serves.

The partition itself says what is under way, so any controller goes on where the last one stopped. With the
target T and the replicas R that the partition had when nothing was under way, it has `replicas` T + (R - T),
`adding_replicas` T - R and `removing_replicas` R - T. A second request is computed from the same R, unlike
Kafka's, where the replicas of the first one count as R and stay after a cancellation: replicas that only the
first one wanted leave at once.
"""

from collections.abc import Iterable, Iterator, Mapping
from functools import partial

from quorate.broker.controller.operations.leader_selectors import reassigned_partition
from quorate.broker.controller.operations.online_directories import default_directory, may_lead
from quorate.broker.metadata import (
    NO_LEADER,
    ApiError,
    ChangeReason,
    LeaderRecoveryState,
    MetadataImage,
    PartitionChange,
    PartitionKey,
    PartitionState,
    as_eligible,
    min_insync_replicas,
    unclean_elections,
)
from quorate.error_code import ErrorCode
from quorate.types import Epoch


class ReassignmentRules:
    """The settings of one topic that reassignments go by."""

    __slots__ = ("_image", "_static", "_topic", "min_isr")

    def __init__(self, image: MetadataImage, topic: str, *, static: Mapping[str, str]) -> None:
        self._image = image
        self._topic = topic
        self._static = static
        self.min_isr = min_insync_replicas(image, topic, static=static)

    @property
    def unclean(self) -> bool:
        """True if the topic may have a leader that lacks committed records."""
        return unclean_elections(self._image, self._topic, static=self._static)

    def may_end(self, state: PartitionState) -> bool:
        """True if enough of the target is in the ISR.

        Kafka's rule (4.3): all that are added, and of the others at least one; where fewer are added than
        removed, the whole target. Two rules of ours on top of it: the end leaves min.insync.replicas or the
        whole target in the ISR, and a broker that was unregistered isn't waited for unless it is added.
        """
        isr = [each for each in state.isr if each not in state.removing_replicas]
        if not isr or not all(each in isr for each in state.adding_replicas):
            return False
        target = state.target_replicas
        if len(isr) < min(self.min_isr, len(target)):
            return False
        return len(state.adding_replicas) >= len(state.removing_replicas) or all(
            each in isr or self._image.broker(each) is None for each in target
        )

    def ended(self, state: PartitionState) -> PartitionState | None:
        """The partition after the end of its reassignment; None while that has to wait.

        With a replica removed the leader epoch rises even if the leader stays, so that the removed one is
        fenced.
        """
        if not state.is_reassigning or not self.may_end(state):
            return None
        target = state.target_replicas
        if not any(each in target and may_lead(self._image, state, each) for each in state.isr):
            return None  # they are about to leave the ISR
        after = self._elected(
            self._narrowed(state, target)._replace(adding_replicas=(), removing_replicas=())
        )
        if after.leader != state.leader or state.removing_replicas:
            after = after._replace(leader_epoch=Epoch(state.leader_epoch + 1))
        return after

    def towards(self, state: PartitionState, target: tuple[int, ...]) -> PartitionState:
        """The partition when it has been asked to have `target`: at its end if there is nothing to wait for.
        Raises `ApiError` if nobody is left who may lead."""
        original = state.original_replicas
        removing = tuple(each for each in original if each not in target)
        begun = self._narrowed(state, target + removing)._replace(
            adding_replicas=tuple(each for each in target if each not in original), removing_replicas=removing
        )
        if not set(state.replicas) <= set(begun.replicas):
            begun = self._dropped(state, begun)
        return self.ended(begun) or begun

    def _dropped(self, state: PartitionState, begun: PartitionState) -> PartitionState:
        """Replicas that only an earlier request wanted leave, perhaps the leader among them. Not if that
        leaves fewer than min.insync.replicas with every committed record, as Kafka's does."""
        had = {*state.isr, *state.elr}
        safe = had & set(begun.replicas)
        least = min(self.min_isr, len(state.original_replicas))
        if not safe and not state.eligible.last_known:
            # An unclean election has a first candidate then, though it may not be here now.
            begun = begun._replace(eligible=as_eligible((), begun.replicas[:1]))
        after = self._elected(begun)
        if (
            safe != had and len(safe) < least and not self.unclean
        ) or after.leader == NO_LEADER != state.leader:
            raise ApiError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"Replicas that are being added are in sync (ISR {list(state.isr)}), and without them only "
                f"{len(safe)} would have every record, {least} are needed. Wait until more of "
                f"{list(state.original_replicas)} have caught up.",
            )
        return after._replace(leader_epoch=Epoch(state.leader_epoch + 1))

    def _elected(self, state: PartitionState) -> PartitionState:
        election = reassigned_partition(
            state,
            target=state.replicas,
            acceptable=partial(may_lead, self._image, state),
            unclean=self.unclean,
            min_isr=self.min_isr,
        )
        return state._replace(
            leader=election.leader,
            isr=election.isr,
            leader_recovery_state=election.recovery,
            eligible=as_eligible(election.elr, election.last_known),
        )

    def _narrowed(self, state: PartitionState, replicas: tuple[int, ...]) -> PartitionState:
        """`state` with other replicas, and nobody else in its ISR and ELR. Those that stay keep their
        directories."""
        kept, before = set(replicas), state.replicas
        return state._replace(
            replicas=replicas,
            isr=tuple(each for each in state.isr if each in kept),
            eligible=as_eligible(
                tuple(each for each in state.elr if each in kept),
                tuple(each for each in state.eligible.last_known if each in kept),
            ),
            directories=()
            if not state.directories and kept <= set(before)
            else tuple(
                state.directory_of(each) if each in before else default_directory(self._image, each)
                for each in replicas
            ),
        )


def reassignment_change(
    key: PartitionKey, before: PartitionState, after: PartitionState
) -> PartitionChange | None:
    """The record that makes `before` into `after`; None if it is that already."""
    moved = after.leader != before.leader or after.leader_epoch != before.leader_epoch
    recovery = None
    if after.leader_recovery_state is not before.leader_recovery_state:
        recovery = after.leader_recovery_state
    unclean = recovery is LeaderRecoveryState.RECOVERING
    reason = ChangeReason.UNCLEAN_ELECTION if unclean else ChangeReason.REASSIGNMENT
    change = PartitionChange(
        topic_id=key.topic_id,
        partition_id=key.partition_id,
        replicas=_new(before.replicas, after.replicas),
        isr=_new(before.isr, after.isr),
        removing_replicas=_new(before.removing_replicas, after.removing_replicas),
        adding_replicas=_new(before.adding_replicas, after.adding_replicas),
        leader=after.leader if moved else None,
        leader_recovery_state=recovery,
        eligible_leader_replicas=_new(before.elr, after.elr),
        last_known_elr=_new(before.eligible.last_known, after.eligible.last_known),
        directories=after.directories if _adds(before, after) else None,
        reason=reason,
    )
    same = PartitionChange(topic_id=key.topic_id, partition_id=key.partition_id, reason=reason)
    return None if change == same else change


def _new(before: tuple[int, ...], after: tuple[int, ...]) -> tuple[int, ...] | None:
    return None if before == after else after


def _adds(before: PartitionState, after: PartitionState) -> bool:
    return not set(after.replicas) <= set(before.replicas)


def end_reassignments(
    image: MetadataImage, *, among: Iterable[tuple[PartitionKey, PartitionState]], static: Mapping[str, str]
) -> Iterator[tuple[PartitionChange]]:
    """The ends of those of some partitions' reassignments that need to wait no longer."""
    by_topic: dict[str, ReassignmentRules] = {}
    for key, state in among:
        if not state.is_reassigning:
            continue
        topic = image.topics[key.topic_id].name
        rules = by_topic.get(topic)
        if rules is None:
            rules = by_topic[topic] = ReassignmentRules(image, topic, static=static)
        after = rules.ended(state)
        if after is not None and (change := reassignment_change(key, state, after)) is not None:
            yield (change,)
