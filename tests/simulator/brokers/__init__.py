"""Whole broker clusters in simulation: nodes, clients, faults, a run."""
