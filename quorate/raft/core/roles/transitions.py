"""The table of roles and the transitions between them (docs/reference/kraft-rules.md#roles).

A role returns a transition, and `core` carries it out. So no role needs to know how another is built.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from quorate.invariant import invariant
from quorate.raft.core.effects import Role
from quorate.types import Endpoint, Epoch, NodeId, ReplicaKey

ALLOWED: Final[Mapping[Role, tuple[Role, ...]]] = {
    Role.UNATTACHED: (Role.UNATTACHED, Role.FOLLOWER, Role.PROSPECTIVE),
    Role.FOLLOWER: (Role.FOLLOWER, Role.UNATTACHED, Role.PROSPECTIVE),
    Role.PROSPECTIVE: (Role.CANDIDATE, Role.FOLLOWER, Role.UNATTACHED),
    Role.CANDIDATE: (Role.LEADER, Role.PROSPECTIVE, Role.FOLLOWER, Role.UNATTACHED),
    Role.LEADER: (Role.RESIGNED, Role.FOLLOWER, Role.UNATTACHED),
    Role.RESIGNED: (Role.UNATTACHED, Role.FOLLOWER),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ToUnattached:
    epoch: Epoch
    leader: NodeId | None = None
    """The leader, if only its id is known. In the same epoch a known leader stays."""
    voted: ReplicaKey | None = None
    """The candidate that gets our vote. In the same epoch a vote stays."""
    leader_resigned: bool = False
    """The epoch's leader said that it resigned. It does not lead the epoch again."""
    lost_rounds: int = 0
    """The number of times that the epoch's leader was followed in vain since it was last heard."""
    lost_election: bool = False
    """The known voters had their turn, so an id outside the voter sets may be heeded though we voted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToFollower:
    epoch: Epoch
    leader: NodeId
    endpoint: Endpoint
    lost_rounds: int = 0
    """The number of pre-vote rounds lost since the leader was last heard; of an observer, the number of
    searches for it."""
    resigned: bool = False
    """The leader said that it resigned, so nothing can be fetched from it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToProspective:
    lost_rounds: int = 0
    leader_resigned: bool = False
    """The leader that was followed said that it resigned."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToCandidate:
    """The node becomes a candidate of the next epoch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToLeader:
    granting_voters: tuple[NodeId, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ToResigned:
    preferred_successors: tuple[NodeId, ...]


Transition = ToUnattached | ToFollower | ToProspective | ToCandidate | ToLeader | ToResigned


def check_transition(*, before: Role, after: Role, epoch_before: Epoch, epoch_after: Epoch) -> None:
    """Raise InvariantError unless the table allows it and the epoch moves as it must."""
    invariant(after in ALLOWED[before], "no such transition", before=before, after=after)
    invariant(epoch_after >= epoch_before, "an epoch never goes back", before=epoch_before, after=epoch_after)
    same_epoch = epoch_before == epoch_after
    if after is Role.CANDIDATE:
        invariant(epoch_after == epoch_before + 1, "a candidate opens the next epoch", epoch=epoch_after)
    elif after in (Role.PROSPECTIVE, Role.LEADER, Role.RESIGNED):
        invariant(same_epoch, "this role is entered in the epoch one is in", before=before, after=after)
    elif before in (Role.LEADER, Role.RESIGNED):
        invariant(
            not same_epoch, "a leader's epoch has no other", before=before, after=after, epoch=epoch_after
        )
