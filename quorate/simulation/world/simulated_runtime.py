"""The outside world of one simulated node: its disk, its view of the network, its clock, its entropy."""

import random
from collections.abc import Callable
from dataclasses import dataclass

import trio

from quorate.runtime import Entropy, Result, Runtime
from quorate.simulation.world.simulated_disk import SimulatedDisk
from quorate.simulation.world.simulated_network import SimulatedNetwork
from quorate.simulation.world.trace import Trace


class InlineCompute:
    """Computes on the loop: virtual time stands still meanwhile."""

    __slots__ = ()

    async def run(self, function: Callable[[], Result]) -> Result:
        await trio.lowlevel.checkpoint()
        return function()


_EPOCH_MS = 1_700_000_000_000
"""Wall-clock time at virtual time 0."""


class SimulatedWallClock:
    """Follows virtual time at a distance that faults change: people set clocks."""

    __slots__ = ("offset_ms",)

    def __init__(self, offset_ms: int = 0) -> None:
        self.offset_ms = offset_ms

    def now_ms(self) -> int:
        return _EPOCH_MS + self.offset_ms + int(trio.current_time() * 1000)


class SimulatedSteadyClock:
    """Follows virtual time, also while the process is paused, at a rate of its own."""

    __slots__ = ("rate",)

    def __init__(self) -> None:
        self.rate = 1.0
        """Its ms in one of virtual time."""

    def now_ms(self) -> int:
        return int(trio.current_time() * 1000 * self.rate)


@dataclass(slots=True, kw_only=True)
class DiskSpeed:
    """The time of a sync, drawn uniformly; seconds."""

    sync_min_s: float = 0.0005
    sync_max_s: float = 0.003


def draw_sync_at_once(source: random.Random) -> tuple[bool, ...]:
    """Draw the hosts whose disk syncs at once, in turn: none, all, or some of them."""
    match source.choice(("none", "all", "some")):
        case "none":
            return ()
        case "all":
            return (True,)
        case _:
            return tuple(source.random() < 0.5 for _ in range(8))


class SimulatedRuntime:
    """A host. `runtime()` is for one process on it; the disk and the clock outlive processes."""

    __slots__ = ("_network", "_random", "disk", "disk_speed", "name", "steady_clock", "wall_clock")

    def __init__(
        self,
        name: str,
        network: SimulatedNetwork,
        source: random.Random,
        *,
        disk_speed: DiskSpeed | None = None,
        syncs_at_once: bool = False,
    ) -> None:
        self.name = name
        self._network = network
        self._random = source
        self.disk_speed = disk_speed or DiskSpeed()
        self.disk = SimulatedDisk(sync_delay=self._sync_delay, syncs_at_once=syncs_at_once)
        self.wall_clock = SimulatedWallClock()
        self.steady_clock = SimulatedSteadyClock()

    def _sync_delay(self, path: str) -> float:
        return self._random.uniform(self.disk_speed.sync_min_s, self.disk_speed.sync_max_s)

    def spare_disk(self) -> SimulatedDisk:
        """An empty disk of the same kind, to put in the place of `disk`."""
        spare = SimulatedDisk(sync_delay=self._sync_delay, syncs_at_once=self.disk.syncs_at_once)
        spare.on_sync = self.disk.on_sync
        return spare

    def runtime(self, disk: SimulatedDisk | None = None) -> Runtime:
        """A process with `disk`, by default the host's."""
        disk = disk or self.disk
        return Runtime(
            disk=disk,
            network=self._network.for_node(self.name),
            wall_clock=self.wall_clock,
            steady_clock=self.steady_clock,
            entropy=Entropy(random.Random(self._random.getrandbits(64))),
            compute=InlineCompute(),
            boot_id=f"{self.name}, power lost {disk.power_losses} times",
        )

    def watched_by(self, trace: Trace) -> None:
        """Add every finished sync to `trace`."""
        self.disk.on_sync = lambda path: trace.add(self.name, f"synced {path}")
