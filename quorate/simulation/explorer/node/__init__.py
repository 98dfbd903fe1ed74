"""A node in the explorer: its core, its disk, and the observations of both."""

from quorate.simulation.explorer.node.interpreter import Interpreter
from quorate.simulation.explorer.node.machine import CrashPoint, Machine, Packet, StepOutcome
from quorate.simulation.explorer.node.node_disk import History, NodeDisk, Snapshot, end_of, up_to
from quorate.simulation.explorer.node.observations import (
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
