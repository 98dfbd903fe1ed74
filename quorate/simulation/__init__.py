"""Simulation of quorums and of services on them, in one process and from one seed.

The world: `run` replaces `trio.run`, in virtual time. A `SimulatedRuntime` is a host with its disk, on a
`SimulatedNetwork`. `SimulatedCluster` puts a quorum of your own state machine into it, breaks it, heals it,
and checks replicas and answers. `QuorumRun` does so with quorate's own clients, and checks invariants alone.

Histories: `check_history` decides whether one order explains all answers of a store, by one of the `models`
or by a `Model` of your own. It needs neither the world nor a quorum.

Names are imported at their first use.
"""

from typing import TYPE_CHECKING

from quorate.lazy_names import lazily

if TYPE_CHECKING:
    from quorate.simulation.faults.faults import Fault, FaultSettings
    from quorate.simulation.histories import models
    from quorate.simulation.histories.linearizability import (
        UNKNOWN,
        Anomaly,
        Model,
        Operation,
        Report,
        Verdict,
        check_history,
    )
    from quorate.simulation.quorum.quorum_run import QuorumRun, QuorumRunSettings
    from quorate.simulation.service.service_cluster import ServiceNode
    from quorate.simulation.service.simulated_cluster import SimulatedCluster
    from quorate.simulation.violations import LivenessViolation, SafetyViolation, StuckError
    from quorate.simulation.world.scheduler import Scheduler, run
    from quorate.simulation.world.simulated_disk import DiskOperation, SimulatedDisk
    from quorate.simulation.world.simulated_network import LinkQuality, NetworkSettings, SimulatedNetwork
    from quorate.simulation.world.simulated_runtime import DiskSpeed, SimulatedRuntime

_NAMES = {
    "faults.faults": "Fault FaultSettings",
    "histories.linearizability": "UNKNOWN Anomaly Model Operation Report Verdict check_history",
    "histories.models": "models",
    "quorum.quorum_run": "QuorumRun QuorumRunSettings",
    "service.service_cluster": "ServiceNode",
    "service.simulated_cluster": "SimulatedCluster",
    "violations": "LivenessViolation SafetyViolation StuckError",
    "world.scheduler": "Scheduler run",
    "world.simulated_disk": "DiskOperation SimulatedDisk",
    "world.simulated_network": "LinkQuality NetworkSettings SimulatedNetwork",
    "world.simulated_runtime": "DiskSpeed SimulatedRuntime",
}

__getattr__ = lazily(
    __name__, {name: f"{__name__}.{home}" for home, names in _NAMES.items() for name in names.split()}
)

__all__ = [
    "UNKNOWN",
    "Anomaly",
    "DiskOperation",
    "DiskSpeed",
    "Fault",
    "FaultSettings",
    "LinkQuality",
    "LivenessViolation",
    "Model",
    "NetworkSettings",
    "Operation",
    "QuorumRun",
    "QuorumRunSettings",
    "Report",
    "SafetyViolation",
    "Scheduler",
    "ServiceNode",
    "SimulatedCluster",
    "SimulatedDisk",
    "SimulatedNetwork",
    "SimulatedRuntime",
    "StuckError",
    "Verdict",
    "check_history",
    "models",
    "run",
]
