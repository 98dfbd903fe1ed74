"""The outside world in one value."""

from dataclasses import dataclass

from quorate.runtime.clock import WallClock
from quorate.runtime.compute import Compute
from quorate.runtime.disk import Disk
from quorate.runtime.entropy import Entropy
from quorate.runtime.network import Network


@dataclass(frozen=True, slots=True, kw_only=True)
class Runtime:
    """What a node may touch of the outside world."""

    disk: Disk
    network: Network
    wall_clock: WallClock
    entropy: Entropy
    compute: Compute
    boot_id: str
    """Another one after each start of the host: while it is the same, everything that any process has
    written to files is still to be read from them, synced or not."""
