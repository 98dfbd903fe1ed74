"""A node of a played world: its disk, and the core that runs on it."""

from dataclasses import dataclass, field, replace

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
    Message,
    Request,
    SendRecords,
    Timer,
    VoteRequest,
    VoteResponse,
)
from quorate.types import ElectionState, Epoch, EpochStart, NodeId, Offset, RecoveredLog


@dataclass(frozen=True, slots=True)
class PlayRecord:
    epoch: Epoch
    text: str
    """Empty for a LeaderChange record."""


@dataclass(frozen=True, slots=True)
class Packet:
    """A message in flight, or waiting at a cut link."""

    id: int
    message: Message

    @property
    def kind(self) -> str:
        return kind_of(self.message)


@dataclass(slots=True)
class PlayNode:
    """`records` and `election` are on the disk; of the records only those below `synced` survive the loss of
    power. The rest ends with the process."""

    id: NodeId
    election: ElectionState
    records: list[PlayRecord] = field(default_factory=list)
    synced: Offset = Offset(0)
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
        )

    def stop(self) -> None:
        self.core = None
        self.paused = False
        self.timers.clear()
        self.awaited.clear()
        self.hopeless.clear()
        self.proposals.clear()

    def recovered(self) -> RecoveredLog:
        epochs = [record.epoch for record in self.records]
        starts = (EpochStart(epoch, Offset(epochs.index(epoch))) for epoch in dict.fromkeys(epochs))
        return RecoveredLog(epochs=tuple(starts), end_offset=Offset(len(epochs)))

    def with_record(self, effect: SendRecords) -> Message:
        """Return the answer to a Fetch with one record, so that each is seen on its way."""
        offset = effect.start_offset
        record = self.records[offset]
        span = BatchSpan(offset, Offset(offset + 1), record.epoch)
        return replace(effect.response, batches=(span,), records=record.text.encode())

    def append_fetched(self, effect: AppendFetched) -> PlayRecord:
        (span,) = effect.batches
        record = PlayRecord(span.epoch, bytes(effect.records).decode())
        self.records.append(record)
        return record


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
        case _:
            raise NotImplementedError(f"teaching mode has no snapshots: {message}")


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
        case FetchResponse() if message.batches:
            (span,) = message.batches
            return (
                f"offset {span.base_offset} of epoch {span.epoch}; committed is {message.high_watermark or 0}"
            )
        case FetchResponse() if message.error:
            return f"{message.error.name}; the leader of epoch {message.epoch} is {message.leader or '?'}"
        case FetchResponse():
            return f"nothing new; committed is {message.high_watermark or 0}"
        case Request():
            return ""
        case _:
            return "understood"
