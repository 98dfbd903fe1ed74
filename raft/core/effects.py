"""What the core asks for. The driver carries effects out in order.

A *barrier* is complete (durable) before any later effect of the same or a later step is carried out. The
others may complete later: `Append` is finished by a `Durable` event, `Send` by a response or by
`RequestFailed`.
"""

import enum
from dataclasses import dataclass

from quorate.raft.core.events import Timer
from quorate.raft.core.messages import FetchResponse, Message
from quorate.raft.core.types import BatchSpan, ElectionState, Epoch, Generation, NodeId, Offset


class Role(enum.Enum):
    """Kafka's names for what a node is doing, as `current-state` shows them."""

    UNATTACHED = "unattached"
    FOLLOWER = "follower"
    PROSPECTIVE = "prospective"
    CANDIDATE = "candidate"
    LEADER = "leader"
    RESIGNED = "resigned"


@dataclass(frozen=True, slots=True)
class Persist:
    """Barrier: write the quorum-state file."""

    state: ElectionState


@dataclass(frozen=True, slots=True)
class AppendLeaderChange:
    """Append a batch with one LeaderChange control record at `base_offset`."""

    generation: Generation
    base_offset: Offset
    epoch: Epoch
    leader: NodeId
    voters: tuple[NodeId, ...]
    granting_voters: tuple[NodeId, ...]


@dataclass(frozen=True, slots=True)
class AppendProposal:
    """Append the batch that `Propose(proposal)` named, at offsets [base_offset, end_offset)."""

    generation: Generation
    proposal: int
    base_offset: Offset
    end_offset: Offset
    epoch: Epoch


@dataclass(frozen=True, slots=True)
class AppendFetched:
    """Append the batches of a FetchResponse as they are."""

    generation: Generation
    batches: tuple[BatchSpan, ...]
    records: bytes | memoryview


@dataclass(frozen=True, slots=True)
class RejectProposal:
    """This node does not lead; nothing was appended."""

    proposal: int
    leader: NodeId | None
    epoch: Epoch


@dataclass(frozen=True, slots=True)
class Truncate:
    """Barrier: cut the log to `end_offset` and forget epochs that start at or above it. Appends of older
    generations that are not yet durable are covered by the cut."""

    generation: Generation
    end_offset: Offset


@dataclass(frozen=True, slots=True)
class Send:
    message: Message


@dataclass(frozen=True, slots=True)
class SendRecords:
    """Read whole batches from `start_offset` (up to `max_bytes`, at least one batch, never past the log end)
    and send `response` with them."""

    response: FetchResponse
    start_offset: Offset
    max_bytes: int


@dataclass(frozen=True, slots=True)
class ArmTimer:
    """(Re)start a timer with a duration drawn uniformly from [min_ms, max_ms]."""

    timer: Timer
    min_ms: int
    max_ms: int


@dataclass(frozen=True, slots=True)
class CancelTimer:
    timer: Timer


@dataclass(frozen=True, slots=True)
class HighWatermarkAdvanced:
    """Everything below `high_watermark` is committed."""

    high_watermark: Offset


@dataclass(frozen=True, slots=True)
class RoleChanged:
    """For the application, the log and the metrics. A leader may be announced to the application only when
    it has applied everything below `epoch_start_offset`."""

    role: Role
    epoch: Epoch
    leader: NodeId | None
    voted: NodeId | None
    epoch_start_offset: Offset | None = None
    """As leader: where its LeaderChange record is."""


Effect = (
    Persist
    | AppendLeaderChange
    | AppendProposal
    | AppendFetched
    | RejectProposal
    | Truncate
    | Send
    | SendRecords
    | ArmTimer
    | CancelTimer
    | HighWatermarkAdvanced
    | RoleChanged
)
