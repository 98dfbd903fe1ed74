"""Replicas follow the metadata: their logs are opened and removed, they take roles, and the controller learns
where they are."""

from quorate.broker.replication.hosting.hosting import Hosting
from quorate.broker.replication.hosting.metadata_intake import MetadataIntake
from quorate.broker.replication.hosting.refetches import Refetches
from quorate.broker.replication.hosting.replica_opening import ReplicaOpening, may_open
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
    "ChangeJournal",
    "ChangeKind",
    "ChangeOutcome",
    "ChangeSummary",
    "Hosting",
    "MetadataIntake",
    "Refetches",
    "ReplicaOpening",
    "StateChange",
    "may_open",
]
