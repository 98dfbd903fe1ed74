"""Simulation of whole clusters in one process, from one seed."""
