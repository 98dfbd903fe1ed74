"""The state changes of replicas: the backlog and the journal of them, and their lines in the log."""

from quorate.broker.replication.changes.backlog import CHANGED, LOOKED_AT, Backlog
from quorate.broker.replication.changes.change_journal import (
    BOUNDS,
    ENDS,
    Cause,
    ChangeJournal,
    ChangeKind,
    ChangeOutcome,
    ChangeSummary,
    StateChange,
    kind_of,
)
from quorate.broker.replication.changes.role_lines import ROLE_CHANGED, RoleLines

__all__ = [
    "BOUNDS",
    "CHANGED",
    "ENDS",
    "LOOKED_AT",
    "ROLE_CHANGED",
    "Backlog",
    "Cause",
    "ChangeJournal",
    "ChangeKind",
    "ChangeOutcome",
    "ChangeSummary",
    "RoleLines",
    "StateChange",
    "kind_of",
]
