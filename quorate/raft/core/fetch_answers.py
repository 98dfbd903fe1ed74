"""The answers of a leader to Fetch."""

from quorate.error_code import ErrorCode
from quorate.raft.core.effects import SendRecords
from quorate.raft.core.messages import FetchRequest, FetchResponse
from quorate.raft.core.shared_state import NodeState
from quorate.types import EpochEnd, Offset, SnapshotId


def answer_fetch(
    node: NodeState,
    request: FetchRequest,
    *,
    high_watermark: Offset | None,
    read_round: int,
    diverging: EpochEnd | None = None,
    snapshot: SnapshotId | None = None,
) -> None:
    """Answer with the available records, if the request asks for some and its log matches."""
    response = FetchResponse(
        source=node.id,
        destination=request.source,
        correlation=request.correlation,
        epoch=node.election.epoch,
        leader=node.id,
        # A follower knows our endpoint, and need not decode it with every commit.
        leader_endpoint=None if request.max_bytes > 0 else node.endpoint,
        high_watermark=high_watermark,
        log_start_offset=node.log.start_offset,
        diverging=diverging,
        snapshot=snapshot,
        read_round=read_round,
        lease_time_ms=node.now_ms,
    )
    is_of_this_log = diverging is None and snapshot is None
    if is_of_this_log and request.max_bytes > 0 and request.offset < node.log.end_offset:
        node.out.append(SendRecords(response, request.offset, request.max_bytes))
    else:
        node.send(response)


def refuse_fetch(node: NodeState, request: FetchRequest) -> None:
    """Refuse a Fetch that waited for records, because this node does not lead any more."""
    node.send(FetchResponse(**node.answer_to(request, ErrorCode.NOT_LEADER_OR_FOLLOWER)))
