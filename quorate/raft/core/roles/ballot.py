"""The answers to a round of votes, by voter, so that no answer counts twice."""

from quorate.raft.core import outgoing_requests as requests
from quorate.raft.core.cloning import Cloneable
from quorate.raft.core.shared_state import NodeState
from quorate.types import NodeId, ReplicaKey


class Ballot(Cloneable):
    """One round of votes. It begins with our own vote, if we have one, and ends with the role that holds
    it."""

    __slots__ = ("_granted", "_leader_resigned", "_refused", "pre_vote")

    def __init__(self, node: NodeState, *, pre_vote: bool, leader_resigned: bool = False) -> None:
        self.pre_vote = pre_vote
        self._leader_resigned = leader_resigned
        self._granted: set[NodeId] = {node.id} if node.is_voter else set()
        self._refused: set[NodeId] = set()

    def ask(self, node: NodeState) -> None:
        """Ask every voter that has not answered and may be asked now."""
        for voter in node.others:
            self.ask_one(node, voter)

    def ask_one(self, node: NodeState, voter: ReplicaKey) -> None:
        if voter.id not in self._granted and voter.id not in self._refused and node.may_ask(voter.id):
            requests.ask_vote(node, voter, pre_vote=self.pre_vote, leader_resigned=self._leader_resigned)

    def ask_again(self, node: NodeState, peer: NodeId) -> None:
        """Ask `peer` again, if it has refused."""
        for voter in node.others:
            if voter.id == peer and peer in self._refused:
                self._refused.discard(peer)
                self.ask_one(node, voter)

    def count(self, node: NodeState, peer: NodeId, *, granted: bool) -> None:
        if peer in node.voters:
            (self._granted if granted else self._refused).add(peer)

    def is_won(self, node: NodeState) -> bool:
        return len(self._granted) >= node.voters.majority

    def is_lost(self, node: NodeState) -> bool:
        """Return whether the election is lost, whatever the remaining voters answer."""
        return len(node.voters) - len(self._refused) < node.voters.majority

    @property
    def granting_voters(self) -> tuple[NodeId, ...]:
        return tuple(sorted(self._granted))
