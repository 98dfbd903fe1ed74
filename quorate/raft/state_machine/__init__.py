"""What users implement, and how committed records get to it."""

from quorate.raft.state_machine.applier import Applier
from quorate.raft.state_machine.interface import (
    Appended,
    CheckingStateMachine,
    CommittedBatch,
    SnapshotLoader,
    StateMachine,
)
from quorate.raft.state_machine.proposals import PendingAppend, Proposals
from quorate.raft.state_machine.record_check import record_check
from quorate.raft.state_machine.shape import check_shape

__all__ = [
    "Appended",
    "Applier",
    "CheckingStateMachine",
    "CommittedBatch",
    "PendingAppend",
    "Proposals",
    "SnapshotLoader",
    "StateMachine",
    "check_shape",
    "record_check",
]
