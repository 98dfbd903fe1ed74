"""AddRaftVoter: an observer that has caught up becomes a voter (KIP-853).

Answered when the change is committed, also where version 1 would let us answer as soon as it is written.
"""

from datetime import timedelta
from typing import TYPE_CHECKING

from kio.schema.errors import ErrorCode

from quorate.broker.apis.context import ServingNode, respond
from quorate.broker.apis.raft_voters import changed, check_cluster, default_endpoint, voter_key
from quorate.broker.wire import Answer, RequestContext, Response
from quorate.types import Voter

if TYPE_CHECKING:
    from kio.schema.add_raft_voter.v1.request import AddRaftVoterRequest


def handle(node: ServingNode, context: RequestContext, request: "AddRaftVoterRequest") -> Answer:
    """Add a voter. Any broker forwards the request to the quorum's leader."""
    check_cluster(node, request.cluster_id)
    voter = Voter(
        voter_key(request.voter_id, request.voter_directory_id),
        default_endpoint(node, request.listeners),
    )
    timeout_ms = max(0, request.timeout // timedelta(milliseconds=1))

    async def add() -> Response:
        await changed(node.quorum.add_voter(voter, timeout_ms=timeout_ms))
        return respond(context, error_code=ErrorCode.none)

    return node.later(add)
