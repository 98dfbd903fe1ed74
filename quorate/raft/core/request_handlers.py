"""The handling of other nodes' requests: check, let the role act, answer."""

from quorate.error_code import ErrorCode
from quorate.raft.core.checks import request_error
from quorate.raft.core.messages import (
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
    EndQuorumEpochRequest,
    EndQuorumEpochResponse,
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    VoteRequest,
    VoteResponse,
)
from quorate.raft.core.role_holder import RoleHolder
from quorate.raft.core.roles.follower import Follower
from quorate.raft.core.roles.leader import Leader
from quorate.raft.core.roles.outside_ids import is_heeded, is_outside_id
from quorate.raft.core.roles.prospective import Prospective
from quorate.raft.core.roles.transitions import ToUnattached
from quorate.raft.core.roles.unattached import Unattached
from quorate.raft.core.shared_state import NodeState


def answer_fetch(roles: RoleHolder, request: FetchRequest) -> None:
    node = roles.node
    error = _leader_error(roles, request)
    if error is ErrorCode.NONE and isinstance(roles.role, Leader):
        roles.go(roles.role.on_fetch(node, request))
        return
    node.send(FetchResponse(**node.answer_to(request, error)))


def answer_fetch_snapshot(roles: RoleHolder, request: FetchSnapshotRequest) -> None:
    node = roles.node
    error = _leader_error(roles, request)
    if error is ErrorCode.NONE:
        if request.snapshot.end_offset <= 0:
            error = ErrorCode.SNAPSHOT_NOT_FOUND  # each node has its own bootstrap snapshot
        elif request.position < 0:
            error = ErrorCode.POSITION_OUT_OF_RANGE
    if error is ErrorCode.NONE and isinstance(roles.role, Leader):
        roles.role.on_fetch_snapshot(node, request)
        return
    node.send(
        FetchSnapshotResponse(
            **node.answer_to(request, error), snapshot=request.snapshot, position=request.position
        )
    )


def _leader_error(roles: RoleHolder, request: FetchRequest | FetchSnapshotRequest) -> ErrorCode:
    """Return the error of a request that only the leader of its epoch can answer."""
    node = roles.node
    error = request_error(node, request)
    if error is not ErrorCode.NONE:
        return error
    if request.epoch < node.epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    if request.epoch > node.epoch:
        return ErrorCode.UNKNOWN_LEADER_EPOCH
    return ErrorCode.NONE if isinstance(roles.role, Leader) else ErrorCode.NOT_LEADER_OR_FOLLOWER


def answer_vote(roles: RoleHolder, request: VoteRequest) -> None:
    node = roles.node
    error = request_error(node, request)
    granted = False
    if error is ErrorCode.NONE and request.epoch < node.epoch:
        error = ErrorCode.FENCED_LEADER_EPOCH
    if error is ErrorCode.NONE and _is_freed_by(node, request):
        roles.end_promise()
    if error is ErrorCode.NONE and node.promised:
        # Nor is its epoch taken over. A candidate asks again, a prospective one begins another round.
        error = ErrorCode.NONE if request.voter.matches(node.key) else ErrorCode.INVALID_VOTER_KEY
    elif error is ErrorCode.NONE and is_outside_id(node, request.source):
        granted = _grants_outside_id(roles, request)
        if not request.voter.matches(node.key):
            error = ErrorCode.INVALID_VOTER_KEY
    elif error is ErrorCode.NONE:
        up_to_date = _is_up_to_date(roles, request)
        is_asked = request.voter.matches(node.key)
        if request.epoch > node.epoch:
            # A pre-vote too is of an epoch that a candidate has opened. A vote is given in the same step,
            # because each Persist costs a sync in the middle of an election.
            gives = is_asked and up_to_date and not request.pre_vote
            roles.go(ToUnattached(epoch=request.epoch, voted=request.candidate if gives else None))
        if not is_asked:
            error = ErrorCode.INVALID_VOTER_KEY
        elif request.pre_vote:
            granted = roles.role.grants_pre_vote(node, request, up_to_date=up_to_date)
        else:
            granted = roles.role.grants_vote(node, request, up_to_date=up_to_date)
            if granted and node.election.voted is None:
                roles.go(ToUnattached(epoch=node.epoch, voted=request.candidate))
    node.send(VoteResponse(**node.answer_to(request, error), granted=granted, pre_vote=request.pre_vote))
    if request.pre_vote and granted:
        roles.role.on_pre_vote_granted(node)
    if request.pre_vote and error is ErrorCode.NONE and not granted and isinstance(roles.role, Prospective):
        roles.role.on_rival(node, request.source)


def _is_freed_by(node: NodeState, request: VoteRequest) -> bool:
    """Return whether the leader of our epoch told the sender that it resigned. If we promised something to an
    earlier leader, that one had no lease any more when this epoch's was elected."""
    return (
        request.pre_vote
        and request.leader_resigned
        and request.epoch == node.epoch
        and not is_outside_id(node, request.source)
    )


def _grants_outside_id(roles: RoleHolder, request: VoteRequest) -> bool:
    """Grant a vote to an id outside the voter sets by the usual rules, when it may have an effect at all.
    Its epoch becomes ours only with our vote."""
    node, role = roles.node, roles.role
    up_to_date = _is_up_to_date(roles, request)
    if request.epoch == node.epoch and not request.pre_vote and node.election.voted is not None:
        return node.election.voted.matches(request.candidate)  # asked again
    # A node that may not stand could never bring the others to the epoch, and would be left behind in it.
    if not node.may_stand or not request.voter.matches(node.key):
        return False
    if not is_heeded(node, role, request.epoch):
        return False
    if request.pre_vote:
        return role.grants_pre_vote(node, request, up_to_date=up_to_date)
    if not up_to_date or (request.epoch == node.epoch and node.election.leader is not None):
        return False
    roles.go(ToUnattached(epoch=request.epoch, voted=request.candidate))
    return True


def _is_up_to_date(roles: RoleHolder, request: VoteRequest) -> bool:
    log = roles.node.log
    return (request.last_epoch, request.end_offset) >= (log.last_epoch, log.end_offset)


def answer_begin_epoch(roles: RoleHolder, request: BeginQuorumEpochRequest) -> None:
    node = roles.node
    error = request_error(node, request)
    if error is ErrorCode.NONE:
        error = _claim_error(roles, request)
    if error is ErrorCode.NONE and is_outside_id(node, request.source):
        _ask_outside_id(roles, request)
    elif error is ErrorCode.NONE:
        node.resume(request.source)
        roles.hear_of(request.epoch, request.source, request.endpoint, first_hand=True)
        if not request.voter.matches(node.key):
            error = ErrorCode.INVALID_VOTER_KEY
    node.send(BeginQuorumEpochResponse(**node.answer_to(request, error)))


def _ask_outside_id(roles: RoleHolder, request: BeginQuorumEpochRequest) -> None:
    """Ask an outside id that says that it leads, if this node looks for a leader."""
    node, role = roles.node, roles.role
    if request.endpoint is None or not is_heeded(node, role, request.epoch):
        return
    node.hear_of(request.source, request.endpoint)
    if not isinstance(role, Unattached):
        roles.go(ToUnattached(epoch=node.epoch, lost_election=True))
        role = roles.role
    if isinstance(role, Unattached):
        role.look_at(node, request.source)


def _claim_error(roles: RoleHolder, request: BeginQuorumEpochRequest | EndQuorumEpochRequest) -> ErrorCode:
    """Check the claim of the source that it leads, or led, the epoch. A present or former voter is believed.
    If another leader of the epoch is known, a voter's claim stops this node, because a vote was given twice.
    A former voter was not elected, so its claim is refused."""
    node = roles.node
    if request.epoch < node.epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    known = node.election.leader
    is_no_voter = request.source not in node.voters
    if request.epoch == node.epoch and known is not None and known != request.source and is_no_voter:
        return ErrorCode.INVALID_REQUEST
    return ErrorCode.NONE


def answer_end_epoch(roles: RoleHolder, request: EndQuorumEpochRequest) -> None:
    node = roles.node
    error = request_error(node, request)
    if error is ErrorCode.NONE:
        error = _claim_error(roles, request)
    if error is ErrorCode.NONE and not is_outside_id(node, request.source):
        roles.hear_of(request.epoch, request.source, None, first_hand=True, resigned=True)
        roles.end_promise()
        if isinstance(roles.role, Follower) and roles.role.leader == request.source:
            roles.role.on_end_of_epoch(node, request.preferred_successors)
    node.send(EndQuorumEpochResponse(**node.answer_to(request, error)))
