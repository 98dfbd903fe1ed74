"""Answers to a node's own requests, and requests without an answer."""

from typing import Final

from quorate.error_code import ErrorCode
from quorate.raft.core.messages import Response, VoteResponse
from quorate.raft.core.role_holder import RoleHolder
from quorate.types import NodeId

TELLS_EPOCH: Final = (ErrorCode.NONE, ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)
"""The answers with a valid epoch and leader."""
SNAPSHOT_ERRORS: Final = (ErrorCode.SNAPSHOT_NOT_FOUND, ErrorCode.POSITION_OUT_OF_RANGE)
"""The answers that end the fetch of a snapshot, and say nothing of the leader."""


def take_response(roles: RoleHolder, response: Response) -> None:
    """Apply the rule for every answer, then the role's own
    (docs/reference/kraft-rules.md#checks-of-an-answer)."""
    node = roles.node
    source = response.source
    if node.in_flight.get(source) != response.correlation or response.destination != node.id:
        return
    del node.in_flight[source]
    error = response.error
    tells_leader = response.epoch > node.epoch or (
        response.epoch == node.epoch and response.leader is not None
    )
    if tells_leader and error in TELLS_EPOCH:
        before = roles.role
        first_hand = response.leader == source
        if first_hand:
            node.resume(source)
        roles.hear_of(response.epoch, response.leader, response.leader_endpoint, first_hand=first_hand)
        if roles.role is not before:
            return  # the request was of the old role
    # Granting the pre-vote of an outside id does not raise the epoch.
    is_pre_vote = isinstance(response, VoteResponse) and response.pre_vote and response.granted
    is_of_now = response.epoch == node.epoch or (is_pre_vote and response.epoch < node.epoch)
    if error is ErrorCode.NONE and is_of_now:
        roles.go(roles.role.on_response(node, response))
    elif error is ErrorCode.NOT_LEADER_OR_FOLLOWER and response.epoch == node.epoch:
        node.pause(source, failed=False)
        roles.go(roles.role.on_not_leader(node, source))
    elif error in SNAPSHOT_ERRORS and response.epoch == node.epoch:
        node.pause(source, failed=False)
        roles.go(roles.role.on_refused(node, response))
    else:
        # The peer is behind us, of another cluster, stopping, or expects another id here: all may pass.
        # Kafka dies of INVALID_REQUEST; we don't let a peer's bug stop this node.
        node.pause(source, failed=False)
        roles.go(roles.role.on_unanswered(node, source))


def end_pause(roles: RoleHolder, peer: NodeId | None) -> None:
    if peer is not None and peer in roles.node.paused:
        del roles.node.paused[peer]
        roles.go(roles.role.on_ready(roles.node, peer))


def give_up_request(roles: RoleHolder, peer: NodeId) -> None:
    del roles.node.in_flight[peer]
    roles.node.pause(peer, failed=True)
    roles.go(roles.role.on_unanswered(roles.node, peer))
