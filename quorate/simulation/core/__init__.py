"""Cores alone in simulation: messages, syncs and timers in any order."""

from quorate.simulation.core.core_node import CoreFactory
from quorate.simulation.core.core_run import CoreRun, CoreRunResult
from quorate.simulation.core.core_swarm_settings import CoreSwarmSettings

__all__ = ["CoreFactory", "CoreRun", "CoreRunResult", "CoreSwarmSettings"]
