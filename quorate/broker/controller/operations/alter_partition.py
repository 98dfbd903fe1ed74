"""AlterPartition: a partition's leader asks for another ISR (KIP-497, KIP-841)."""

import uuid
from collections.abc import Mapping

from quorate.broker.controller.operations.directories import may_lead
from quorate.broker.controller.operations.elections import change_between, eligible_after
from quorate.broker.controller.operations.leaderships import Elections
from quorate.broker.controller.operations.outcome import Outcome, refusal
from quorate.broker.controller.operations.reassignments import ended, reassignment_change
from quorate.broker.controller.rpc import (
    AlterPartitionItem,
    AlterPartitionRequest,
    AlterPartitionResponse,
    AlterPartitionResult,
    IsrMember,
)
from quorate.broker.metadata.api_error import ApiError
from quorate.broker.metadata.image import MetadataImage
from quorate.broker.metadata.metadata_records import ChangeReason, LeaderRecoveryState, PartitionChange
from quorate.broker.metadata.states import PartitionKey, PartitionState, as_eligible, changed
from quorate.error_code import ErrorCode


def alter_partition(
    image: MetadataImage,
    request: AlterPartitionRequest,
    *,
    static: Mapping[str, str],
    seen: set[PartitionKey] | None = None,
) -> Outcome[AlterPartitionResponse]:
    """Change or refuse each partition by itself. The answer has the state after that. `seen`: the partitions
    of the request's earlier portions, to which these are added."""
    sender = image.broker(request.broker_id)
    if sender is None or sender.epoch != request.broker_epoch:
        held = "it is not registered" if sender is None else f"its epoch is {sender.epoch}"
        message = f"Broker {request.broker_id} with epoch {request.broker_epoch}: {held}"
        return refusal(AlterPartitionResponse, ErrorCode.STALE_BROKER_EPOCH, message)
    results: list[AlterPartitionResult] = []
    groups: list[tuple[PartitionChange]] = []
    elections = Elections(image, static)
    seen = set() if seen is None else seen
    for item in request.partitions:
        try:
            key = PartitionKey(item.topic_id, item.partition_id)
            state = _checked(image, request.broker_id, item)
            if key in seen:
                raise ApiError(ErrorCode.INVALID_REQUEST, "each partition may appear once")
            seen.add(key)
            change = _change(elections, key, item, state)
        except ApiError as error:
            results.append(
                AlterPartitionResult(topic_id=item.topic_id, partition_id=item.partition_id, error=error.code)
            )
            continue
        after = state
        if change is not None:
            groups.append((change,))
            after = changed(state, change)
        results.append(_result(item.topic_id, item.partition_id, state, after))
    return Outcome(response=AlterPartitionResponse(partitions=tuple(results)), groups=tuple(groups))


def _result(
    topic_id: uuid.UUID, partition_id: int, before: PartitionState, after: PartitionState
) -> AlterPartitionResult:
    moved = after.leader != before.leader
    return AlterPartitionResult(
        topic_id=topic_id,
        partition_id=partition_id,
        # Written all the same: the sender learns that it leads no longer.
        error=ErrorCode.NEW_LEADER_ELECTED if moved else ErrorCode.NONE,
        leader=after.leader,
        leader_epoch=after.leader_epoch,
        isr=after.isr,
        eligible_leader_replicas=after.elr,
        leader_recovery_state=after.leader_recovery_state,
        partition_epoch=after.partition_epoch,
    )


def _checked(image: MetadataImage, sender: int, item: AlterPartitionItem) -> PartitionState:
    """Return the partition, if the request may change it or was granted before. The order of the checks is
    part of the protocol: it decides which error a stale leader or a stale controller causes."""
    if image.topic_by_id(item.topic_id) is None:
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_ID, "no such topic")
    state = image.partition(item.topic_id, item.partition_id)
    if state is None:
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "no such partition")
    if item.leader_epoch > state.leader_epoch or item.partition_epoch > state.partition_epoch:
        # The leader knows more than we do, so we are not the controller any more (KAFKA-14154).
        raise ApiError(ErrorCode.NOT_CONTROLLER, "the partition's epoch is ahead of this controller")
    if item.leader_epoch < state.leader_epoch:
        raise ApiError(ErrorCode.FENCED_LEADER_EPOCH, "the leader epoch is old")
    if sender != state.leader:
        raise ApiError(ErrorCode.INVALID_REQUEST, "the sender doesn't lead the partition")
    if item.partition_epoch < state.partition_epoch and not _granted(item, state):
        raise ApiError(ErrorCode.INVALID_UPDATE_VERSION, "the partition epoch is old")
    return state


def _granted(item: AlterPartitionItem, state: PartitionState) -> bool:
    """True if the requested state already holds, because the answer to an earlier request was lost
    (KAFKA-14144)."""
    members = [member.broker_id for member in item.new_isr]
    return sorted(members) == sorted(state.isr) and item.leader_recovery_state is state.leader_recovery_state


def _change(
    elections: Elections, key: PartitionKey, item: AlterPartitionItem, state: PartitionState
) -> PartitionChange | None:
    if _granted(item, state):
        if item.partition_epoch < state.partition_epoch:
            return None
        # A leader takes back what it asked for before: a new epoch, so that a request of then which is still
        # on its way is refused when it arrives.
        return PartitionChange(
            topic_id=item.topic_id, partition_id=item.partition_id, reason=ChangeReason.ISR_CONFIRMED
        )
    isr = tuple(member.broker_id for member in item.new_isr)
    if len(set(isr)) != len(isr) or not set(isr) <= set(state.replicas) or state.leader not in isr:
        raise ApiError(
            ErrorCode.INVALID_REQUEST, f"ISR {isr} of replicas {state.replicas} led by {state.leader}"
        )
    recovery = item.leader_recovery_state
    if recovery is LeaderRecoveryState.RECOVERING and (
        len(isr) > 1 or state.leader_recovery_state is LeaderRecoveryState.RECOVERED
    ):
        raise ApiError(ErrorCode.INVALID_REQUEST, "the leader isn't recovering, or has not recovered yet")
    if not all(_eligible(elections.image, state, member) for member in item.new_isr):
        raise ApiError(
            ErrorCode.INELIGIBLE_REPLICA,
            "a member is fenced, shutting down, unknown or restarted, or its directory is not online",
        )
    min_isr = elections.settings(key).min_isr
    elr = eligible_after(state, isr=isr, min_isr=min_isr)
    after = state._replace(isr=isr, leader_recovery_state=recovery, eligible=as_eligible(elr, ()))
    end = ended(elections, key, after)
    if end is not None:
        return reassignment_change(key, state, end)
    return change_between(key, state, after, reason=_reason(state, after))


def _reason(before: PartitionState, after: PartitionState) -> ChangeReason:
    """Return the leader's reason for the change. An ISR grows and shrinks in requests of their own. If one
    does both, the shrinking matters more."""
    if after.leader_recovery_state is not before.leader_recovery_state:
        return ChangeReason.LEADER_RECOVERED
    grown = set(before.isr) <= set(after.isr)
    return ChangeReason.REPLICA_CAUGHT_UP if grown else ChangeReason.REPLICA_LAGGED


def _eligible(image: MetadataImage, state: PartitionState, member: IsrMember) -> bool:
    broker = image.broker(member.broker_id)
    return (
        broker is not None
        and may_lead(image, state, member.broker_id)
        and member.broker_epoch in (-1, broker.epoch)
    )
