"""Whole broker clusters in simulation: nodes, clients, faults, a run."""

from tests.simulator.brokers.broker_run import BrokerRun, BrokerRunResult, BrokerRunSettings

__all__ = ["BrokerRun", "BrokerRunResult", "BrokerRunSettings"]
