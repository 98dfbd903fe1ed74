"""The events of a role. A role overrides those that concern it. The others leave it unchanged."""

from abc import ABC, abstractmethod
from typing import ClassVar

from quorate.raft.core.cloning import Cloneable
from quorate.raft.core.effects import Role
from quorate.raft.core.events import Timer, TimerKind
from quorate.raft.core.messages import Response, VoteRequest
from quorate.raft.core.roles.transitions import Transition
from quorate.raft.core.shared_state import NodeState
from quorate.types import NodeId


class RoleState(Cloneable, ABC):
    """State that lives in one role of one epoch and dies with it, with the behaviour that goes with it."""

    __slots__ = ()

    role: ClassVar[Role]

    @property
    def heeds_outside_ids(self) -> bool:
        """True if no leader is heard and no election is under way that an outside id would disturb (see
        `quorate.raft.core.roles.outside_ids`)."""
        return False

    def timers(self, node: NodeState) -> tuple[TimerKind, ...]:
        """Return the timers that this role keeps armed. Those that the next role does not keep are
        cancelled."""
        return ()

    @abstractmethod
    def enter(self, node: NodeState) -> Transition | None:
        """Begin the role. The effects already make its epoch, vote and leader durable."""

    def leave(self, node: NodeState) -> None:
        """End the role. The node's epoch and leader are already those of the next role."""

    def on_timer(self, node: NodeState, timer: Timer) -> Transition | None:
        return None

    def on_ready(self, node: NodeState, peer: NodeId) -> Transition | None:
        """`peer` may be asked again after a pause."""
        return None

    @abstractmethod
    def on_response(self, node: NodeState, response: Response) -> Transition | None:
        """The answer to the request in flight to its source, of this epoch and without an error."""

    def on_unanswered(self, node: NodeState, peer: NodeId) -> Transition | None:
        """The request to `peer` failed or its answer said nothing; a pause before it may be asked again
        has begun."""
        return None

    def on_not_leader(self, node: NodeState, peer: NodeId) -> Transition | None:
        """`peer` says, in this epoch, that it does not lead; a pause before it may be asked again has
        begun."""
        return self.on_unanswered(node, peer)

    def on_unreachable(self, node: NodeState, peer: NodeId) -> None:
        """The connection to `peer` broke and could not be reopened at once."""

    def on_refused(self, node: NodeState, response: Response) -> Transition | None:
        """The answer was an error that says nothing of the leader; a pause before its source may be asked
        again has begun."""
        return self.on_unanswered(node, response.source)

    def on_durable(self, node: NodeState) -> Transition | None:
        """The durable end offset moved."""
        return None

    def on_promise_ended(self, node: NodeState) -> Transition | None:
        """This node may stand for election again."""
        return None

    @abstractmethod
    def grants_vote(self, node: NodeState, request: VoteRequest, *, up_to_date: bool) -> bool:
        """Return True to grant a vote (not a pre-vote) in this epoch."""

    @abstractmethod
    def grants_pre_vote(self, node: NodeState, request: VoteRequest, *, up_to_date: bool) -> bool: ...

    def on_pre_vote_granted(self, node: NodeState) -> None:
        """We granted a pre-vote: its candidate will ask for our vote."""
