"""A voter that asks for votes in an epoch it opened."""

from typing import ClassVar

from quorate.raft.core.effects import Role
from quorate.raft.core.events import Timer, TimerKind
from quorate.raft.core.messages import Response, VoteRequest, VoteResponse
from quorate.raft.core.roles.ballot import Ballot
from quorate.raft.core.roles.role import RoleState
from quorate.raft.core.roles.transitions import ToLeader, ToProspective, Transition
from quorate.raft.core.shared_state import NodeState
from quorate.types import NodeId


class Candidate(RoleState):
    """Becomes leader with a majority of votes. If it lost, it waits for its timer, so that another may
    win."""

    __slots__ = ("_ballot",)

    role: ClassVar[Role] = Role.CANDIDATE

    def __init__(self, node: NodeState) -> None:
        self._ballot = Ballot(node, pre_vote=False)

    def timers(self, node: NodeState) -> tuple[TimerKind, ...]:
        return (TimerKind.ELECTION,)

    def enter(self, node: NodeState) -> Transition | None:
        if self._ballot.is_won(node):
            return ToLeader(granting_voters=self._ballot.granting_voters)
        node.arm_election()
        self._ballot.ask(node)
        return None

    def on_timer(self, node: NodeState, timer: Timer) -> Transition | None:
        return ToProspective() if timer.kind is TimerKind.ELECTION else None

    def on_ready(self, node: NodeState, peer: NodeId) -> Transition | None:
        self._ballot.ask(node)
        return None

    def on_response(self, node: NodeState, response: Response) -> Transition | None:
        if not isinstance(response, VoteResponse) or response.pre_vote:
            return None
        self._ballot.count(node, response.source, granted=response.granted)
        if self._ballot.is_won(node):
            return ToLeader(granting_voters=self._ballot.granting_voters)
        return None

    def grants_vote(self, node: NodeState, request: VoteRequest, *, up_to_date: bool) -> bool:
        return False

    def grants_pre_vote(self, node: NodeState, request: VoteRequest, *, up_to_date: bool) -> bool:
        return up_to_date
