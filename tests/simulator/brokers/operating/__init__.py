"""Operators that administer a simulated cluster, and their requests."""

from tests.simulator.brokers.operating.operators import Operators, OperatorSettings

__all__ = ["OperatorSettings", "Operators"]
