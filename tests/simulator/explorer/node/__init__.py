"""A node in the explorer: its core, its disk, and the observations of both."""

from tests.simulator.explorer.node.interpreter import Interpreter
from tests.simulator.explorer.node.machine import CrashPoint, Machine, Packet, StepOutcome
from tests.simulator.explorer.node.node_disk import History, NodeDisk, Snapshot, end_of, up_to
from tests.simulator.explorer.node.observations import (
    Commits,
    Cuts,
    Leads,
    Observation,
    ReadFailed,
    ReadPassed,
)

__all__ = [
    "Commits",
    "CrashPoint",
    "Cuts",
    "History",
    "Interpreter",
    "Leads",
    "Machine",
    "NodeDisk",
    "Observation",
    "Packet",
    "ReadFailed",
    "ReadPassed",
    "Snapshot",
    "StepOutcome",
    "end_of",
    "up_to",
]
