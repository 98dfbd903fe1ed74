"""A node's care for its own place among the voters: it updates its endpoint, and joins."""

import trio

from quorate.raft.assembly import Node
from quorate.raft.core import AddVoter, RemoveVoter, Role, UpdateVoter, VoterChange
from quorate.raft.leader_calls import LeaderCalls
from quorate.raft.quorum_config import QuorumConfig
from quorate.raft.quorum_errors import QuorumError
from quorate.runtime import get_logger
from quorate.types import ReplicaKey, Voter

log = get_logger(__name__)


class Membership:
    """Compares the voter set with this node's configuration once per fetch timeout, as Kafka does."""

    def __init__(self, config: QuorumConfig, node: Node, calls: LeaderCalls) -> None:
        self._config = config
        self._node = node
        self._calls = calls
        self._logged: str | None = None

    async def run(self) -> None:
        """Run until cancelled."""
        timeout_ms = self._config.core.fetch_timeout_ms
        while True:
            await trio.sleep(timeout_ms / 1000)
            self._node.check_voters()
            change = self._wanted_change()
            if change is None:
                continue
            log.info("asking for a change of the voters", node=self._config.node_id, change=str(change))
            try:
                await self._calls.change_voters(change, timeout_ms=timeout_ms)
            except QuorumError as error:
                # The reason may pass. It is logged once, and the change is tried again.
                if str(error) != self._logged:
                    self._logged = str(error)
                    log.info("the voters stay", node=self._config.node_id, reason=str(error))

    def _wanted_change(self) -> VoterChange | None:
        core, endpoint = self._node.driver.core, self._config.own_endpoint
        if not core.has_dynamic_voters or endpoint is None or core.leader is None:
            return None
        key = self._node.key
        voter = Voter(key, endpoint)
        if core.is_voter:
            return UpdateVoter(voter) if core.voters.endpoint_of(key.id) != endpoint else None
        if not self._config.auto_join or core.role is not Role.FOLLOWER:
            return None
        earlier = next((other.key for other in core.voters if other.key.id == key.id), None)
        return AddVoter(voter) if earlier is None else RemoveVoter(ReplicaKey(key.id, earlier.directory_id))
