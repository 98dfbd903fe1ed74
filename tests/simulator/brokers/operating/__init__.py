"""Operators that administer a simulated cluster, and their requests."""
