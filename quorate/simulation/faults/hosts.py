"""Simulated hosts with a process on each: started, stopped, killed, cut off from power, and healed."""

import random
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import replace
from typing import Generic, TypeVar

import trio

from quorate.log import LogError
from quorate.quorum_state import QuorumStateError
from quorate.runtime import DiskError
from quorate.simulation.violations import SafetyViolation
from quorate.simulation.world.scheduler import Scheduler, current_process
from quorate.simulation.world.simulated_disk import SimulatedDisk
from quorate.simulation.world.simulated_network import NetworkSettings, SimulatedNetwork
from quorate.simulation.world.simulated_runtime import DiskSpeed, SimulatedRuntime
from quorate.simulation.world.trace import Trace
from quorate.types import NodeId

FOLDER = "data"


class SimulatedNode:
    """A host, and the process on it while there is one."""

    folder = FOLDER

    def __init__(self, number: int, host: SimulatedRuntime) -> None:
        self.id = NodeId(number)
        self.host = host
        self.life = 0
        self.disks = 1
        """The number of its disks so far: another disk is another replica."""
        self.up = False
        """A process runs, or starts or ends, on it."""
        self.alive = False
        """The process was not killed, so its reports count."""
        self.damaged = False
        self.disk_failing = False
        """A disk error was asked for, or has happened to the process: it may end by it."""
        self.failure: Exception | None = None
        """The error that ended the last process, if it was not asked to stop."""
        self.scope = trio.CancelScope()
        self.stop = trio.Event()
        self.ended = trio.Event()

    @property
    def name(self) -> str:
        return self.host.name

    @property
    def disk(self) -> SimulatedDisk:
        return self.host.disk

    @property
    def open(self) -> bool:
        """The process has started and takes requests."""
        raise NotImplementedError


Node = TypeVar("Node", bound=SimulatedNode)


class HostCluster(ABC, Generic[Node]):
    """Hosts are named node-1, node-2, and so on. Their processes run in `nursery`. `sync_at_once`: which of
    their disks do, in turn; empty for none.

    The first violation is kept in `violation` and cancels the nursery.
    """

    disk_errors: tuple[type[Exception], ...] = (DiskError,)
    """The errors with which a process may end when its disk fails."""

    def __init__(
        self,
        nodes: int,
        network: NetworkSettings,
        disk: DiskSpeed,
        sync_at_once: Sequence[bool],
        source: random.Random,
        scheduler: Scheduler,
        nursery: trio.Nursery,
        trace: Trace,
    ) -> None:
        self.trace = trace
        self.scheduler = scheduler
        self.network_settings = network
        self._disk_speed = disk
        self._sync_at_once = sync_at_once
        self._random = source
        self._nursery = nursery
        self.network = SimulatedNetwork(random.Random(source.getrandbits(64)), network)
        self.network.on_receive = trace.received
        self.nodes: Sequence[Node] = [self._host(number) for number in range(1, nodes + 1)]
        self.violation: SafetyViolation | None = None
        self.crashes = 0
        """The number of processes that were ended by `crash`."""
        trace.on_error = self._logged_error

    def _host(self, number: int) -> Node:
        at_once = self._sync_at_once
        host = SimulatedRuntime(
            f"node-{number}",
            self.network,
            random.Random(self._random.getrandbits(64)),
            disk_speed=replace(self._disk_speed),
            syncs_at_once=at_once[(number - 1) % len(at_once)] if at_once else False,
        )
        host.watched_by(self.trace)
        return self._node(number, host)

    @abstractmethod
    def _node(self, number: int, host: SimulatedRuntime) -> Node: ...

    @abstractmethod
    async def _process(self, node: Node) -> None:
        """Run the node's program until `node.stop`, then end it in order."""

    @abstractmethod
    def _process_ended(self, node: Node) -> None:
        """Clean up after a process, however it ended."""

    @property
    @abstractmethod
    def voters(self) -> Sequence[Node]: ...

    @abstractmethod
    def leader(self) -> Node | None:
        """Return the leader of the newest epoch that any running node knows, if it may serve already."""

    @abstractmethod
    def resign(self, leader: Node) -> None:
        """Ask it to step down."""

    @property
    def running(self) -> Iterable[Node]:
        return (node for node in self.nodes if node.open and node.alive)

    def found(self, invariant: str, violation: SafetyViolation) -> None:
        """Keep the first violation, and end the run."""
        if self.violation is None:
            self.violation = SafetyViolation(f"{invariant}: {violation}")
            self.trace.add("checker", str(self.violation))
            self._nursery.cancel_scope.cancel()

    def _logged_error(self, line: str) -> None:
        """Check that the node has a reason to log an error, which asks an operator to act: only a harmed disk
        is one."""
        name = current_process()
        node = next((each for each in self.nodes if each.name == name), None)
        if node is None or not node.alive:
            return
        if not (node.disk_failing or node.damaged or node.disk.has_failed):
            self.found("NoErrorWithoutHarm", SafetyViolation(f"{name} logged: {line}"))

    def spawn(self, task: Callable[..., Awaitable[object]], *arguments: object) -> None:
        """Run a task for as long as the cluster exists."""
        self._nursery.start_soon(task, *arguments)

    # Processes

    def start(self, node: Node) -> None:
        """Begin a process on a node that is down. Returns before the process has started."""
        if node.up:
            raise ValueError(f"{node.name} is up already")
        node.life += 1
        node.up = node.alive = True
        node.failure = None
        node.disk_failing = node.disk.failing or node.disk.space_left is not None
        node.scope, node.stop, node.ended = trio.CancelScope(), trio.Event(), trio.Event()
        self.trace.add(node.name, f"starts, life {node.life}")
        self.network.restart_node(node.name)
        with self.scheduler.process(node.name):
            self._nursery.start_soon(self._run, node)

    async def _run(self, node: Node) -> None:
        try:
            with node.scope:
                await self._process(node)
        except Exception as error:
            if node.alive:
                self._failed(node, error)
        finally:
            if node.alive:
                # The process ended by itself: the kernel closes what it left open.
                node.alive = False
                self.network.crash_node(node.name, silent=False)
                node.disk.crash_process()
            self._process_ended(node)
            node.up = False
            node.ended.set()

    def _failed(self, node: Node, error: Exception) -> None:
        node.failure = error
        causes: list[BaseException] = [error]
        while causes[-1].__cause__ is not None or isinstance(causes[-1], BaseExceptionGroup):
            last = causes[-1]
            inner = last.exceptions[0] if isinstance(last, BaseExceptionGroup) else last.__cause__
            assert inner is not None
            causes.append(inner)
        reasons = " from ".join(f"{type(cause).__name__}: {cause}" for cause in causes)
        self.trace.add(node.name, f"stops: {reasons}")
        if node.disk_failing and any(isinstance(cause, self.disk_errors) for cause in causes):
            return
        if node.damaged and any(isinstance(cause, LogError | QuorumStateError) for cause in causes):
            return
        self.found("NodesStayUp", SafetyViolation(f"node {node.id} stopped by itself: {reasons}"))

    async def supervise(self, source: random.Random) -> None:
        """Start processes again that ended by themselves, until cancelled."""
        while True:
            await trio.sleep(0.5 + source.random())
            for node in self.nodes:
                if not node.up and node.failure is not None and not node.damaged:
                    self.start(node)

    async def stop(self, node: Node) -> None:
        """Stop the process in order. Returns when it has ended."""
        self.trace.add(node.name, "stops in order")
        node.stop.set()
        await node.ended.wait()

    async def crash(self, *nodes: Node, power_loss: bool) -> None:
        """End processes in one instant, without a last message. With `power_loss` their hosts lose all
        unsynced data, also on nodes whose process had ended before."""
        for node in nodes:
            self.trace.add(node.name, "loses power" if power_loss else "crashes")
            if node.up:
                self.crashes += 1
                node.alive = False
                node.disk.cut()
                self.network.crash_node(node.name, silent=power_loss)
                self.scheduler.kill(node.name)
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
        """End all faults of network, disks and clocks. Nodes that are down stay down, and silent connections
        stay silent."""
        self.trace.add("cluster", "heals")
        self.network.heal()
        for source in self.nodes:
            for target in self.nodes:
                self.network.set_link(source.name, target.name, self.network_settings.link)
        for node in self.nodes:
            self.scheduler.resume(node.name)
            node.disk.release()
            node.disk.clear_faults()
            node.disk.space_left = None
            node.host.disk_speed = replace(self._disk_speed)

    async def start_all(self) -> None:
        """Start the nodes that are down, or about to be, and not for good."""
        for node in self.nodes:
            if node.up and node.stop.is_set():
                await node.ended.wait()
            if not node.up and not node.damaged:
                self.start(node)
