"""The simulated world: clock, disks, network, and the trace of events."""

from quorate.simulation.world.scheduler import Scheduler, current_process, run
from quorate.simulation.world.simulated_disk import DiskOperation, SimulatedDisk, Volume
from quorate.simulation.world.simulated_network import LinkQuality, NetworkSettings, SimulatedNetwork
from quorate.simulation.world.simulated_runtime import DiskSpeed, SimulatedRuntime, draw_sync_at_once
from quorate.simulation.world.step_costs import uncounted
from quorate.simulation.world.trace import LogEntry, Trace, logs_into, taking_logs

__all__ = [
    "DiskOperation",
    "DiskSpeed",
    "LinkQuality",
    "LogEntry",
    "NetworkSettings",
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
    "taking_logs",
    "uncounted",
]
