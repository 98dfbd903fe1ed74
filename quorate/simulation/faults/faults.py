"""The faults of a run: a random schedule, of which each seed draws some kinds and their rate.

The budget (docs/explanation/guarantees.md): anything may happen to processes, links, clocks and
unsynced bytes; synced bytes are damaged on a minority of voters at most, where the node can tell, and a node
so damaged stays away.
"""

import enum
import random
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, Generic

import trio

from quorate.log import RECOVERY_POINTS, load_offsets, segment_bases
from quorate.raft.storage.storage import LOG_FOLDER
from quorate.simulation.faults.hosts import HostCluster, Node
from quorate.simulation.world.simulated_disk import DiskOperation
from quorate.simulation.world.simulated_network import LinkQuality
from quorate.simulation.world.simulated_runtime import DiskSpeed


class Fault(enum.Enum):
    CRASH = "crash"
    """A process dies. Its writes are in the page cache."""
    POWER_LOSS = "power-loss"
    """A host dies."""
    BLACKOUT = "blackout"
    """All hosts die in one instant."""
    CRASH_THEN_POWER_LOSS = "crash-then-power-loss"
    """A process dies and starts again from the page cache. Then its host dies."""
    STOP = "stop"
    """A node is stopped in order."""
    PAUSE = "pause"
    """SIGSTOP, and SIGCONT later."""
    PARTITION = "partition"
    """Two groups that don't hear each other."""
    ONE_WAY = "one-way"
    """A node is not heard by another, or by all."""
    SLOW_LINK = "slow-link"
    CUT = "cut"
    """Connections break."""
    HALF_OPEN = "half-open"
    """Connections go silent for good."""
    SLOW_DISK = "slow-disk"
    STALLED_DISK = "stalled-disk"
    SYNC_ERROR = "sync-error"
    CLOCK_JUMP = "clock-jump"
    RESIGN = "resign"
    """The leader is asked to step down."""
    DAMAGE = "damage"
    """A bit of a log flips where it was durable."""
    CRASH_AT_AWAIT = "crash-at-await"
    """A process dies, or its host, between two awaits of it that are drawn, and not at a time that is drawn:
    most awaits take no time."""
    FLAPPING = "flapping"
    """A link goes and comes many times."""
    SLOW_NODE = "slow-node"
    """The node's disk and all its links are slow."""
    WRITE_ERROR = "write-error"
    FULL_DISK = "full-disk"
    CLOCK_RATE = "clock-rate"
    """Monotonic clocks run at different rates, all the time."""
    TRANSFER = "transfer"
    """Leadership is transferred to a chosen node."""
    SNAPSHOT = "snapshot"
    """Snapshots are taken, early and often, and the log below them goes."""
    VOTERS = "voters"
    """Voters are removed and added. Only where they are in the log."""
    LOST_DISK = "lost-disk"
    """A node comes back with an empty disk, as another replica. Only where the voters are in the log."""
    LOST_DIRECTORY = "lost-directory"
    """A broker comes back with an empty disk in one of its directories of log.dirs."""
    ABSENT_DIRECTORY = "absent-directory"
    """A broker runs without one of its directories of log.dirs, and that comes back late."""
    DIRECTORY_TWICE = "directory-twice"
    """A broker's directory of log.dirs is there under a second name."""


COMMON_FAULTS: Final = tuple(Fault)[: tuple(Fault).index(Fault.CRASH_AT_AWAIT)]
"""The faults that any cluster can be put through."""


_BETWEEN_NODES: Final = (
    Fault.PARTITION,
    Fault.ONE_WAY,
    Fault.SLOW_LINK,
    Fault.CUT,
    Fault.HALF_OPEN,
    Fault.FLAPPING,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultSettings:
    """The kinds of faults of a run, how often one begins and how long it lasts."""

    kinds: tuple[Fault, ...] = tuple(Fault)
    mean_interval_s: float = 1.5
    mean_duration_s: float = 2.0
    skipped: frozenset[Fault] = frozenset()
    """The faults drawn but not done, so that the run stays as close to the full one as can be."""

    @classmethod
    def draw(cls, source: random.Random, kinds: Sequence[Fault] = COMMON_FAULTS) -> "FaultSettings":
        """Each kind is on in some seeds and off in others, so that none always hides another (swarm)."""
        share = source.choice((0.2, 0.5, 0.8))
        kinds = tuple(kind for kind in kinds if source.random() < share)
        return cls(
            kinds=kinds or (Fault.CRASH,),
            mean_interval_s=source.choice((0.5, 1.0, 2.0, 4.0)),
            mean_duration_s=source.choice((0.3, 1.0, 3.0)),
        )


class Faults(Generic[Node]):
    """Breaks a cluster until cancelled. Call `heal` then."""

    clock_jumps_ms: tuple[int, ...] = (-3_600_000, -1000, 1000, 86_400_000)

    def __init__(self, cluster: HostCluster[Node], settings: FaultSettings, source: random.Random) -> None:
        self._cluster = cluster
        self._settings = settings
        self._random = source
        self.counts: dict[Fault, int] = {}
        self._actions: dict[Fault, Callable[[], Awaitable[None]]] = {
            Fault.CRASH: self._crash,
            Fault.POWER_LOSS: self._power_loss,
            Fault.BLACKOUT: self._blackout,
            Fault.CRASH_THEN_POWER_LOSS: self._crash_then_power_loss,
            Fault.STOP: self._stop,
            Fault.PAUSE: self._pause,
            Fault.PARTITION: self._partition,
            Fault.ONE_WAY: self._one_way,
            Fault.SLOW_LINK: self._slow_link,
            Fault.CUT: self._cut,
            Fault.HALF_OPEN: self._half_open,
            Fault.SLOW_DISK: self._slow_disk,
            Fault.STALLED_DISK: self._stalled_disk,
            Fault.SYNC_ERROR: self._sync_error,
            Fault.CLOCK_JUMP: self._clock_jump,
            Fault.RESIGN: self._resign,
            Fault.DAMAGE: self._damage,
            Fault.CRASH_AT_AWAIT: self._crash_at_await,
            Fault.FLAPPING: self._flapping,
            Fault.SLOW_NODE: self._slow_node,
            Fault.WRITE_ERROR: self._write_error,
            Fault.FULL_DISK: self._full_disk,
        }

    async def run(self) -> None:
        kinds = [kind for kind in self._settings.kinds if kind in self._actions]
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._cluster.supervise, self._random)
            while kinds:
                await trio.sleep(self._random.expovariate(1 / self._settings.mean_interval_s))
                fault = self._random.choice(kinds)
                if fault in self._settings.skipped:
                    continue
                if fault in _BETWEEN_NODES and len(self._cluster.nodes) == 1:
                    continue
                self.counts[fault] = self.counts.get(fault, 0) + 1
                self._cluster.trace.add("faults", fault.value)
                nursery.start_soon(self._actions[fault])

    async def _sleep_duration(self) -> None:
        """Sleep for as long as a fault lasts."""
        await trio.sleep(self._random.expovariate(1 / self._settings.mean_duration_s))

    def _draw_node(self) -> Node:
        """Draw a node, mostly the leader: that is where it hurts."""
        leader = self._cluster.leader()
        if leader is not None and self._random.random() < 0.4:
            return leader
        return self._random.choice(self._cluster.nodes)

    def _other(self, node: Node) -> Node:
        return self._random.choice([other for other in self._cluster.nodes if other is not node])

    def _start(self, *nodes: Node) -> None:
        for node in nodes:
            if not node.up and not node.damaged:
                self._cluster.start(node)

    # Processes and hosts

    async def _crash(self) -> None:
        node = self._draw_node()
        await self._cluster.crash(node, power_loss=False)
        await self._sleep_duration()
        self._start(node)

    async def _power_loss(self) -> None:
        await self._cut_power(self._draw_node())

    async def _cut_power(self, node: Node) -> None:
        await self._cluster.crash(node, power_loss=True)
        await self._sleep_duration()
        self._start(node)

    async def _blackout(self) -> None:
        nodes = self._cluster.nodes
        await self._cluster.crash(*nodes, power_loss=True)
        for node in self._random.sample(nodes, len(nodes)):
            await trio.sleep(self._random.random() * 0.2)
            self._start(node)

    async def _crash_then_power_loss(self) -> None:
        nodes = self._random.sample(self._cluster.nodes, self._random.randint(1, len(self._cluster.nodes)))
        await self._cluster.crash(*nodes, power_loss=False)
        self._start(*nodes)
        await trio.sleep(self._random.random() * self._random.choice((0.02, 0.5, 3.0)))
        await self._cluster.crash(*nodes, power_loss=True)
        await self._sleep_duration()
        self._start(*nodes)

    async def _crash_at_await(self) -> None:
        node = self._draw_node()
        if not node.up or not node.alive:
            return
        life = node.life
        with trio.move_on_after(2.0):
            await self._cluster.scheduler.wait_passes(node.name, self._random.randint(1, 300))
        if node.life == life:
            await self._cluster.crash(node, power_loss=self._random.random() < 0.5)
            await self._sleep_duration()
            self._start(node)

    async def _stop(self) -> None:
        node = self._draw_node()
        if node.open and node.alive:
            await self._cluster.stop(node)
            await self._sleep_duration()
            self._start(node)

    async def _pause(self) -> None:
        node = self._draw_node()
        if not node.up or not node.alive:
            return
        life = node.life
        self._cluster.scheduler.pause(node.name)
        await self._sleep_duration()
        if node.life == life:
            self._cluster.scheduler.resume(node.name)

    # Links

    async def _partition(self) -> None:
        nodes = self._random.sample(self._cluster.nodes, len(self._cluster.nodes))
        cut = self._random.randint(1, len(nodes) - 1)
        left, right = [node.name for node in nodes[:cut]], [node.name for node in nodes[cut:]]
        self._cluster.network.partition(left, right)
        await self._sleep_duration()
        for a in left:
            for b in right:
                self._cluster.network.heal(a, b)
                self._cluster.network.heal(b, a)

    async def _one_way(self) -> None:
        node = self._draw_node()
        others = [other for other in self._cluster.nodes if other is not node]
        chosen = others if self._random.random() < 0.5 else [self._random.choice(others)]
        deaf = self._random.random() < 0.5
        links = [(other.name, node.name) if deaf else (node.name, other.name) for other in chosen]
        for source, target in links:
            self._cluster.network.block(source, target)
        await self._sleep_duration()
        for source, target in links:
            self._cluster.network.heal(source, target)

    async def _slow_link(self) -> None:
        node = self._draw_node()
        other = self._other(node)
        quality = LinkQuality(
            latency_min_s=0.001,
            latency_max_s=self._random.choice((0.05, 0.5, 1.5)),
            bytes_per_s=self._random.choice((None, 20_000.0)),
        )
        self._cluster.network.set_link(node.name, other.name, quality)
        await self._sleep_duration()
        self._cluster.network.set_link(node.name, other.name, self._cluster.network_settings.link)

    async def _flapping(self) -> None:
        node = self._draw_node()
        other = self._other(node)
        for _ in range(self._random.randint(3, 12)):
            self._cluster.network.partition([node.name], [other.name])
            await trio.sleep(self._random.random() * 0.2)
            self._cluster.network.heal(node.name, other.name)
            self._cluster.network.heal(other.name, node.name)
            await self._sleep_duration()

    async def _cut(self) -> None:
        node = self._draw_node()
        self._cluster.network.cut(node.name, self._other(node).name)

    async def _half_open(self) -> None:
        node = self._draw_node()
        self._cluster.network.half_open(node.name, self._other(node).name)

    # Disks and clocks

    async def _slow_disk(self) -> None:
        host = self._draw_node().host
        host.disk_speed = DiskSpeed(sync_min_s=0.005, sync_max_s=self._random.choice((0.02, 0.2, 1.0)))
        await self._sleep_duration()
        host.disk_speed = DiskSpeed()

    async def _slow_node(self) -> None:
        node = self._draw_node()
        slow = LinkQuality(latency_min_s=0.005, latency_max_s=self._random.choice((0.02, 0.1)))
        others = [other for other in self._cluster.nodes if other is not node]
        node.host.disk_speed = DiskSpeed(sync_min_s=0.005, sync_max_s=0.1)
        for other in others:
            self._cluster.network.set_link(node.name, other.name, slow)
            self._cluster.network.set_link(other.name, node.name, slow)
        await self._sleep_duration()
        node.host.disk_speed = DiskSpeed()
        for other in others:
            self._cluster.network.set_link(node.name, other.name, self._cluster.network_settings.link)
            self._cluster.network.set_link(other.name, node.name, self._cluster.network_settings.link)

    async def _write_error(self) -> None:
        node = self._draw_node()
        node.disk_failing = True
        operation = self._random.choice((DiskOperation.APPEND, DiskOperation.WRITE_AT, DiskOperation.RENAME))
        node.disk.fail(operation, skip=self._random.randint(0, 5))

    async def _full_disk(self) -> None:
        node = self._draw_node()
        node.disk_failing = True
        node.disk.space_left = self._random.choice((0, 100, 4096))
        await self._sleep_duration()
        node.disk.space_left = None

    async def _stalled_disk(self) -> None:
        disk = self._draw_node().disk
        disk.stall()
        await self._sleep_duration()
        disk.release()

    async def _sync_error(self) -> None:
        self._fail_disk(self._draw_node())

    def _fail_disk(self, node: Node) -> None:
        node.disk_failing = True
        operation = self._random.choice(
            (DiskOperation.SYNC, DiskOperation.SYNC, DiskOperation.SYNC_FOLDER, DiskOperation.APPEND)
        )
        node.disk.fail(operation, skip=self._random.randint(0, 5))

    async def _clock_jump(self) -> None:
        clock = self._draw_node().host.wall_clock
        clock.offset_ms += self._random.choice(self.clock_jumps_ms)

    async def _resign(self) -> None:
        leader = self._cluster.leader()
        if leader is not None and not self._cluster.scheduler.is_paused(leader.name):
            self._cluster.resign(leader)

    async def _damage(self) -> None:
        cluster = self._cluster
        damaged = sum(node.damaged for node in cluster.voters)
        node = self._random.choice(cluster.nodes)
        if node.damaged or (node in cluster.voters and damaged >= (len(cluster.voters) - 1) // 2):
            return
        await cluster.crash(node, power_loss=False)
        folder = f"{node.folder}/{LOG_FOLDER}"
        durable_to = max(load_offsets(node.disk, f"{folder}/{RECOVERY_POINTS}").values(), default=0)
        bases = segment_bases(node.disk, folder)
        # Above the recovery point it would look like what a power loss leaves.
        trusted = [base for base, following in pairwise(bases) if following <= durable_to]
        if not trusted:
            self._start(node)
            return
        node.damaged = True
        path = f"{folder}/{self._random.choice(trusted):020}.log"
        node.disk.flip(
            path, self._random.randrange(len(node.disk.content(path))), bit=self._random.randrange(8)
        )
        cluster.start(node)
