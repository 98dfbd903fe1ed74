"""The runtime of this host: the disk, network, clock and entropy of its operating system."""

import random
import time
import uuid
from typing import Final

from quorate.runtime import Runtime
from quorate.runtime.entropy import Entropy
from quorate.runtime.real.real_compute import ThreadCompute
from quorate.runtime.real.real_disk import RealDisk, SyncStrategy
from quorate.runtime.real.real_network import RealNetwork


class RealWallClock:
    __slots__ = ()

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000


# Linux' CLOCK_MONOTONIC stands still while the host is suspended; that of other systems does not.
_STEADY: Final = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


class RealSteadyClock:
    __slots__ = ()

    def now_ms(self) -> int:
        return time.clock_gettime_ns(_STEADY) // 1_000_000


_BOOT_ID: Final = "/proc/sys/kernel/random/boot_id"


def _boot_id() -> str:
    try:
        with open(_BOOT_ID, encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        # Not Linux: each process takes the host for freshly booted, which is never wrong, only cautious.
        return str(uuid.uuid4())


def real_runtime(*, sync: SyncStrategy) -> Runtime:
    """The operating system's disk, network, clock and entropy."""
    return Runtime(
        disk=RealDisk(sync=sync),
        network=RealNetwork(),
        wall_clock=RealWallClock(),
        steady_clock=RealSteadyClock(),
        entropy=Entropy(random.SystemRandom()),
        compute=ThreadCompute(),
        boot_id=_boot_id(),
    )
