"""Whole clusters in one process, from one seed."""
