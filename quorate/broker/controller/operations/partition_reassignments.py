"""AlterPartitionReassignments: other replicas for partitions, or an end to what is under way (KIP-455)."""

from collections.abc import Mapping

from quorate.broker.controller.operations.outcome import Outcome
from quorate.broker.controller.operations.reassignment import ReassignmentRules, reassignment_change
from quorate.broker.controller.rpc import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignmentItem,
    ReassignmentResult,
)
from quorate.broker.metadata import ApiError, MetadataImage, PartitionChange, PartitionKey, PartitionState
from quorate.error_code import ErrorCode


def alter_partition_reassignments(
    image: MetadataImage,
    request: AlterPartitionReassignmentsRequest,
    *,
    static: Mapping[str, str],
    seen: set[PartitionKey] | None = None,
) -> Outcome[AlterPartitionReassignmentsResponse]:
    """Each partition is reassigned or refused by itself. `seen`: those of the request's earlier portions, to
    which these are added."""
    results: list[ReassignmentResult] = []
    groups: list[tuple[PartitionChange]] = []
    seen = set() if seen is None else seen
    for item in request.partitions:
        error, message = ErrorCode.NONE, None
        try:
            change = _change(image, item, static=static, seen=seen, resize=request.allow_factor_change)
        except ApiError as refused:
            error, message = refused.code, refused.message
        else:
            if change is not None:
                groups.append((change,))
        results.append(
            ReassignmentResult(
                topic=item.topic, partition_id=item.partition_id, error=error, error_message=message
            )
        )
    return Outcome(
        response=AlterPartitionReassignmentsResponse(partitions=tuple(results)), groups=tuple(groups)
    )


def _change(
    image: MetadataImage,
    item: ReassignmentItem,
    *,
    static: Mapping[str, str],
    seen: set[PartitionKey],
    resize: bool,
) -> PartitionChange | None:
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
        _check(image, state, item.replicas, resize=resize)
        target = item.replicas
    after = ReassignmentRules(image, topic.name, static=static).towards(state, target)
    return reassignment_change(key, state, after)


def _check(image: MetadataImage, state: PartitionState, target: tuple[int, ...], *, resize: bool) -> None:
    """Refuse with `ApiError` what no partition may have. A fenced broker may be named: it comes back."""
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
