"""The invariants that a run checks at every step."""

from quorate.simulation.checkers.invariants import Checker, CommittedLog, Invariant, WatchedTelemetry
from quorate.simulation.checkers.node_view import LostReplica, NodeView, RoleSeen, validate_quorum

__all__ = [
    "Checker",
    "CommittedLog",
    "Invariant",
    "LostReplica",
    "NodeView",
    "RoleSeen",
    "WatchedTelemetry",
    "validate_quorum",
]
