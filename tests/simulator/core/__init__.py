"""Cores alone in simulation: messages, syncs and timers in any order."""

from tests.simulator.core.core_node import CoreFactory
from tests.simulator.core.core_run import CoreRun
from tests.simulator.core.core_swarm_settings import CoreSwarmSettings

__all__ = ["CoreFactory", "CoreRun", "CoreSwarmSettings"]
