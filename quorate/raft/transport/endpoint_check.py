"""The check that a node answers at its new endpoint, before the voter set names it (KIP-853).

KRaft asks the new voter's endpoint for its API versions. This check also asks for its identity, so that the
address of another node, or of another cluster, is refused.
"""

import trio

from quorate.error_code import ErrorCode
from quorate.raft.core import AddVoter, UpdateVoter, VoterChange
from quorate.raft.quorum_errors import QuorumError, RequestRefusedError
from quorate.raft.transport.description_frames import QuorumView
from quorate.raft.transport.view_asking import ask_view
from quorate.runtime import Address, Network, NetworkError, TlsError
from quorate.types import NodeId, ReplicaKey, Voter


class EndpointCheck:
    """Asks one endpoint at a time, on a connection of its own."""

    def __init__(
        self, network: Network, *, node_id: NodeId, cluster_id: str, connect_timeout_ms: int, timeout_ms: int
    ) -> None:
        """`timeout_ms`: the limit for connection and answer together."""
        self._network = network
        self._node_id = node_id
        self._cluster_id = cluster_id
        self._connect_timeout_ms = connect_timeout_ms
        self._timeout_ms = timeout_ms

    async def check(self, change: VoterChange) -> None:
        """Ask the endpoint in `change`, if it has one. Raises `RequestRefusedError`: with REQUEST_TIMED_OUT
        if no node answers there, with INVALID_REQUEST if another one does."""
        match change:
            case AddVoter(voter) | UpdateVoter(voter) if voter.key.id != self._node_id:
                await self._check_voter(voter)
            case _:
                return

    async def _check_voter(self, voter: Voter) -> None:
        address = Address(voter.endpoint.host, voter.endpoint.port)
        code, problem = ErrorCode.INVALID_REQUEST, ""
        try:
            with trio.fail_after(self._timeout_ms / 1000):
                view = await ask_view(
                    self._network,
                    address,
                    voter.key.id,
                    cluster_id=self._cluster_id,
                    connect_timeout_ms=self._connect_timeout_ms,
                    timeout_ms=self._timeout_ms,
                )
                problem = self._identity_problem(view, voter)
        except trio.TooSlowError:
            code = ErrorCode.REQUEST_TIMED_OUT
            problem = f"nothing answered there within {self._timeout_ms} ms; start it"
        except TlsError as error:
            problem = f"it can't be trusted ({error}); see what it is"
        except NetworkError as error:
            code, problem = ErrorCode.REQUEST_TIMED_OUT, f"it can't be ({error}); start it"
        except QuorumError as error:
            problem = f"what listens there is no node of this cluster ({error}); see what it is"
        if problem:
            raise RequestRefusedError(
                code,
                f"node {voter.key.id} is to be reached at {address}, but {problem}, or correct the address",
            )

    def _identity_problem(self, view: QuorumView, voter: Voter) -> str:
        """Return the difference between the node that answers and `voter`. Empty: there is none."""
        if view.cluster_id != self._cluster_id:
            return f"cluster {view.cluster_id} answers there; see who it is"
        if view.node is None:
            return "it did not say which node it is; upgrade it"
        if not view.node.matches(voter.key):
            found, wanted = _show_key(view.node), _show_key(voter.key)
            return f"{found} answers there, not {wanted}; see which of them is meant"
        return ""


def _show_key(key: ReplicaKey) -> str:
    return f"node {key.id} with directory {key.directory_id}"
