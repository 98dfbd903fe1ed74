"""A node that led this epoch and does not lead it again: it resigned, or it restarted."""

from typing import ClassVar

from quorate.raft.core import outgoing_requests as requests
from quorate.raft.core.effects import Role
from quorate.raft.core.events import Timer, TimerKind
from quorate.raft.core.messages import EndQuorumEpochResponse, Response, VoteRequest
from quorate.raft.core.roles.role import RoleState
from quorate.raft.core.roles.transitions import ToUnattached, Transition
from quorate.raft.core.shared_state import NodeState
from quorate.types import Epoch, NodeId


class Resigned(RoleState):
    """Tells every voter until it has answered, for one election timeout at most.

    A restarted leader takes this role, because its unsynced records may be lost. Otherwise it would write
    other records at the same offsets of the same epoch (KAFKA-10527).
    """

    __slots__ = ("_acknowledged", "_preferred_successors")

    role: ClassVar[Role] = Role.RESIGNED

    def __init__(self, *, preferred_successors: tuple[NodeId, ...]) -> None:
        self._preferred_successors = preferred_successors
        self._acknowledged: set[NodeId] = set()

    def timers(self, node: NodeState) -> tuple[TimerKind, ...]:
        return (TimerKind.ELECTION,)

    def enter(self, node: NodeState) -> Transition | None:
        node.arm_election()
        self._tell_voters(node)
        return None

    def on_timer(self, node: NodeState, timer: Timer) -> Transition | None:
        return ToUnattached(epoch=Epoch(node.epoch + 1)) if timer.kind is TimerKind.ELECTION else None

    def on_ready(self, node: NodeState, peer: NodeId) -> Transition | None:
        self._tell_voters(node)
        return None

    def on_response(self, node: NodeState, response: Response) -> Transition | None:
        if isinstance(response, EndQuorumEpochResponse):
            self._acknowledged.add(response.source)
        return None

    def grants_vote(self, node: NodeState, request: VoteRequest, *, up_to_date: bool) -> bool:
        return False

    def grants_pre_vote(self, node: NodeState, request: VoteRequest, *, up_to_date: bool) -> bool:
        return up_to_date

    def _tell_voters(self, node: NodeState) -> None:
        for voter in node.others:
            if voter.id not in self._acknowledged and node.may_ask(voter.id):
                requests.end_epoch(node, voter.id, preferred_successors=self._preferred_successors)
