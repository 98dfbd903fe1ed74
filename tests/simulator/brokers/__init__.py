"""Whole broker clusters in simulation: nodes, clients, faults, a run."""

from tests.simulator.brokers.broker_run import BrokerRun, BrokerRunSettings

__all__ = ["BrokerRun", "BrokerRunSettings"]
