"""RemoveRaftVoter: a voter, named with its directory, votes no more (KIP-853)."""

from typing import TYPE_CHECKING

from kio.schema.errors import ErrorCode

from quorate.broker.apis.context import ServingNode, respond
from quorate.broker.apis.raft_voters import DEFAULT_TIMEOUT_MS, changed, check_cluster, voter_key
from quorate.broker.wire import Answer, RequestContext, Response

if TYPE_CHECKING:
    from kio.schema.remove_raft_voter.v0.request import RemoveRaftVoterRequest


def handle(node: ServingNode, context: RequestContext, request: "RemoveRaftVoterRequest") -> Answer:
    """Remove a voter. Any broker forwards the request to the quorum's leader."""
    check_cluster(node, request.cluster_id)
    key = voter_key(request.voter_id, request.voter_directory_id)

    async def remove() -> Response:
        await changed(node.quorum.remove_voter(key, timeout_ms=DEFAULT_TIMEOUT_MS))
        return respond(context, error_code=ErrorCode.none)

    return node.later(remove)
