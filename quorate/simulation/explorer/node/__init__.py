"""A node in the explorer: its core, its disk, and the observations of both."""

from quorate.simulation.explorer.node.interpreter import Interpreter
from quorate.simulation.explorer.node.machine import CrashPoint, Machine, Outcome, Packet
from quorate.simulation.explorer.node.node_disk import Disk, History, Snapshot, end_of, up_to
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
    "Disk",
    "History",
    "Interpreter",
    "Leads",
    "Machine",
    "Observation",
    "Outcome",
    "Packet",
    "ReadFailed",
    "ReadPassed",
    "Snapshot",
    "end_of",
    "up_to",
]
