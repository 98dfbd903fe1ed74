"""A core and its disk, and the records of its log: 8-byte values, each with its epoch."""

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from quorate.error_code import ErrorCode
from quorate.raft.core import (
    AppendFetched,
    ArmTimer,
    BatchSpan,
    Core,
    CoreConfig,
    Durable,
    Message,
    SendRecords,
    SendSnapshotChunk,
    StoreSnapshotChunk,
    Timer,
)
from quorate.types import (
    ElectionState,
    Endpoint,
    Epoch,
    EpochStart,
    NodeId,
    Offset,
    RecoveredLog,
    ReplicaKey,
    SnapshotId,
    VotersAt,
    VoterSet,
)
from tests.simulator.effect_interpreter import WrittenBatch


@dataclass(frozen=True, slots=True)
class CoreRecord:
    """A record: the epoch that wrote it, and a value that no other record has."""

    epoch: Epoch
    value: int
    voters: VoterSet | None = None
    """The voters of a KRaftVoters record."""


@dataclass(slots=True)
class CoreDisk:
    """The stored data of a node. `entries` below `synced` survive a power cut; those below `start` are only
    in a snapshot, and kept here for comparison."""

    election: ElectionState = ElectionState(Epoch(0))
    entries: list[CoreRecord] = field(default_factory=list)
    synced: Offset = Offset(0)
    log_start_offset: Offset = Offset(0)
    directory_id: str | None = None
    bootstrap_voters: VoterSet | None = None
    """The voters of the bootstrap snapshot, if there is one."""
    snapshots: dict[SnapshotId, tuple[CoreRecord, ...]] = field(default_factory=dict)
    """The complete snapshots, and the records that each stands for."""
    part: tuple[SnapshotId, bytearray] | None = None

    @property
    def end_offset(self) -> Offset:
        return Offset(len(self.entries))

    @property
    def last_epoch(self) -> Epoch:
        return self.entries[-1].epoch if self.entries else Epoch(0)

    def epoch_before(self, offset: int) -> Epoch:
        return self.entries[offset - 1].epoch if offset else Epoch(0)

    @property
    def latest_snapshot(self) -> SnapshotId | None:
        return max(self.snapshots, default=None)

    def voters_below(self, end: int, entries: Sequence[CoreRecord]) -> VoterSet | None:
        """The last voter set in `entries[:end]`, or of the bootstrap."""
        found = (entry.voters for entry in reversed(entries[:end]) if entry.voters is not None)
        return next(found, self.bootstrap_voters)

    def store_chunk(self, effect: StoreSnapshotChunk) -> bool:
        """Store the chunk, and return whether it follows the stored ones."""
        if effect.position == 0:
            self.part = effect.snapshot, bytearray()
        if self.part is None or (self.part[0], len(self.part[1])) != (effect.snapshot, effect.position):
            return False
        self.part[1].extend(effect.chunk)
        return True

    def install(self, snapshot: SnapshotId) -> None:
        """Replace the log by the snapshot."""
        self.entries = list(self.snapshots[snapshot])
        self.synced = self.end_offset
        self.move_start(snapshot)

    def move_start(self, snapshot: SnapshotId) -> None:
        """Move the log start to the snapshot's end; older snapshots are deleted."""
        self.log_start_offset = snapshot.end_offset
        self.snapshots = {each: kept for each, kept in self.snapshots.items() if each >= snapshot}

    def recovered(self) -> RecoveredLog:
        epochs: list[EpochStart] = []
        for offset, entry in enumerate(self.entries[self.log_start_offset :], start=self.log_start_offset):
            if not epochs or epochs[-1].epoch != entry.epoch:
                epochs.append(EpochStart(entry.epoch, Offset(offset)))
        snapshot = self.latest_snapshot
        above = 0 if snapshot is None else snapshot.end_offset
        voters = [
            VotersAt(Offset(offset), entry.voters)
            for offset, entry in enumerate(self.entries)
            if offset >= above and entry.voters is not None
        ]
        first = self.voters_below(above, () if snapshot is None else self.snapshots[snapshot])
        if first is not None:
            voters.insert(0, VotersAt(Offset(above - 1), first))
        return RecoveredLog(
            epochs=tuple(epochs),
            log_start_offset=Offset(self.log_start_offset),
            start_epoch=self.entries[self.log_start_offset - 1].epoch if self.log_start_offset else Epoch(0),
            end_offset=Offset(len(self.entries)),
            snapshot=snapshot,
            voters=tuple(voters),
        )


@dataclass(slots=True)
class CoreNode:
    id: NodeId
    disk: CoreDisk
    core: Core | None = None
    """The core; None while the node is down."""
    timers: dict[Timer, ArmTimer] = field(default_factory=dict)
    syncs: list[Durable] = field(default_factory=list)
    """The syncs requested and not begun."""
    checks: list[SnapshotId] = field(default_factory=list)
    """Fetched snapshots to check."""
    high_watermark: Offset | None = None
    incarnation: int = 0

    @property
    def key(self) -> ReplicaKey:
        return ReplicaKey(self.id, self.disk.directory_id)

    @property
    def up(self) -> Core:
        if self.core is None:
            raise ValueError(f"node {self.id} is down; restart it first")
        return self.core

    def stop(self) -> None:
        """Stop without a last message."""
        self.core = None
        self.timers.clear()
        self.syncs.clear()
        self.checks.clear()
        self.disk.part = None


def endpoint_of(node: NodeId) -> Endpoint:
    return Endpoint(f"node-{node}", 9093)


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
        bootstrap: tuple[Endpoint, ...] = (),
        last_correlation: int = 0,
    ) -> Core: ...


def entries_of(batch: WrittenBatch) -> list[CoreRecord]:
    """The records of a batch: a value each, or those of control records."""
    first = -batch.epoch if batch.proposal is None else batch.proposal
    step = 0 if batch.proposal is None else 1
    at = None if batch.voters is None else batch.voters.offset
    return [
        CoreRecord(
            batch.epoch,
            first + step * (offset - batch.base_offset),
            batch.voters.voters if batch.voters is not None and offset == at else None,
        )
        for offset in range(batch.base_offset, batch.end_offset)
    ]


def records_of(effect: SendRecords, stored: Sequence[CoreRecord], *, records_max: int) -> Message:
    """The response that SendRecords asks for."""
    end = min(effect.start_offset + records_max, len(stored))
    while end < len(stored) and stored[end].value == stored[end - 1].value:
        end += 1  # batches of control records come whole
    entries = stored[effect.start_offset : end]
    batches: list[BatchSpan] = []
    for offset, entry in enumerate(entries, start=effect.start_offset):
        voters = None if entry.voters is None else VotersAt(Offset(offset), entry.voters)
        if batches and batches[-1].epoch == entry.epoch and batches[-1].voters is None:
            batches[-1] = BatchSpan(batches[-1].base_offset, Offset(offset + 1), entry.epoch, voters)
        else:
            batches.append(BatchSpan(Offset(offset), Offset(offset + 1), entry.epoch, voters))
    records = b"".join(struct.pack(">q", entry.value) for entry in entries)
    return replace(effect.response, batches=tuple(batches), records=records)


def snapshot_bytes(snapshot: SnapshotId) -> bytes:
    """Encode a snapshot for the wire: its records are implied, because there is only one committed log."""
    return b"%d-%d;" % (snapshot.end_offset, snapshot.epoch) * 3


def chunk_of(effect: SendSnapshotChunk, *, known: bool, chunk_bytes: int) -> Message:
    """The response that SendSnapshotChunk asks for, of a node that has the snapshot if it is `known`."""
    response = effect.response
    if not known:
        return replace(response, error=ErrorCode.SNAPSHOT_NOT_FOUND)
    content = snapshot_bytes(response.snapshot)
    if response.position >= len(content):
        return replace(response, error=ErrorCode.POSITION_OUT_OF_RANGE, size=len(content))
    chunk = content[response.position : response.position + min(effect.max_bytes, chunk_bytes)]
    return replace(response, size=len(content), length=len(chunk), chunk=chunk)


def unpack_entries(effect: AppendFetched) -> list[CoreRecord]:
    values = struct.iter_unpack(">q", effect.records)
    return [
        CoreRecord(
            batch.epoch,
            next(values)[0],
            batch.voters.voters if batch.voters is not None and batch.voters.offset == offset else None,
        )
        for batch in effect.batches
        for offset in range(batch.base_offset, batch.end_offset)
    ]
