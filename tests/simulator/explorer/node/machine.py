"""A node's present state, and the result of its step."""

from collections.abc import Hashable
from dataclasses import dataclass

from quorate.raft.core import Core, Durable, Effect, Message, Timer
from quorate.types import NodeId, ReplicaKey, SnapshotId
from tests.simulator.explorer.node.node_disk import History, NodeDisk, Snapshot
from tests.simulator.explorer.node.observations import Observation


@dataclass(frozen=True, slots=True)
class Packet:
    """A message in flight, with the batches that its bytes would hold."""

    message: Message
    history: History = ()
    """The batches of a FetchResponse, or all that the snapshot of a FetchSnapshotResponse holds."""


@dataclass(frozen=True, slots=True)
class Machine:
    """A node as it stands between two steps. Never changed: a step makes another."""

    key: ReplicaKey
    core: Core | None
    """The core; None while the node is down."""
    disk: NodeDisk
    timers: frozenset[Timer] = frozenset()
    syncs: tuple[Durable, ...] = ()
    """The syncs requested and not done, in order."""
    partial: Snapshot | None = None
    """The snapshot fetched up to `position`."""
    position: int = 0
    checking: SnapshotId | None = None

    def identity(self) -> Hashable:
        """Equal for two machines exactly if they behave alike from here on."""
        return (
            self.key,
            self.core.key() if self.core is not None else None,
            self.disk,
            self.timers,
            self.syncs,
            self.partial,
            self.position,
            self.checking,
        )

    @property
    def up(self) -> Core:
        if self.core is None:
            raise ValueError(f"node {self.key.id} is down")
        return self.core

    def down(self, disk: NodeDisk) -> "Machine":
        return Machine(self.key, None, disk)


@dataclass(frozen=True, slots=True)
class CrashPoint:
    """The state after a crash in the middle of a step: just before something would have been stored."""

    disk: NodeDisk
    sent: tuple[Packet, ...]
    observations: tuple[Observation, ...]


@dataclass(frozen=True, slots=True)
class StepOutcome:
    """The result of a step."""

    machine: Machine
    sent: tuple[Packet, ...] = ()
    observations: tuple[Observation, ...] = ()
    forgotten: tuple[NodeId, ...] = ()
    """Peers whose answers to what was asked before are not waited for any more."""
    crash_points: tuple[CrashPoint, ...] = ()
    effects: tuple[Effect, ...] = ()
    broken: str = ""
    """The invariant that this step breaks by itself."""
