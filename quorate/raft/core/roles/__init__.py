"""The roles, one module each, with their state and their answers to every event."""

from quorate.raft.core.roles.ballot import Ballot
from quorate.raft.core.roles.candidate import Candidate
from quorate.raft.core.roles.follower import Follower
from quorate.raft.core.roles.leader import Leader
from quorate.raft.core.roles.outside_ids import is_heeded, is_outside_id
from quorate.raft.core.roles.prospective import Prospective
from quorate.raft.core.roles.replica_progress import ReplicaProgress
from quorate.raft.core.roles.resigned import Resigned
from quorate.raft.core.roles.role import RoleState
from quorate.raft.core.roles.tracker import Replicas
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
from quorate.raft.core.roles.voter_changes import Refused

__all__ = [
    "Ballot",
    "Candidate",
    "Follower",
    "Leader",
    "Prospective",
    "Refused",
    "ReplicaProgress",
    "Replicas",
    "Resigned",
    "RoleState",
    "ToCandidate",
    "ToFollower",
    "ToLeader",
    "ToProspective",
    "ToResigned",
    "ToUnattached",
    "Transition",
    "Unattached",
    "check_transition",
    "is_heeded",
    "is_outside_id",
]
