"""The simulated outside: clock, disks, network, and the traces of what happened."""

from quorate.simulation.world.disk import Operation, SimulatedDisk, Volume
from quorate.simulation.world.network import LinkQuality, NetworkSettings, SimulatedNetwork
from quorate.simulation.world.runtime import DiskSpeed, SimulatedRuntime, draw_sync_at_once
from quorate.simulation.world.scheduler import Scheduler, current_process, run
from quorate.simulation.world.trace import Trace, logs_into
from quorate.simulation.world.work import uncounted

__all__ = [
    "DiskSpeed",
    "LinkQuality",
    "NetworkSettings",
    "Operation",
    "Scheduler",
    "SimulatedDisk",
    "SimulatedNetwork",
    "SimulatedRuntime",
    "Trace",
    "Volume",
    "current_process",
    "draw_sync_at_once",
    "logs_into",
    "run",
    "uncounted",
]
