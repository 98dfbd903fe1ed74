"""Whole quorums in simulation: nodes, clients, faults, a run."""

from quorate.simulation.quorum.quorum_run import QuorumRun, QuorumRunSettings, RunResult, first_of

__all__ = ["QuorumRun", "QuorumRunSettings", "RunResult", "first_of"]
