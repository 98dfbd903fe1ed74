"""Whole quorums in simulation: nodes, clients, faults, a run."""

from quorate.simulation.quorum.quorum_run import QuorumRun, QuorumRunSettings

__all__ = ["QuorumRun", "QuorumRunSettings"]
