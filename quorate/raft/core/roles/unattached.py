"""A node that knows an epoch but no leader to follow in it."""

from typing import ClassVar

from quorate.raft.core import outgoing_requests as requests
from quorate.raft.core.effects import ArmTimer, Role
from quorate.raft.core.events import Timer, TimerKind
from quorate.raft.core.messages import FetchResponse, Response, VoteRequest
from quorate.raft.core.roles.role import RoleState
from quorate.raft.core.roles.transitions import ToProspective, Transition
from quorate.raft.core.shared_state import ELECTION, NodeState
from quorate.types import NodeId

HURRIED_WAITS = 4
"""Times `broken_connection_wait_ms`: the draw that keeps voters that start together from standing at once."""


class Unattached(RoleState):
    """Looks for the leader by asking the voters, then the bootstrap servers, in turn (KAFKA-17030), and
    stands for election when its timer ends, if it is a voter. An observer only looks.

    A voter that heard from a majority that no leader is known does not wait for the timer: its pre-vote can't
    disturb a leader. So a cluster that starts has a leader at once.

    A leader that told this node of its resignation is not followed again in its epoch, even if others name
    it.
    """

    __slots__ = (
        "_heeds_outside_ids",
        "_hurried",
        "_leaderless",
        "_next",
        "_stands_when_free",
        "leader_resigned",
        "lost_rounds",
    )

    role: ClassVar[Role] = Role.UNATTACHED

    def __init__(
        self, *, leader_resigned: bool = False, lost_rounds: int = 0, heeds_outside_ids: bool = True
    ) -> None:
        self.leader_resigned = leader_resigned
        self.lost_rounds = lost_rounds
        self._next = 0
        """The index of the peer to ask next."""
        self._leaderless: tuple[NodeId, ...] = ()
        """Voters that know of no leader in this epoch, in order."""
        self._hurried = False
        self._stands_when_free = False
        """True if the timer has ended, and this node only waits for the end of its promise."""
        self._heeds_outside_ids = heeds_outside_ids

    @property
    def heeds_outside_ids(self) -> bool:
        return self._heeds_outside_ids

    def timers(self, node: NodeState) -> tuple[TimerKind, ...]:
        return (TimerKind.ELECTION,) if node.may_stand else ()

    def enter(self, node: NodeState) -> Transition | None:
        if node.is_sole_voter and not node.promised:
            return ToProspective()
        if node.may_stand:
            node.arm_election()
        self._ask_next(node)
        return None

    def on_timer(self, node: NodeState, timer: Timer) -> Transition | None:
        if timer.kind is TimerKind.ELECTION and node.may_stand:
            if node.promised:
                self._stands_when_free = True
                return None
            return ToProspective()
        return None

    def on_promise_ended(self, node: NodeState) -> Transition | None:
        if node.is_sole_voter:
            return ToProspective()
        if self._stands_when_free:
            self._stands_when_free = False
            self._arm_hurried(node)
        return None

    def on_ready(self, node: NodeState, peer: NodeId) -> Transition | None:
        self._ask_next(node)
        return None

    def on_unanswered(self, node: NodeState, peer: NodeId) -> Transition | None:
        self._ask_next(node)
        return None

    def on_not_leader(self, node: NodeState, peer: NodeId) -> Transition | None:
        if peer in node.voters and peer not in self._leaderless:
            self._leaderless = tuple(sorted((*self._leaderless, peer)))
        # A node that has voted in this epoch knows of an election under way, and lets it end.
        if (
            not self._hurried
            and node.is_voter
            and node.election.voted is None
            and len(self._leaderless) + 1 >= node.voters.majority
        ):
            self._hurried = True
            self._arm_hurried(node)
        return self.on_unanswered(node, peer)

    def on_durable(self, node: NodeState) -> Transition | None:
        self._ask_next(node)
        return None

    def on_response(self, node: NodeState, response: Response) -> Transition | None:
        # An answer of our epoch that names a leader has already made this node its follower.
        if not isinstance(response, FetchResponse):
            return None
        node.pause(response.source, failed=False)
        return self.on_unanswered(node, response.source)

    def grants_vote(self, node: NodeState, request: VoteRequest, *, up_to_date: bool) -> bool:
        if node.election.voted is not None:
            return node.election.voted.matches(request.candidate)
        return node.election.leader is None and up_to_date

    def grants_pre_vote(self, node: NodeState, request: VoteRequest, *, up_to_date: bool) -> bool:
        return up_to_date

    def look_at(self, node: NodeState, peer: NodeId) -> None:
        """Ask `peer` next, which says that it leads."""
        self._next = node.may_know_leader.index(peer)
        self._ask_next(node)

    def _arm_hurried(self, node: NodeState) -> None:
        config = node.config
        wait_ms = min(config.election_timeout_ms, HURRIED_WAITS * config.broken_connection_wait_ms)
        node.out.append(ArmTimer(ELECTION, 0, wait_ms))

    def _ask_next(self, node: NodeState) -> None:
        if node.in_flight or not node.log.is_durable:
            return
        peers = node.may_know_leader
        for step in range(len(peers)):
            index = (self._next + step) % len(peers)
            peer = peers[index]
            if node.may_ask(peer):
                self._next = (index + 1) % len(peers)
                requests.fetch(node, peer, max_wait_ms=0, max_bytes=0)
                return
