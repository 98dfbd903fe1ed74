"""A voter that asks whether it could win, before it disturbs the quorum by a new epoch (KIP-996)."""

from typing import ClassVar

from quorate.raft.core.effects import Role
from quorate.raft.core.events import Timer, TimerKind
from quorate.raft.core.messages import Response, VoteRequest, VoteResponse
from quorate.raft.core.roles.ballot import Ballot
from quorate.raft.core.roles.role import RoleState
from quorate.raft.core.roles.transitions import ToCandidate, ToFollower, ToUnattached, Transition
from quorate.raft.core.shared_state import NodeState
from quorate.types import NodeId


class Prospective(RoleState):
    """Becomes a candidate with a majority of pre-votes. Otherwise goes back to the leader it knew, if any."""

    __slots__ = ("_ballot", "_leader_resigned", "_lost_rounds")

    role: ClassVar[Role] = Role.PROSPECTIVE

    def __init__(self, node: NodeState, *, lost_rounds: int = 0, leader_resigned: bool = False) -> None:
        self._ballot = Ballot(node, pre_vote=True, leader_resigned=leader_resigned)
        self._lost_rounds = lost_rounds
        self._leader_resigned = leader_resigned

    def timers(self, node: NodeState) -> tuple[TimerKind, ...]:
        return (TimerKind.ELECTION,)

    def enter(self, node: NodeState) -> Transition | None:
        if self._ballot.is_won(node):
            return ToCandidate()
        node.arm_election()
        self._ballot.ask(node)
        return None

    def on_timer(self, node: NodeState, timer: Timer) -> Transition | None:
        return self._go_back(node) if timer.kind is TimerKind.ELECTION else None

    def on_ready(self, node: NodeState, peer: NodeId) -> Transition | None:
        self._ballot.ask(node)
        return None

    def on_response(self, node: NodeState, response: Response) -> Transition | None:
        if not isinstance(response, VoteResponse) or not response.pre_vote:
            return None
        self._ballot.count(node, response.source, granted=response.granted)
        if self._ballot.is_won(node):
            return ToCandidate()
        return self._go_back(node) if self._ballot.is_lost(node) else None

    def on_rival(self, node: NodeState, peer: NodeId) -> None:
        """`peer` asks for our pre-vote and we refused. If it had refused us because it heard the leader,
        it no longer does: ask it again, or both would wait for a timer with the better log on our side."""
        self._ballot.ask_again(node, peer)

    def grants_vote(self, node: NodeState, request: VoteRequest, *, up_to_date: bool) -> bool:
        if node.election.voted is not None:
            return node.election.voted.matches(request.candidate)
        return node.election.leader is None and up_to_date

    def grants_pre_vote(self, node: NodeState, request: VoteRequest, *, up_to_date: bool) -> bool:
        # Two that ask each other at once would both go on, and split the votes. If their logs are equal, the
        # lower id goes first for as long as the other may still grant it.
        log = node.log
        is_equal = (request.last_epoch, request.end_offset) == (log.last_epoch, log.end_offset)
        goes_first = node.id < request.source and request.source in node.in_flight
        return up_to_date and not (is_equal and goes_first)

    def _go_back(self, node: NodeState) -> Transition:
        leader = node.election.leader
        if leader is not None and leader != node.id and node.leader_endpoint is not None:
            return ToFollower(
                epoch=node.epoch,
                leader=leader,
                endpoint=node.leader_endpoint,
                lost_rounds=self._lost_rounds + 1,
                resigned=self._leader_resigned,
            )
        return ToUnattached(epoch=node.epoch, lost_election=True)
