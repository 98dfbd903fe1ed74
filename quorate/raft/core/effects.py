"""The effects of a step: requests of the core to its driver. The driver carries effects out in order.

A *barrier* (`is_barrier`) is complete (durable) before any later effect of the same or a later step is
carried out. The others may complete later: appends (`AppendProposal`, `AppendFetched`, `AppendLeaderChange`,
`AppendVoters`) by a `Durable` event, `Send` by a response or by `RequestFailed`. The manual of all of
them is the package's docstring.
"""

import enum
from typing import ClassVar, Literal

from quorate.error_code import ErrorCode
from quorate.raft.core.core_config import BatchSpan, Generation
from quorate.raft.core.events import Timer
from quorate.raft.core.messages import FetchResponse, FetchSnapshotResponse, Message
from quorate.types import ElectionState, Epoch, NodeId, Offset, SnapshotId, VoterSet
from quorate.value import value


class Role(enum.Enum):
    """The role of a node in an epoch, with Kafka's names in the metric `current-state`."""

    UNATTACHED = "unattached"
    FOLLOWER = "follower"
    PROSPECTIVE = "prospective"
    CANDIDATE = "candidate"
    LEADER = "leader"
    RESIGNED = "resigned"


class _Barrier:
    __slots__ = ()

    is_barrier: ClassVar[Literal[True]] = True
    """Nothing that comes later is carried out before this is complete."""


class _Other:
    __slots__ = ()

    is_barrier: ClassVar[Literal[False]] = False
    """Later effects need not wait for this one."""


@value(frozen=True, slots=True)
class Persist(_Barrier):
    """Barrier: write the quorum-state file."""

    state: ElectionState


@value(frozen=True, slots=True)
class AppendLeaderChange(_Other):
    """Append a batch with one LeaderChange control record at `base_offset`; if `voter_set` is given, followed
    in the same batch by KRaftVersion and KRaftVoters (the voters are so far only in the bootstrap snapshot),
    which makes three records."""

    generation: Generation
    base_offset: Offset
    epoch: Epoch
    leader: NodeId
    voters: tuple[NodeId, ...]
    granting_voters: tuple[NodeId, ...]
    voter_set: VoterSet | None = None


@value(frozen=True, slots=True)
class AppendVoters(_Other):
    """Append a control batch at `base_offset` with KRaftVoters, after KRaftVersion if `first` (then two
    records: the set was static until now)."""

    generation: Generation
    base_offset: Offset
    epoch: Epoch
    voters: VoterSet
    first: bool


@value(frozen=True, slots=True)
class AppendProposal(_Other):
    """Append the batch that `Propose(proposal)` named, at offsets [base_offset, end_offset)."""

    generation: Generation
    proposal: int
    base_offset: Offset
    end_offset: Offset
    epoch: Epoch


@value(frozen=True, slots=True)
class AppendFetched(_Other):
    """Append the batches of a FetchResponse as they are."""

    generation: Generation
    batches: tuple[BatchSpan, ...]
    records: bytes | memoryview


@value(frozen=True, slots=True)
class RejectProposal(_Other):
    """This node does not lead; nothing was appended."""

    proposal: int
    leader: NodeId | None
    epoch: Epoch


@value(frozen=True, slots=True)
class Truncate(_Barrier):
    """Barrier: cut the log to `end_offset` and forget epochs that start at or above it. Appends of older
    generations that are not yet durable are covered by the cut."""

    generation: Generation
    end_offset: Offset


@value(frozen=True, slots=True)
class Send(_Other):
    message: Message


@value(frozen=True, slots=True)
class SendRecords(_Other):
    """Read whole batches from `start_offset` (up to `max_bytes`, at least one batch, never past the log end)
    and send `response` with them."""

    response: FetchResponse
    start_offset: Offset
    max_bytes: int


@value(frozen=True, slots=True)
class SendSnapshotChunk(_Other):
    """Read up to `max_bytes` of the snapshot that `response` names, from `response.position`, and send it
    with size, length and chunk filled in; or with SNAPSHOT_NOT_FOUND or POSITION_OUT_OF_RANGE."""

    response: FetchSnapshotResponse
    max_bytes: int


@value(frozen=True, slots=True)
class StoreSnapshotChunk(_Other):
    """Write fetched bytes at `position` of the partial snapshot. At position 0 it begins anew, and any other
    partial snapshot is dropped."""

    snapshot: SnapshotId
    position: int
    chunk: bytes | memoryview


@value(frozen=True, slots=True)
class CheckSnapshot(_Other):
    """The partial snapshot has all its bytes: sync it, check it, give it its name, load it beside the running
    state, and answer with `SnapshotChecked` or `SnapshotDamaged`."""

    snapshot: SnapshotId


@value(frozen=True, slots=True)
class InstallSnapshot(_Barrier):
    """Barrier: empty the log and let it begin at the snapshot's end; the state loaded by `CheckSnapshot`
    becomes the state."""

    generation: Generation
    snapshot: SnapshotId


@value(frozen=True, slots=True)
class ArmTimer(_Other):
    """(Re)start a timer with a duration drawn uniformly from [min_ms, max_ms]."""

    timer: Timer
    min_ms: int
    max_ms: int


@value(frozen=True, slots=True)
class CancelTimer(_Other):
    timer: Timer


@value(frozen=True, slots=True)
class HighWatermarkAdvanced(_Other):
    """Everything below `high_watermark` is committed."""

    high_watermark: Offset


@value(frozen=True, slots=True)
class RoleChanged(_Other):
    """The role changed: for the application, the log and the metrics. A leader may be announced to the
    application only when it has applied everything below `epoch_start_offset`."""

    role: Role
    epoch: Epoch
    leader: NodeId | None
    voted: NodeId | None
    epoch_start_offset: Offset | None = None
    """As leader: the offset of its LeaderChange record."""


@value(frozen=True, slots=True)
class VotersChanged(_Other):
    """`ChangeVoters(request)` ended: committed (NONE), or nothing happened and why, or, when `unknown`, this
    node stopped leading before it was known."""

    request: int
    error: ErrorCode
    message: str = ""
    unknown: bool = False


@value(frozen=True, slots=True)
class ReadIndexConfirmed(_Other):
    """This node still led after every `ReadIndex` up to `read_round` was asked for. A state with everything
    below `read_index` applied has all that was committed then."""

    read_round: int
    read_index: Offset


@value(frozen=True, slots=True)
class ReadIndexFailed(_Other):
    """This node does not lead (any more): nothing is known for any `ReadIndex` up to `read_round`."""

    read_round: int
    leader: NodeId | None
    epoch: Epoch


@value(frozen=True, slots=True)
class TransferEnded(_Other):
    """The transfer of leadership failed: the successor is not a voter, or did not catch up within an
    election timeout. This node continues to lead. After a success the role changes to Resigned instead."""

    successor: NodeId
    error: ErrorCode


Effect = (
    Persist
    | AppendLeaderChange
    | AppendVoters
    | AppendProposal
    | AppendFetched
    | RejectProposal
    | Truncate
    | Send
    | SendRecords
    | SendSnapshotChunk
    | StoreSnapshotChunk
    | CheckSnapshot
    | InstallSnapshot
    | ArmTimer
    | CancelTimer
    | HighWatermarkAdvanced
    | RoleChanged
    | VotersChanged
    | ReadIndexConfirmed
    | ReadIndexFailed
    | TransferEnded
)
