"""UpdateRaftVoter: where a voter listens from now on (KIP-853). Our own nodes tell it over the controller
listener."""

from typing import TYPE_CHECKING, Final

from kio.schema.errors import ErrorCode

from quorate.broker.apis.context import ServingNode, respond
from quorate.broker.apis.raft_voters import (
    DEFAULT_TIMEOUT_MS,
    changed,
    check_cluster,
    default_endpoint,
    voter_key,
)
from quorate.broker.wire import Answer, KafkaError, RequestContext, Response
from quorate.types import UNKNOWN_EPOCH, Epoch, Voter

if TYPE_CHECKING:
    from kio.schema.update_raft_voter.v0.request import UpdateRaftVoterRequest

_KRAFT_VERSION: Final = 1
"""The kraft.version of a quorum with voters that can change."""


def handle(node: ServingNode, context: RequestContext, request: "UpdateRaftVoterRequest") -> Answer:
    """Update a voter. Any broker forwards the request to the quorum's leader. Every answer names the leader,
    if known."""
    try:
        voter = _checked(node, request)
    except KafkaError as error:
        return _respond(node, context, error.code)

    async def update() -> Response:
        try:
            await changed(node.quorum.update_voter(voter, timeout_ms=DEFAULT_TIMEOUT_MS))
        except KafkaError as error:
            return _respond(node, context, error.code)
        return _respond(node, context, ErrorCode.none)

    return node.later(update)


def _checked(node: ServingNode, request: "UpdateRaftVoterRequest") -> Voter:
    check_cluster(node, request.cluster_id)
    asked, epoch = Epoch(request.current_leader_epoch), node.quorum.epoch
    if asked != UNKNOWN_EPOCH and asked != epoch:
        code = ErrorCode.fenced_leader_epoch if asked < epoch else ErrorCode.unknown_leader_epoch
        raise KafkaError(code, f"the request is for epoch {asked}, this is epoch {epoch}")
    voter = Voter(
        voter_key(request.voter_id, request.voter_directory_id),
        default_endpoint(node, request.listeners),
    )
    supported = request.k_raft_version_feature
    if not supported.min_supported_version <= _KRAFT_VERSION <= supported.max_supported_version:
        raise KafkaError(
            ErrorCode.invalid_request,
            f"voter {voter.key.id} speaks kraft.version {supported.min_supported_version} to "
            f"{supported.max_supported_version}, and the quorum {_KRAFT_VERSION}",
        )
    return voter


def _respond(node: ServingNode, context: RequestContext, code: ErrorCode) -> Response:
    leader = node.quorum.leader
    address = None if leader is None else node.quorum.endpoint_of(leader)
    known = (
        {}
        if leader is None or address is None
        else {"leader_id": leader, "host": address.host, "port": address.port}
    )
    current = {"leader_id": -1, "leader_epoch": node.quorum.epoch, "host": "", "port": -1} | known
    return respond(context, error_code=code, current_leader=current)
