"""The outside world in one value."""

from dataclasses import dataclass

from quorate.runtime.clock import SteadyClock, WallClock
from quorate.runtime.compute import Compute
from quorate.runtime.disk import Disk
from quorate.runtime.entropy import Entropy
from quorate.runtime.network import Network


@dataclass(frozen=True, slots=True, kw_only=True)
class Runtime:
    """Everything of the outside world that a node may use."""

    disk: Disk
    network: Network
    wall_clock: WallClock
    steady_clock: SteadyClock
    entropy: Entropy
    compute: Compute
    boot_id: str
    """An id of the host's current boot. While it is equal, all bytes that any process has written to files
    can be read again, synced or not."""
