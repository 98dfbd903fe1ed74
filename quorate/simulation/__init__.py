"""Simulation of quorums and of services on them, in one process and from one seed.

The world: `run` replaces `trio.run`, in virtual time. A `SimulatedRuntime` is a host with its disk, on a
`SimulatedNetwork`. `QuorumRun` puts a whole quorum into it, breaks it, heals it and checks its invariants.

Histories: `check_history` decides whether one order explains all answers of a store, by one of the `models`
or by a `Model` of your own. It needs neither the world nor a quorum.

Names are imported at their first use.
"""

from typing import TYPE_CHECKING

from quorate.lazy_names import lazily

if TYPE_CHECKING:
    from quorate.simulation.faults import Fault, FaultSettings
    from quorate.simulation.histories import (
        UNKNOWN,
        Model,
        Operation,
        Report,
        Verdict,
        check_history,
        models,
    )
    from quorate.simulation.quorum import QuorumRun, QuorumRunSettings
    from quorate.simulation.violations import LivenessViolation, SafetyViolation, StuckError
    from quorate.simulation.world import (
        DiskOperation,
        DiskSpeed,
        LinkQuality,
        NetworkSettings,
        Scheduler,
        SimulatedDisk,
        SimulatedNetwork,
        SimulatedRuntime,
        run,
    )

_NAMES = {
    "faults": "Fault FaultSettings",
    "histories": "UNKNOWN Model Operation Report Verdict check_history models",
    "quorum": "QuorumRun QuorumRunSettings",
    "violations": "LivenessViolation SafetyViolation StuckError",
    "world": "DiskOperation DiskSpeed LinkQuality NetworkSettings Scheduler SimulatedDisk SimulatedNetwork "
    "SimulatedRuntime run",
}
__getattr__ = lazily(
    __name__, {name: f"{__name__}.{home}" for home, names in _NAMES.items() for name in names.split()}
)

__all__ = [
    "UNKNOWN",
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
    "SimulatedDisk",
    "SimulatedNetwork",
    "SimulatedRuntime",
    "StuckError",
    "Verdict",
    "check_history",
    "models",
    "run",
]
