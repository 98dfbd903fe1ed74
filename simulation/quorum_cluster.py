"""A quorum of simulated hosts that run the shipped `Quorum`, and the hands that break them."""

import random
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field, replace

import trio

from quorate.log import Log
from quorate.log.errors import LogError
from quorate.quorum_state.errors import QuorumStateError
from quorate.raft.config import QuorumConfig
from quorate.raft.core.types import CoreConfig, Endpoint, NodeId, ReplicaKey, Voter, VoterSet
from quorate.raft.quorum import Quorum
from quorate.raft.state_machine import CommittedBatch
from quorate.raft.storage import format_folder
from quorate.runtime.disk import DiskError
from quorate.runtime.network import Address
from quorate.simulation.disk import SimulatedDisk
from quorate.simulation.invariants import Checker, WatchedTelemetry
from quorate.simulation.journal import Journal
from quorate.simulation.network import NetworkSettings, SimulatedNetwork
from quorate.simulation.runtime import DiskSpeed, SimulatedRuntime
from quorate.simulation.scheduler import Scheduler
from quorate.simulation.trace import Trace
from quorate.simulation.violations import LivenessViolation, SafetyViolation

CLUSTER_ID = "simulated-cluster-0001"
_PORT = 9093


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSettings:
    """What a cluster is made of."""

    voters: int = 3
    observers: int = 0
    core: CoreConfig = field(default_factory=CoreConfig)
    segment_bytes: int = 1024 * 1024
    recovery_point_bytes: int = 64 * 1024
    network: NetworkSettings = field(default_factory=NetworkSettings)
    disk: DiskSpeed = field(default_factory=DiskSpeed)


class SimulatedNode:
    """One host of the quorum, and the process on it while there is one."""

    def __init__(self, config: QuorumConfig, host: SimulatedRuntime) -> None:
        self.config = config
        self.host = host
        self.life = 0
        self.quorum: Quorum[int] | None = None
        self.journal: Journal | None = None
        self.up = False
        """A process runs, or starts or ends, on it."""
        self.alive = False
        """What its process says counts: it was not killed."""
        self.damaged = False
        self.disk_failing = False
        """A disk error was asked for: the process may end by it."""
        self.failure: Exception | None = None
        """Why the last process ended, if it was not asked to."""
        self.scope = trio.CancelScope()
        self.stop = trio.Event()
        self.ended = trio.Event()

    @property
    def id(self) -> NodeId:
        return self.config.node_id

    @property
    def name(self) -> str:
        return self.host.name

    @property
    def folder(self) -> str:
        return self.config.folder

    @property
    def disk(self) -> SimulatedDisk:
        return self.host.disk

    @property
    def log(self) -> Log:
        return self.serving.log

    @property
    def serving(self) -> Quorum[int]:
        """Raises `ValueError` if there is none."""
        if self.quorum is None:
            raise ValueError(f"{self.name} is down")
        return self.quorum

    @property
    def address(self) -> Address | None:
        return self.config.listen_address


class QuorumCluster:
    """Nodes are named node-1, node-2, and so on; voters first, then observers.

    Their processes run in `nursery`. A broken promise is kept in `checker.violation` and cancels the nursery.
    """

    def __init__(
        self,
        settings: ClusterSettings,
        source: random.Random,
        scheduler: Scheduler,
        nursery: trio.Nursery,
        trace: Trace,
    ) -> None:
        self.settings = settings
        self.trace = trace
        self.scheduler = scheduler
        self._random = source
        self._nursery = nursery
        self.network = SimulatedNetwork(random.Random(source.getrandbits(64)), settings.network)
        self.network.on_receive = self._received
        self.nodes = [self._node(number) for number in range(1, settings.voters + settings.observers + 1)]
        self.voters = self.nodes[: settings.voters]
        self.checker = Checker(self.voters, trace, nursery.cancel_scope.cancel)

    def _node(self, number: int) -> SimulatedNode:
        voters = tuple(
            Voter(ReplicaKey(NodeId(voter)), Endpoint(f"node-{voter}", _PORT))
            for voter in range(1, self.settings.voters + 1)
        )
        config = QuorumConfig(
            node_id=NodeId(number),
            cluster_id=CLUSTER_ID,
            folder="data",
            voters=VoterSet(voters),
            core=self.settings.core,
            segment_bytes=self.settings.segment_bytes,
            recovery_point_bytes=self.settings.recovery_point_bytes,
        )
        host = SimulatedRuntime(
            f"node-{number}",
            self.network,
            random.Random(self._random.getrandbits(64)),
            disk_speed=replace(self.settings.disk),
        )
        host.watched_by(self.trace)
        return SimulatedNode(config, host)

    def _received(self, source: str, target: str, data: bytes) -> None:
        self.trace.received(source, target, data)

    async def boot(self) -> None:
        """Format every folder and start every node."""
        for node in self.nodes:
            await format_folder(node.host.runtime(), node.folder, cluster_id=CLUSTER_ID, node_id=node.id)
        for node in self.nodes:
            self.start(node)

    # Processes

    def start(self, node: SimulatedNode) -> None:
        """Begin a process on a node that is down. What comes of it shows later."""
        assert not node.up, f"{node.name} is up already"
        node.life += 1
        node.up = node.alive = True
        node.failure = None
        node.scope, node.stop, node.ended = trio.CancelScope(), trio.Event(), trio.Event()
        self.trace.add(node.name, f"starts, life {node.life}")
        self.network.restart_node(node.name)
        with self.scheduler.process(node.name):
            self._nursery.start_soon(self._run, node)

    async def _run(self, node: SimulatedNode) -> None:
        journal = node.journal = Journal(lambda batch: self._applied(node, batch))
        try:
            with node.scope:
                async with Quorum[int].open(
                    node.config,
                    journal,
                    runtime=node.host.runtime(),
                    telemetry=WatchedTelemetry(node, self.checker),
                ) as quorum:
                    node.quorum = quorum
                    await node.stop.wait()
        except Exception as error:
            if node.alive:
                self._failed(node, error)
        finally:
            if node.alive:
                # The process ended by itself: the kernel closes what it left open.
                node.alive = False
                self.network.crash_node(node.name, silent=False)
                node.disk.crash_process()
            node.quorum = None
            node.up = False
            node.ended.set()

    def _applied(self, node: SimulatedNode, batch: CommittedBatch) -> None:
        if node.alive:
            self.checker.check(lambda invariant: invariant.applied(node, batch))

    def _failed(self, node: SimulatedNode, error: Exception) -> None:
        node.failure = error
        self.trace.add(node.name, f"stops: {type(error).__name__}: {error}")
        causes: list[BaseException] = [error]
        while causes[-1].__cause__ is not None:
            causes.append(causes[-1].__cause__)
        if node.disk_failing and any(isinstance(cause, DiskError) for cause in causes):
            return
        if node.damaged and any(isinstance(cause, LogError | QuorumStateError) for cause in causes):
            return
        reasons = " from ".join(f"{type(cause).__name__}: {cause}" for cause in causes)
        self.checker.found("NodesStayUp", SafetyViolation(f"node {node.id} stopped by itself: {reasons}"))

    async def stop(self, node: SimulatedNode) -> None:
        """In order; returns when its process has ended."""
        self.trace.add(node.name, "stops in order")
        node.stop.set()
        await node.ended.wait()

    async def crash(self, *nodes: SimulatedNode, power_loss: bool) -> None:
        """End processes in one instant, with no last words. With `power_loss` their hosts lose what was not
        synced, also on nodes whose process had ended before."""
        for node in nodes:
            self.trace.add(node.name, "loses power" if power_loss else "crashes")
            if node.up:
                node.alive = False
                node.disk.cut()
                self.network.crash_node(node.name, silent=power_loss)
                self.scheduler.resume(node.name)
                node.scope.cancel()
        lives = [node.life for node in nodes]
        with trio.CancelScope(shield=True):
            for node, life in zip(nodes, lives, strict=True):
                if node.up:
                    await node.ended.wait()
                if node.life != life:
                    continue  # already started again
                if power_loss:
                    node.disk.lose_power(self._random)
                else:
                    node.disk.crash_process()

    # After the faults

    def heal(self) -> None:
        """Undo what faults left behind, except that nodes are down."""
        self.trace.add("cluster", "heals")
        self.network.heal()
        for source in self.nodes:
            for target in self.nodes:
                self.network.set_link(source.name, target.name, self.settings.network.link)
        for node in self.nodes:
            self.scheduler.resume(node.name)
            node.disk.release()
            node.disk.clear_faults()
            node.disk_failing = False
            node.host.disk_speed = replace(self.settings.disk)

    async def start_all(self) -> None:
        """Those that are down, or about to be, and not for good."""
        for node in self.nodes:
            if node.up and node.stop.is_set():
                await node.ended.wait()
            if not node.up and not node.damaged:
                self.start(node)

    def spawn(self, task: Callable[..., Awaitable[object]], *arguments: object) -> None:
        """Run a task for as long as the cluster exists."""
        self._nursery.start_soon(task, *arguments)

    @property
    def running(self) -> Iterable[SimulatedNode]:
        return (node for node in self.nodes if node.quorum is not None and node.alive)

    def leader(self) -> SimulatedNode | None:
        """Of the newest epoch that any running node knows, if it may serve already."""
        known = [node for node in self.running if node.serving.is_leader]
        return max(known, key=lambda node: node.serving.epoch, default=None)

    def check_leaders(self) -> None:
        """A node that says it leads has applied all that older epochs committed, so its state is current."""
        for node in self.running:
            if node.serving.is_leader:
                before = self.checker.committed.last_before(node.serving.epoch)
                applied = node.serving.applied_offset
                if before is not None and applied < before.end_offset:
                    self.checker.found(
                        "LeaderIsCurrent",
                        SafetyViolation(
                            f"node {node.id} says it leads epoch {node.serving.epoch}, but has applied "
                            f"{applied} of the {before.end_offset} that older epochs committed"
                        ),
                    )

    async def converge(self, *, within_s: float) -> SimulatedNode:
        """Wait until one node leads, all running ones know it, and all have applied everything; the leader.
        Raises `LivenessViolation`."""
        with trio.move_on_after(within_s):
            while True:
                leader = self.leader()
                if leader is not None and self._agree(leader):
                    return leader
                await trio.sleep(0.05)
        states = ", ".join(
            f"{node.name} {node.serving.role.value} epoch {node.serving.epoch} leader {node.serving.leader} "
            f"high watermark {node.serving.high_watermark} applied {node.serving.applied_offset} "
            f"log end {node.log.end_offset}"
            for node in self.running
        )
        raise LivenessViolation(f"no agreement {within_s:g} s after the last fault: {states}")

    def _agree(self, leader: SimulatedNode) -> bool:
        end = leader.log.end_offset
        return all(
            node.quorum is not None
            and node.quorum.leader == leader.id
            and node.quorum.high_watermark == node.quorum.applied_offset == node.log.end_offset == end
            for node in self.nodes
            if node.up
        )
