"""A core and what it has stored, and the records of such logs: 8-byte values, each with its epoch."""

import struct
from dataclasses import dataclass, field
from typing import Protocol

from quorate.raft.core.core import Core
from quorate.raft.core.effects import (
    AppendFetched,
    ArmTimer,
    SendRecords,
)
from quorate.raft.core.events import (
    Durable,
    Timer,
)
from quorate.raft.core.messages import Message
from quorate.raft.core.types import (
    BatchSpan,
    CoreConfig,
    ElectionState,
    Endpoint,
    Epoch,
    EpochStart,
    NodeId,
    Offset,
    RecoveredLog,
    ReplicaKey,
    VoterSet,
)


@dataclass(frozen=True, slots=True)
class Entry:
    """One record: the epoch that wrote it, and a value that no other record has."""

    epoch: Epoch
    value: int


@dataclass(slots=True)
class CoreDisk:
    """What a node has stored. `entries` below `synced` survive a power cut."""

    election: ElectionState = ElectionState(Epoch(0))
    entries: list[Entry] = field(default_factory=list)
    synced: int = 0

    def recovered(self) -> RecoveredLog:
        epochs: list[EpochStart] = []
        for offset, entry in enumerate(self.entries):
            if not epochs or epochs[-1].epoch != entry.epoch:
                epochs.append(EpochStart(entry.epoch, Offset(offset)))
        return RecoveredLog(epochs=tuple(epochs), end_offset=Offset(len(self.entries)))


@dataclass(slots=True)
class CoreNode:
    id: NodeId
    disk: CoreDisk
    core: Core | None = None
    """None while it is down."""
    timers: dict[Timer, ArmTimer] = field(default_factory=dict)
    syncs: list[Durable] = field(default_factory=list)
    """Asked for, not begun."""
    high_watermark: Offset | None = None
    incarnation: int = 0

    @property
    def up(self) -> Core:
        if self.core is None:
            raise ValueError(f"node {self.id} is down; restart it first")
        return self.core


class CoreFactory(Protocol):
    """Core, or a broken one for a test of the tests."""

    def __call__(
        self,
        *,
        config: CoreConfig,
        cluster_id: str,
        key: ReplicaKey,
        endpoint: Endpoint | None,
        voters: VoterSet,
        election: ElectionState,
        log: RecoveredLog,
    ) -> Core: ...


def replace_records(effect: SendRecords, batches: tuple[BatchSpan, ...], entries: list[Entry]) -> Message:
    """The response that SendRecords asks for."""
    response = effect.response
    return type(response)(
        source=response.source,
        destination=response.destination,
        correlation=response.correlation,
        error=response.error,
        epoch=response.epoch,
        leader=response.leader,
        leader_endpoint=response.leader_endpoint,
        high_watermark=response.high_watermark,
        log_start_offset=response.log_start_offset,
        diverging=response.diverging,
        batches=batches,
        records=b"".join(struct.pack(">q", entry.value) for entry in entries),
    )


def unpack_entries(effect: AppendFetched) -> list[Entry]:
    values = struct.iter_unpack(">q", effect.records)
    return [
        Entry(batch.epoch, next(values)[0])
        for batch in effect.batches
        for _ in range(batch.end_offset - batch.base_offset)
    ]
