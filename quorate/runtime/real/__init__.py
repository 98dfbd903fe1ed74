"""The real disk, network, clock and entropy."""

import random
import time
import uuid
from typing import Final

from quorate.runtime import Runtime
from quorate.runtime.entropy import Entropy
from quorate.runtime.real.descriptors import raise_soft_limit
from quorate.runtime.real.freed_memory import give_back_freed_memory
from quorate.runtime.real.garbage import short_collections
from quorate.runtime.real.real_compute import ThreadCompute
from quorate.runtime.real.real_disk import RealDisk, SyncStrategy, open_read_only
from quorate.runtime.real.real_network import RealNetwork
from quorate.runtime.real.slow_steps import watch_slow_steps


class RealWallClock:
    __slots__ = ()

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000


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
        entropy=Entropy(random.SystemRandom()),
        compute=ThreadCompute(),
        boot_id=_boot_id(),
    )


__all__ = [
    "RealDisk",
    "RealNetwork",
    "RealWallClock",
    "SyncStrategy",
    "give_back_freed_memory",
    "open_read_only",
    "raise_soft_limit",
    "real_runtime",
    "short_collections",
    "watch_slow_steps",
]
