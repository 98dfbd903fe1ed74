"""Whole quorums in simulation: nodes, clients, faults, a run."""
