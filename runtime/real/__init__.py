"""The real disk, network, clock and entropy."""

import random
import time

from quorate.runtime import Runtime
from quorate.runtime.entropy import Entropy
from quorate.runtime.real.disk import RealDisk, SyncStrategy
from quorate.runtime.real.network import RealNetwork


class RealWallClock:
    __slots__ = ()

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000


def real_runtime(*, sync: SyncStrategy) -> Runtime:
    """The operating system's disk, network, clock and entropy."""
    return Runtime(
        disk=RealDisk(sync=sync),
        network=RealNetwork(),
        wall_clock=RealWallClock(),
        entropy=Entropy(random.SystemRandom()),
    )


__all__ = ["RealDisk", "RealNetwork", "RealWallClock", "SyncStrategy", "real_runtime"]
