"""Reassignments (KIP-455): a partition's replicas change while it serves.

The partition itself says what is under way, so any controller continues where the last one stopped. With the
target T and the replicas R that the partition had when nothing was under way, it has `replicas` T + (R - T),
`adding_replicas` T - R and `removing_replicas` R - T. A second request is computed from the same R, unlike
Kafka's, where the replicas of the first one count as R and stay after a cancellation: replicas that only the
first one wanted leave at once.
"""

from collections.abc import Mapping

from quorate.broker.controller.operations.directories import default_directory, may_lead
from quorate.broker.controller.operations.elections import change_between, elected
from quorate.broker.controller.operations.leaderships import Changes, Elections, Partitions
from quorate.broker.controller.operations.outcome import Outcome, decide_each
from quorate.broker.controller.rpc import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignmentItem,
    ReassignmentResult,
)
from quorate.broker.metadata.api_error import ApiError
from quorate.broker.metadata.image import MetadataImage
from quorate.broker.metadata.metadata_records import (
    NO_LEADER,
    ChangeReason,
    LeaderRecoveryState,
    PartitionChange,
)
from quorate.broker.metadata.states import PartitionKey, PartitionState, as_eligible
from quorate.error_code import ErrorCode
from quorate.types import Epoch


def alter_partition_reassignments(
    image: MetadataImage,
    request: AlterPartitionReassignmentsRequest,
    *,
    static: Mapping[str, str],
    seen: set[PartitionKey] | None = None,
) -> Outcome[AlterPartitionReassignmentsResponse]:
    """Each partition is reassigned or refused by itself. `seen`: those of the request's earlier portions, to
    which these are added."""
    elections = Elections(image, static)
    seen = set() if seen is None else seen

    def decide(item: ReassignmentItem) -> tuple[PartitionChange, ...]:
        change = _change(elections, item, seen=seen, resize=request.allow_factor_change)
        return () if change is None else (change,)

    def answer(item: ReassignmentItem, error: ErrorCode, message: str | None) -> ReassignmentResult:
        return ReassignmentResult(
            topic=item.topic, partition_id=item.partition_id, error=error, error_message=message
        )

    partitions, groups = decide_each(request.partitions, decide, answer)
    return Outcome(response=AlterPartitionReassignmentsResponse(partitions=partitions), groups=groups)


def _change(
    elections: Elections, item: ReassignmentItem, *, seen: set[PartitionKey], resize: bool
) -> PartitionChange | None:
    image = elections.image
    topic = image.topic(item.topic)
    state = None if topic is None else image.partition(topic.topic_id, item.partition_id)
    if topic is None or state is None:
        raise ApiError(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            f"There is no partition {item.partition_id} of topic {item.topic:.249}.",
        )
    key = PartitionKey(topic.topic_id, item.partition_id)
    if key in seen:
        raise ApiError(ErrorCode.INVALID_REQUEST, "Each partition may appear once.")
    seen.add(key)
    if item.replicas is None:
        if not state.is_reassigning:
            raise ApiError(
                ErrorCode.NO_REASSIGNMENT_IN_PROGRESS,
                "No partition reassignment is in progress for the partition.",
            )
        target = state.original_replicas
    else:
        _check_target(image, state, item.replicas, resize=resize)
        target = item.replicas
    return reassignment_change(key, state, _towards(elections, key, state, target))


def _check_target(
    image: MetadataImage, state: PartitionState, target: tuple[int, ...], *, resize: bool
) -> None:
    """Refuse with `ApiError` replicas that no partition may have. A fenced broker may be named."""
    code = ErrorCode.INVALID_REPLICA_ASSIGNMENT
    if not target:
        raise ApiError(code, "The replica list is empty: name at least one broker, or null to cancel.")
    if len(set(target)) != len(target):
        raise ApiError(code, f"The replica list {list(target)[:100]} names a broker more than once.")
    unknown = [each for each in target if image.broker(each) is None]
    if unknown:
        raise ApiError(
            code, f"The replica list {list(target)[:100]} has broker {unknown[0]}, which is not registered."
        )
    factor = len(state.target_replicas)
    if not resize and len(target) != factor:
        raise ApiError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"The replication factor is {factor}, and would be {len(target)}: allow a change of it, or name "
            f"{factor} brokers.",
        )


# The rules


def _may_end(elections: Elections, key: PartitionKey, state: PartitionState) -> bool:
    """Return whether enough of the target is in the ISR.

    Kafka's rule (4.3): all replicas that are added, and at least one of the others; where fewer are added
    than removed, the whole target. Two rules of ours on top of it: the end leaves min.insync.replicas or the
    whole target in the ISR, and a broker that was unregistered isn't waited for unless it is added.
    """
    isr = [each for each in state.isr if each not in state.removing_replicas]
    if not isr or not all(each in isr for each in state.adding_replicas):
        return False
    target = state.target_replicas
    if len(isr) < min(elections.settings(key).min_isr, len(target)):
        return False
    return len(state.adding_replicas) >= len(state.removing_replicas) or all(
        each in isr or elections.image.broker(each) is None for each in target
    )


def ended(elections: Elections, key: PartitionKey, state: PartitionState) -> PartitionState | None:
    """Return the partition after the end of its reassignment; None while that has to wait.

    With a replica removed the leader epoch rises even if the leader stays, so that the removed one is
    fenced.
    """
    if not state.is_reassigning or not _may_end(elections, key, state):
        return None
    image, target = elections.image, state.target_replicas
    if not any(each in target and may_lead(image, state, each) for each in state.isr):
        return None  # they are about to leave the ISR
    narrowed = _narrowed(image, state, target)._replace(adding_replicas=(), removing_replicas=())
    after = elected(narrowed, elections.reassigned(key, narrowed))
    if after.leader != state.leader or state.removing_replicas:
        after = after._replace(leader_epoch=Epoch(state.leader_epoch + 1))
    return after


def _towards(
    elections: Elections, key: PartitionKey, state: PartitionState, target: tuple[int, ...]
) -> PartitionState:
    """Return the partition when it has been asked to have `target`: at its end if there is nothing to wait
    for. Raises `ApiError` if no replica is left that may lead."""
    original = state.original_replicas
    removing = tuple(each for each in original if each not in target)
    begun = _narrowed(elections.image, state, target + removing)._replace(
        adding_replicas=tuple(each for each in target if each not in original), removing_replicas=removing
    )
    if not set(state.replicas) <= set(begun.replicas):
        begun = _dropped(elections, key, state, begun)
    return ended(elections, key, begun) or begun


def _dropped(
    elections: Elections, key: PartitionKey, state: PartitionState, begun: PartitionState
) -> PartitionState:
    """Drop the replicas that only an earlier request wanted, perhaps the leader among them. Unlike Kafka's
    controller, refuse that if it leaves fewer than min.insync.replicas with every committed record."""
    settings = elections.settings(key)
    had = {*state.isr, *state.elr}
    safe = had & set(begun.replicas)
    least = min(settings.min_isr, len(state.original_replicas))
    if not safe and not state.eligible.last_known:
        # An unclean election has a first candidate then, though it may not be here now.
        begun = begun._replace(eligible=as_eligible((), begun.replicas[:1]))
    after = elected(begun, elections.reassigned(key, begun))
    too_few = safe != had and len(safe) < least and not settings.unclean
    if too_few or after.leader == NO_LEADER != state.leader:
        raise ApiError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"Replicas that are being added are in sync (ISR {list(state.isr)}), and without them only "
            f"{len(safe)} would have every record, {least} are needed. Wait until more of "
            f"{list(state.original_replicas)} have caught up.",
        )
    return after._replace(leader_epoch=Epoch(state.leader_epoch + 1))


def _narrowed(image: MetadataImage, state: PartitionState, replicas: tuple[int, ...]) -> PartitionState:
    """Return `state` with other replicas, and no others in its ISR and ELR. Replicas that stay keep their
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
            state.directory_of(each) if each in before else default_directory(image, each)
            for each in replicas
        ),
    )


def reassignment_change(
    key: PartitionKey, before: PartitionState, after: PartitionState
) -> PartitionChange | None:
    """Return the record of a step of a reassignment; None if `after` is `before`."""
    recovering = after.leader_recovery_state is LeaderRecoveryState.RECOVERING
    unclean = recovering and before.leader_recovery_state is not LeaderRecoveryState.RECOVERING
    reason = ChangeReason.UNCLEAN_ELECTION if unclean else ChangeReason.REASSIGNMENT
    return change_between(key, before, after, reason=reason)


def end_reassignments(image: MetadataImage, *, among: Partitions, static: Mapping[str, str]) -> Changes:
    """End those of some partitions' reassignments that need to wait no longer."""
    elections = Elections(image, static)
    for key, state in among:
        after = ended(elections, key, state)
        if after is not None and (change := reassignment_change(key, state, after)) is not None:
            yield (change,)
