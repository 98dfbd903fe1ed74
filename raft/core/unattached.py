"""A node that knows an epoch but nobody to follow in it."""

from collections.abc import Hashable
from typing import ClassVar, Self

from quorate.raft.core import requests
from quorate.raft.core.effects import Role
from quorate.raft.core.events import Timer, TimerKind
from quorate.raft.core.messages import FetchResponse, Response, VoteRequest
from quorate.raft.core.node import Node
from quorate.raft.core.role import RoleState
from quorate.raft.core.transitions import ToProspective, Transition
from quorate.raft.core.types import NodeId


class Unattached(RoleState):
    """Looks for the leader by asking the voters in turn (KAFKA-17030), and stands for election when its timer
    ends, if it is a voter. An observer only ever looks."""

    __slots__ = ("_next",)

    role: ClassVar[Role] = Role.UNATTACHED

    def __init__(self) -> None:
        self._next = 0
        """Index of the peer to ask next."""

    def timers(self, node: Node) -> tuple[TimerKind, ...]:
        return (TimerKind.ELECTION,) if node.is_voter else ()

    def enter(self, node: Node) -> Transition | None:
        if node.is_sole_voter:
            return ToProspective()
        if node.is_voter:
            node.arm_election()
        self._look(node)
        return None

    def on_timer(self, node: Node, timer: Timer) -> Transition | None:
        if timer.kind is TimerKind.ELECTION and node.is_voter:
            return ToProspective()
        return None

    def on_ready(self, node: Node, peer: NodeId) -> Transition | None:
        self._look(node)
        return None

    def on_unanswered(self, node: Node, peer: NodeId) -> Transition | None:
        self._look(node)
        return None

    def on_durable(self, node: Node) -> None:
        self._look(node)

    def on_response(self, node: Node, response: Response) -> Transition | None:
        # An answer of our epoch that names a leader made us its follower on the way in. This one told us
        # nothing.
        if not isinstance(response, FetchResponse):
            return None
        node.pause(response.source, failed=False)
        return self.on_unanswered(node, response.source)

    def grants_vote(self, node: Node, request: VoteRequest, *, up_to_date: bool) -> bool:
        if node.election.voted is not None:
            return node.election.voted.matches(request.candidate)
        return node.election.leader is None and up_to_date

    def grants_pre_vote(self, node: Node, request: VoteRequest, *, up_to_date: bool) -> bool:
        return up_to_date

    def clone(self) -> Self:
        twin = type(self)()
        twin._next = self._next
        return twin

    def key(self) -> Hashable:
        return self.role, self._next

    def _look(self, node: Node) -> None:
        if node.in_flight or not node.log.is_durable:
            return
        peers = node.others
        for step in range(len(peers)):
            index = (self._next + step) % len(peers)
            peer = peers[index].id
            if node.may_ask(peer):
                self._next = (index + 1) % len(peers)
                requests.fetch(node, peer, max_wait_ms=0, max_bytes=0)
                return
