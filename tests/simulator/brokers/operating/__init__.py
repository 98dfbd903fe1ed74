"""Operators who administer a simulated cluster, and the requests that they make."""

from tests.simulator.brokers.operating.operators import Operators, OperatorSettings

__all__ = ["OperatorSettings", "Operators"]
