"""A node of a played world: its disk, and the core that runs on it."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from quorate.error_code import ErrorCode
from quorate.raft.core import (
    AppendFetched,
    BatchSpan,
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
    Core,
    EndQuorumEpochRequest,
    EndQuorumEpochResponse,
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    Message,
    Request,
    SendRecords,
    SendSnapshotChunk,
    Timer,
    VoteRequest,
    VoteResponse,
)
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
    VoterSet,
)

SNAPSHOT_BYTES: Final = 2
"""The bytes of every snapshot. They are fetched one by one, so that a fetch goes on."""


@dataclass(frozen=True, slots=True)
class PlayRecord:
    epoch: Epoch
    text: str
    """Empty for a control record."""
    voters: VoterSet | None = None
    """The voters of a KRaftVoters record."""

    @property
    def told(self) -> str:
        if self.voters is not None:
            return f"the voters {', '.join(map(str, self.voters.ids))}"
        return repr(self.text) if self.text else "its LeaderChange record"


@dataclass(frozen=True, slots=True)
class Packet:
    """A message in flight, or waiting at a cut link."""

    id: int
    message: Message
    source: NodeId
    destination: NodeId
    """The node that it is for. The message may name a bootstrap server instead."""
    records: tuple[PlayRecord, ...] = ()
    """The records of a snapshot that a part of is on its way."""

    @property
    def kind(self) -> str:
        return kind_of(self.message)


@dataclass(slots=True)
class PlayNode:
    """`records`, `snapshots` and `election` are on the disk; of the records only those below `synced` survive
    the loss of power. The rest ends with the process."""

    id: NodeId
    election: ElectionState
    records: list[PlayRecord] = field(default_factory=list)
    """All, also those below `log_start`, which only a snapshot still holds: so logs can be compared."""
    synced: Offset = Offset(0)
    directory: str = ""
    formatted: VoterSet | None = None
    """The voters of the snapshot that the disk was formatted with."""
    log_start: Offset = Offset(0)
    snapshots: dict[SnapshotId, tuple[PlayRecord, ...]] = field(default_factory=dict)
    partial: tuple[PlayRecord, ...] | None = None
    """The snapshot that is being fetched."""
    checking: SnapshotId | None = None
    """The snapshot that was fetched and is not checked yet."""
    stores_left: int | None = None
    """The node crashes just before it stores for so many more times. None: it does not."""
    core: Core | None = None
    """None while the node is down."""
    paused: bool = False
    timers: dict[Timer, None] = field(default_factory=dict)
    """Those that are armed, the latest last."""
    awaited: dict[NodeId, int] = field(default_factory=dict)
    """The correlation of the latest request to each peer that is not answered."""
    hopeless: set[NodeId] = field(default_factory=set)
    """The peers whose answer can't come any more, so that the request may time out."""
    proposals: dict[int, str] = field(default_factory=dict)
    high_watermark: Offset = Offset(0)
    processes: int = 0
    stopped_by: str = ""
    """The invariant that the core found broken, by which the node ended itself."""

    def copy(self) -> "PlayNode":
        return replace(
            self,
            records=list(self.records),
            core=None if self.core is None else self.core.clone(),
            timers=dict(self.timers),
            awaited=dict(self.awaited),
            hopeless=set(self.hopeless),
            proposals=dict(self.proposals),
            snapshots=dict(self.snapshots),
        )

    @property
    def key(self) -> ReplicaKey:
        return ReplicaKey(self.id, self.directory)

    @property
    def snapshot(self) -> SnapshotId | None:
        """The latest complete one."""
        return max(self.snapshots, default=None)

    def stop(self) -> None:
        self.core = None
        self.paused = False
        self.partial = self.checking = self.stores_left = None
        self.timers.clear()
        self.awaited.clear()
        self.hopeless.clear()
        self.proposals.clear()

    def wipe(self) -> None:
        """Give the node, which is down, a new disk."""
        self.directory += "-new"
        self.election = ElectionState(Epoch(0))
        self.records.clear()
        self.snapshots.clear()
        self.synced = self.log_start = Offset(0)
        self.formatted = None

    def recovered(self) -> RecoveredLog:
        start, snapshot = self.log_start, self.snapshot
        starts: dict[Epoch, Offset] = {}
        for offset, record in enumerate(self.records[start:], start=start):
            starts.setdefault(record.epoch, Offset(offset))
        above = 0 if snapshot is None else snapshot.end_offset
        held = voters_in(self.records[:above]) or self.formatted
        voters = [] if held is None else [VotersAt(Offset(above - 1), held)]
        voters += [
            VotersAt(Offset(offset), record.voters)
            for offset, record in enumerate(self.records)
            if offset >= above and record.voters is not None
        ]
        return RecoveredLog(
            epochs=tuple(EpochStart(epoch, offset) for epoch, offset in starts.items()),
            log_start_offset=start,
            start_epoch=self.records[start - 1].epoch if start else Epoch(0),
            end_offset=Offset(len(self.records)),
            snapshot=snapshot,
            voters=tuple(voters),
        )

    def with_records(self, effect: SendRecords, most: int) -> Message:
        """Return the answer to a Fetch with at most so many records, each a batch of its own."""
        start = effect.start_offset
        records = self.records[start : start + most]
        spans = tuple(_span(offset, record) for offset, record in enumerate(records, start=start))
        texts = "\n".join(record.text for record in records)
        return replace(effect.response, batches=spans, records=texts.encode())

    def append_fetched(self, effect: AppendFetched) -> list[PlayRecord]:
        texts = bytes(effect.records).decode().split("\n")
        found = [
            PlayRecord(span.epoch, text, None if span.voters is None else span.voters.voters)
            for span, text in zip(effect.batches, texts, strict=True)
        ]
        self.records += found
        return found

    def with_chunk(self, effect: SendSnapshotChunk) -> tuple[Message, tuple[PlayRecord, ...]]:
        """Return the answer to a FetchSnapshot, and the records of the snapshot."""
        response = effect.response
        found = self.snapshots.get(response.snapshot)
        if found is None:
            return replace(response, error=ErrorCode.SNAPSHOT_NOT_FOUND), ()
        if not 0 <= response.position < SNAPSHOT_BYTES:
            return replace(response, error=ErrorCode.POSITION_OUT_OF_RANGE, size=SNAPSHOT_BYTES), ()
        length = min(1, effect.max_bytes)
        return replace(response, size=SNAPSHOT_BYTES, length=length, chunk=b"."[:length]), found

    def install(self, snapshot: SnapshotId) -> None:
        """Replace the log by the snapshot."""
        self.records = list(self.snapshots[snapshot])
        self.synced = Offset(len(self.records))
        self.trim(snapshot)

    def trim(self, snapshot: SnapshotId) -> None:
        """Begin the log where the snapshot ends, and remove older ones."""
        self.log_start = snapshot.end_offset
        self.snapshots = {each: kept for each, kept in self.snapshots.items() if each >= snapshot}


def voters_in(records: Sequence[PlayRecord]) -> VoterSet | None:
    """Return the last voter set in them."""
    return next((record.voters for record in reversed(records) if record.voters is not None), None)


def _span(offset: int, record: PlayRecord) -> BatchSpan:
    voters = None if record.voters is None else VotersAt(Offset(offset), record.voters)
    return BatchSpan(Offset(offset), Offset(offset + 1), record.epoch, voters)


def kind_of(message: Message) -> str:
    """Return the name of a message's kind, by which steps name it."""
    match message:
        case VoteRequest():
            return "pre-vote" if message.pre_vote else "vote"
        case VoteResponse():
            return "pre-vote answer" if message.pre_vote else "vote answer"
        case BeginQuorumEpochRequest():
            return "begin epoch"
        case BeginQuorumEpochResponse():
            return "begin epoch answer"
        case EndQuorumEpochRequest():
            return "end epoch"
        case EndQuorumEpochResponse():
            return "end epoch answer"
        case FetchRequest():
            return "fetch"
        case FetchResponse():
            return "fetch answer"
        case FetchSnapshotRequest():
            return "fetch snapshot"
        case FetchSnapshotResponse():
            return "fetch snapshot answer"


def describe(message: Message) -> str:
    """Return what a message says, in a few words."""
    match message:
        case VoteRequest():
            ask = "could I win" if message.pre_vote else "vote for me in"
            return f"{ask} epoch {message.epoch}? my log ends at {message.end_offset}"
        case VoteResponse():
            return f"{'yes' if message.granted else 'no'}, I am in epoch {message.epoch}"
        case BeginQuorumEpochRequest():
            return f"I lead epoch {message.epoch}"
        case EndQuorumEpochRequest():
            return f"I no longer lead epoch {message.epoch}"
        case FetchRequest():
            return f"give me offset {message.offset}; mine before is of epoch {message.last_fetched_epoch}"
        case FetchResponse() if message.diverging is not None:
            end = message.diverging
            return f"our logs differ: epoch {end.epoch} ends at {end.end_offset} here"
        case FetchResponse() if message.snapshot is not None:
            return f"load the snapshot up to offset {message.snapshot.end_offset} first"
        case FetchResponse() if len(message.batches) == 1:
            (span,) = message.batches
            return (
                f"offset {span.base_offset} of epoch {span.epoch}; committed is {message.high_watermark or 0}"
            )
        case FetchResponse() if message.batches:
            first, last = message.batches[0], message.batches[-1]
            committed = message.high_watermark or 0
            return f"offsets {first.base_offset} to {last.base_offset}; committed is {committed}"
        case FetchResponse() if message.error:
            return f"{message.error.name}; the leader of epoch {message.epoch} is {message.leader or '?'}"
        case FetchResponse():
            return f"nothing new; committed is {message.high_watermark or 0}"
        case FetchSnapshotRequest():
            snapshot = message.snapshot
            return f"give me the snapshot up to offset {snapshot.end_offset}, from byte {message.position}"
        case FetchSnapshotResponse() if message.error:
            return f"{message.error.name}; the leader of epoch {message.epoch} is {message.leader or '?'}"
        case FetchSnapshotResponse():
            return f"bytes {message.position} to {message.position + message.length} of {message.size}"
        case Request():
            return ""
        case _:
            return "understood"
