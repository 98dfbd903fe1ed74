"""Replicas follow the metadata: their logs are opened and removed, they take roles, and the controller learns
where they are."""

from quorate.broker.replication.hosting.directory_assignments import AssignDirectories, DirectoryAssignments
from quorate.broker.replication.hosting.hosting import Hosting
from quorate.broker.replication.hosting.metadata_intake import MetadataIntake
from quorate.broker.replication.hosting.refetches import Refetches
from quorate.broker.replication.hosting.replica_opening import ReplicaOpening, configure, log_config, may_open
from quorate.broker.replication.hosting.state_changes import (
    BOUNDS,
    ENDS,
    ROLE_CHANGED,
    ChangeJournal,
    ChangeKind,
    ChangeOutcome,
    ChangeSummary,
    StateChange,
)

__all__ = [
    "BOUNDS",
    "ENDS",
    "ROLE_CHANGED",
    "AssignDirectories",
    "ChangeJournal",
    "ChangeKind",
    "ChangeOutcome",
    "ChangeSummary",
    "DirectoryAssignments",
    "Hosting",
    "MetadataIntake",
    "Refetches",
    "ReplicaOpening",
    "StateChange",
    "configure",
    "log_config",
    "may_open",
]
