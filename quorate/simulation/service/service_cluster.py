"""Simulated hosts that run a user's state machine on the shipped `Quorum`."""

import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

import trio

from quorate.raft import CommittedBatch, NodeId, PlainStateMachine, Quorum, SnapshotId, StateMachine
from quorate.raft.state_machine.plain import with_snapshots
from quorate.runtime import Runtime
from quorate.simulation.quorum.quorum_cluster import ClusterSettings, QuorumCluster, QuorumNode
from quorate.simulation.service.replica_states import ReplicaStates, WatchedMachine
from quorate.simulation.violations import SafetyViolation
from quorate.simulation.world.scheduler import Scheduler
from quorate.simulation.world.trace import Trace

Machine = TypeVar("Machine", bound=StateMachine[object] | PlainStateMachine[object])


@dataclass(frozen=True, slots=True)
class ServiceNode(Generic[Machine]):
    """A node that serves, as a call at it finds it."""

    id: NodeId
    quorum: Quorum[object]
    state: Machine
    """The node's own replica. `quorum.read` reads it linearizably."""
    runtime: Runtime
    """The disk, the network, the clocks and the entropy of the node's host."""


@dataclass(slots=True)
class _Life(Generic[Machine]):
    """A process of a node."""

    calls: trio.Nursery
    """The calls of clients at it. They end with it."""
    machine: Machine
    with_snapshots: StateMachine[object]
    """The same machine."""
    runtime: Runtime


class ServiceCluster(QuorumCluster, Generic[Machine]):
    """A `QuorumCluster` of a user's state machine. Its replicas are compared after every batch."""

    def __init__(
        self,
        state_machine: Callable[[], Machine],
        settings: ClusterSettings,
        source: random.Random,
        scheduler: Scheduler,
        nursery: trio.Nursery,
        trace: Trace,
    ) -> None:
        self._new_machine = state_machine
        self._lives: dict[NodeId, _Life[Machine]] = {}
        self._states = ReplicaStates()
        super().__init__(settings, source, scheduler, nursery, trace)

    async def _process(self, node: QuorumNode) -> None:
        async with trio.open_nursery() as calls:
            machine = self._new_machine()
            self._lives[node.id] = _Life(calls, machine, with_snapshots(machine), node.host.runtime())
            await super()._process(node)
            calls.cancel_scope.cancel()

    def _state_machine(self, node: QuorumNode) -> StateMachine[object]:
        machine = self._lives[node.id].with_snapshots

        def applied(batch: CommittedBatch) -> None:
            self._applied(node, batch)
            self._compare(node, machine, batch.base_offset + len(batch.records))

        def loaded(snapshot: SnapshotId) -> None:
            self._loaded(node, snapshot.end_offset)
            self._compare(node, machine, snapshot.end_offset, ", which loaded a snapshot,")

        self._compare(node, machine, 0)
        return WatchedMachine(machine, applied=applied, loaded=loaded)

    def _compare(
        self, node: QuorumNode, machine: StateMachine[object], end_offset: int, how: str = ""
    ) -> None:
        if node.alive:
            try:
                self._states.compare(node.name, machine, end_offset, how)
            except SafetyViolation as violation:
                self.found("states differ", violation)

    def compare_replicas(self) -> None:
        """Compare the states once more, when all nodes have applied everything: `apply` alone may change
        them."""
        for node in self.running:
            how = ", whose state was changed by something else than apply,"
            self._compare(node, self._lives[node.id].with_snapshots, node.serving.applied_offset, how)

    def serve(self, node: QuorumNode, call: Callable[[ServiceNode[Machine]], Awaitable[None]]) -> None:
        """Begin a client's call in the node's process, which must be open."""
        life = self._lives[node.id]
        with self.scheduler.process(node.name):
            life.calls.start_soon(call, ServiceNode(node.id, node.serving, life.machine, life.runtime))
