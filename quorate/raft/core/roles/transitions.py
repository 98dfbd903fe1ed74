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
    """Known by id, but not where it is. In the same epoch what was known stays known."""
    voted: ReplicaKey | None = None
    """Whom we vote for on the way; in the same epoch a vote once given stays."""
    leader_resigned: bool = False
    """The epoch's leader said itself that it leads no more; it never will again."""
    lost_rounds: int = 0
    """How often the epoch's leader was followed in vain since it was last heard."""
    lost_election: bool = False
    """The known voters had their turn, so an id outside the voter sets may be heeded though we voted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToFollower:
    epoch: Epoch
    leader: NodeId
    endpoint: Endpoint
    lost_rounds: int = 0
    """How many pre-vote rounds were lost since the leader was last heard; of an observer, how often it was
    looked for."""
    resigned: bool = False
    """The leader said so; there is nothing to fetch from it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToProspective:
    lost_rounds: int = 0
    leader_resigned: bool = False
    """The leader that was followed said so."""


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
