"""Checks of a request that come before its epoch (docs/reference/kraft-rules.md#checks-of-a-request)."""

from quorate.error_code import ErrorCode
from quorate.raft.core.messages import (
    BeginQuorumEpochRequest,
    EndQuorumEpochRequest,
    FetchRequest,
    FetchSnapshotRequest,
    Request,
    VoteRequest,
)
from quorate.raft.core.shared_state import FIRST_BOOTSTRAP, NodeState


def request_error(node: NodeState, request: Request) -> ErrorCode:
    """Return INCONSISTENT_CLUSTER_ID, INVALID_REQUEST for values that no correct peer sends, or NONE."""
    if request.cluster_id != node.cluster_id:
        return ErrorCode.INCONSISTENT_CLUSTER_ID
    # A bootstrap server is asked before its id is known.
    is_for_us = request.destination == node.id or (
        isinstance(request, FetchRequest) and request.destination <= FIRST_BOOTSTRAP
    )
    if request.source == node.id or not is_for_us:
        return ErrorCode.INVALID_REQUEST
    match request:
        case FetchRequest():
            valid = _is_fetch_valid(request)
        case FetchSnapshotRequest():
            valid = request.replica.id == request.source and request.epoch >= 0 and request.max_bytes >= 0
        case VoteRequest():
            valid = _is_vote_valid(request)
        case BeginQuorumEpochRequest() | EndQuorumEpochRequest():
            valid = request.source >= 0 and request.epoch >= 0
        case _:
            valid = False
    return ErrorCode.NONE if valid else ErrorCode.INVALID_REQUEST


def _is_fetch_valid(request: FetchRequest) -> bool:
    return (
        request.replica.id == request.source
        and request.offset >= 0
        and 0 <= request.last_fetched_epoch <= request.epoch
        and request.max_wait_ms >= 0
        and request.max_bytes >= 0
        and request.read_round >= 0
        and (request.high_watermark is None or request.high_watermark >= 0)
    )


def _is_vote_valid(request: VoteRequest) -> bool:
    # A candidate's log is of earlier epochs than the one it opens. A prospective node has opened none yet.
    last_epoch_max = request.epoch if request.pre_vote else request.epoch - 1
    return (
        request.source >= 0
        and request.candidate.id == request.source
        and request.end_offset >= 0
        and 0 <= request.last_epoch <= last_epoch_max
    )
