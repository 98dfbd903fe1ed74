"""A node in the explorer: its core and its disk, its state between two steps, and the outcome of a step.

The whole history is kept on a disk, also what only a snapshot still holds, so that logs can be compared from
their first record.
"""

from collections.abc import Hashable
from dataclasses import dataclass

from quorate.raft.core import Core, Durable, Effect, Message, Timer
from quorate.types import (
    ElectionState,
    Epoch,
    EpochStart,
    NodeId,
    Offset,
    RecoveredLog,
    ReplicaKey,
    SnapshotId,
    VotersAt,
)
from tests.simulator.effect_interpreter import WrittenBatch

History = tuple[WrittenBatch, ...]


def end_of(history: History) -> Offset:
    return history[-1].end_offset if history else Offset(0)


def up_to(history: History, end_offset: int) -> History:
    """The batches that end at or below `end_offset`."""
    if end_of(history) <= end_offset:
        return history
    return tuple(batch for batch in history if batch.end_offset <= end_offset)


@dataclass(frozen=True, slots=True)
class Snapshot:
    id: SnapshotId
    history: History
    """The history that it holds the outcome of."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeDisk:
    election: ElectionState = ElectionState(Epoch(0))
    history: History = ()
    log_start_offset: Offset = Offset(0)
    """Batches below are only in a snapshot."""
    synced: Offset = Offset(0)
    """Batches that end at or below it survive a power cut."""
    snapshots: tuple[Snapshot, ...] = ()
    """The complete snapshots by end offset."""

    @property
    def end_offset(self) -> Offset:
        return end_of(self.history)

    @property
    def last_epoch(self) -> Epoch:
        return self.history[-1].epoch if self.history else Epoch(0)

    def snapshot(self, snapshot: SnapshotId) -> Snapshot | None:
        return next((each for each in self.snapshots if each.id == snapshot), None)

    def epoch_before(self, offset: int) -> Epoch:
        """Return the epoch of the record below `offset`; 0 at the start."""
        below = up_to(self.history, offset)
        return below[-1].epoch if below else Epoch(0)

    def recovered(self) -> RecoveredLog:
        """Return the recovery's report to a core that starts on this disk."""
        epochs: list[EpochStart] = []
        for batch in self.history:
            if batch.base_offset >= self.log_start_offset and (not epochs or epochs[-1].epoch != batch.epoch):
                epochs.append(EpochStart(batch.epoch, batch.base_offset))
        latest = self.snapshots[-1] if self.snapshots else None
        voters = [batch.voters for batch in self.history if batch.voters is not None]
        if latest is not None:
            held = [batch.voters for batch in latest.history if batch.voters is not None]
            above = [each for each in voters if each.offset >= latest.id.end_offset]
            if held:
                above.insert(0, VotersAt(Offset(latest.id.end_offset - 1), held[-1].voters))
            voters = above
        return RecoveredLog(
            epochs=tuple(epochs),
            log_start_offset=self.log_start_offset,
            start_epoch=self.epoch_before(self.log_start_offset),
            end_offset=self.end_offset,
            snapshot=latest.id if latest is not None else None,
            voters=tuple(voters),
        )


# --- the observations that must agree with all other nodes' ---


@dataclass(frozen=True, slots=True)
class Leads:
    epoch: Epoch


@dataclass(frozen=True, slots=True)
class Commits:
    """`history`: the node's, up to the high watermark."""

    history: History
    own_epoch: Epoch | None
    """The leader's, if it counted copies; None if it learned of the commit."""


@dataclass(frozen=True, slots=True)
class Cuts:
    """Batches leave the log."""

    history: History


@dataclass(frozen=True, slots=True)
class ReadPassed:
    read_round: int
    read_index: Offset


@dataclass(frozen=True, slots=True)
class ReadFailed:
    read_round: int


Observation = Leads | Commits | Cuts | ReadPassed | ReadFailed


# --- a node ---


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
    """Peers whose answers to earlier requests are no longer awaited."""
    crash_points: tuple[CrashPoint, ...] = ()
    effects: tuple[Effect, ...] = ()
    broken: str = ""
    """The invariant that this step breaks by itself."""
