"""The node, its role, and the transitions from one role to the next."""

from typing import assert_never

from quorate.invariant import invariant
from quorate.raft.core.cloning import Cloneable
from quorate.raft.core.effects import Effect
from quorate.raft.core.events import TimerKind
from quorate.raft.core.roles.candidate import Candidate
from quorate.raft.core.roles.follower import Follower
from quorate.raft.core.roles.leader import Leader
from quorate.raft.core.roles.prospective import Prospective
from quorate.raft.core.roles.resigned import Resigned
from quorate.raft.core.roles.role import RoleState
from quorate.raft.core.roles.transitions import (
    ToCandidate,
    ToFollower,
    ToLeader,
    ToProspective,
    ToResigned,
    ToUnattached,
    Transition,
    check_transition,
)
from quorate.raft.core.roles.unattached import Unattached
from quorate.raft.core.shared_state import NodeState
from quorate.types import ElectionState, Endpoint, Epoch, NodeId


class RoleHolder(Cloneable):
    """Every change of role, epoch, vote and known leader is made here, and stored before anything else."""

    __slots__ = ("node", "role")

    def __init__(self, node: NodeState) -> None:
        self.node = node
        self.role: RoleState = Unattached()

    def begin(self, role: RoleState) -> tuple[Effect, ...]:
        self.role = role
        self.node.report_role(role.role)
        self.go(role.enter(self.node))
        return self.take_effects()

    def go(self, transition: Transition | None) -> None:
        """Carry out a transition: store, end the old role, begin the new one. That may ask for the next."""
        node = self.node
        while transition is not None:
            before = self.role
            epoch_before = node.epoch
            after = self._build_role(transition)
            check_transition(
                before=before.role, after=after.role, epoch_before=epoch_before, epoch_after=node.epoch
            )
            self.role = after
            node.in_flight.clear()
            if not isinstance(after, Unattached | Follower):
                node.resume_answering()
            before.leave(node)
            kept = after.timers(node)
            for kind in before.timers(node):
                if kind not in kept:
                    node.cancel(kind)
            node.report_role(after.role, after.epoch_start_offset if isinstance(after, Leader) else None)
            transition = after.enter(node)

    def _build_role(self, transition: Transition) -> RoleState:
        """Persist the decision of the transition, and build the role."""
        node = self.node
        stored = node.election
        match transition:
            case ToUnattached(epoch=epoch, leader=leader, voted=voted):
                if epoch == stored.epoch:
                    leader = leader if leader is not None else stored.leader
                    voted = voted if voted is not None else stored.voted
                node.persist(ElectionState(epoch, leader, voted))
                node.leader = leader
                node.leader_endpoint = node.voters.endpoint_of(leader) if leader is not None else None
                return Unattached(
                    leader_resigned=transition.leader_resigned,
                    lost_rounds=transition.lost_rounds,
                    heeds_outside_ids=voted is None or transition.lost_election,
                )
            case ToFollower(epoch=epoch, leader=leader):
                voted = stored.voted if epoch == stored.epoch else None
                node.persist(ElectionState(epoch, leader, voted))
                node.leader = leader
                node.leader_endpoint = transition.endpoint
                return Follower(
                    leader=leader, lost_rounds=transition.lost_rounds, leader_resigned=transition.resigned
                )
            case ToProspective():
                return Prospective(
                    node,
                    lost_rounds=transition.lost_rounds,
                    leader_resigned=transition.leader_resigned,
                )
            case ToCandidate():
                invariant(not node.promised, "who has promised a lease does not stand", epoch=stored.epoch)
                node.persist(ElectionState(Epoch(stored.epoch + 1), None, node.key))
                node.leader = None
                node.leader_endpoint = None
                return Candidate(node)
            case ToLeader(granting_voters=granting_voters):
                node.persist(ElectionState(stored.epoch, node.id, stored.voted))
                node.leader = node.id
                node.leader_endpoint = node.endpoint
                return Leader(node, granting_voters=granting_voters)
            case ToResigned(preferred_successors=preferred_successors):
                node.leader = None
                node.leader_endpoint = None
                return Resigned(preferred_successors=preferred_successors)
            case _:
                assert_never(transition)

    def end_promise(self) -> None:
        """The leader to which this node gave a promise does not lead any more, so it is free."""
        node = self.node
        if node.promised:
            node.promised = False
            node.cancel(TimerKind.PROMISE)
            self.go(self.role.on_promise_ended(node))

    def take_effects(self) -> tuple[Effect, ...]:
        out = tuple(self.node.out)
        self.node.out.clear()
        return out

    def hear_of(
        self,
        epoch: Epoch,
        leader: NodeId | None,
        endpoint: Endpoint | None,
        *,
        first_hand: bool,
        resigned: bool = False,
    ) -> None:
        """Take in a statement that `leader` leads `epoch`, which is ours or later. None: it has no leader
        yet."""
        node = self.node
        lost_rounds = 0
        if leader == node.id and node.election.leader != node.id:
            # We led it and have forgotten, with our disk. Not a leader to follow.
            leader = None
        if epoch > node.epoch:
            if leader is None:
                self.go(ToUnattached(epoch=epoch))
                return
        else:
            if leader is None:
                return
            known = node.election.leader
            invariant(
                known is None or known == leader,
                "two leaders in one epoch; a node lost its quorum-state file, or two clusters share an id",
                epoch=epoch,
                known=known,
                given=leader,
            )
            if first_hand and endpoint is not None and leader == node.leader:
                node.leader_endpoint = endpoint
            if leader == node.id or resigned or isinstance(self.role, Follower):
                return  # nothing new, or a resigned leader, after which our own timer runs
            if known is not None and not first_hand and not isinstance(self.role, Unattached):
                return  # known, and we ask for votes because we don't hear it
            if isinstance(self.role, Unattached) and not first_hand:
                if self.role.leader_resigned:
                    return  # the sender does not know that it resigned
                lost_rounds = self.role.lost_rounds
        where = endpoint if endpoint is not None else node.endpoint_of(leader)
        if where is not None:
            self.go(
                ToFollower(
                    epoch=epoch, leader=leader, endpoint=where, lost_rounds=lost_rounds, resigned=resigned
                )
            )
        elif epoch > node.epoch or node.election.leader is None:
            self.go(ToUnattached(epoch=epoch, leader=leader))
