"""The invariants that a run checks at every step."""

from quorate.simulation.checkers.invariants import Checker, Invariant, WatchedTelemetry
from quorate.simulation.checkers.node_view import LostReplica, NodeView, validate_quorum

__all__ = ["Checker", "Invariant", "LostReplica", "NodeView", "WatchedTelemetry", "validate_quorum"]
