"""The interface of the user's state machine, and the task that applies committed records to it."""

from quorate.raft.state_machine.append_queue import AppendQueue, QueuedAppend
from quorate.raft.state_machine.applier import Applier
from quorate.raft.state_machine.interface import (
    Appended,
    CheckingStateMachine,
    CommittedBatch,
    SnapshotLoader,
    StateMachine,
)
from quorate.raft.state_machine.record_check import record_check
from quorate.raft.state_machine.shape import check_shape

__all__ = [
    "AppendQueue",
    "Appended",
    "Applier",
    "CheckingStateMachine",
    "CommittedBatch",
    "QueuedAppend",
    "SnapshotLoader",
    "StateMachine",
    "check_shape",
    "record_check",
]
