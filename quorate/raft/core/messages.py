"""The messages between nodes: KIP-595's RPCs. Every request gets one response with its
correlation.

`source` and `destination` are node ids; a response goes back the way its request came. Responses whose
correlation is not the one in flight to that node are ignored by the receiver.
"""

from typing import Annotated, TypeAlias

from quorate.bounds import Integer, Most
from quorate.error_code import ErrorCode
from quorate.raft.core.core_config import BatchSpan
from quorate.types import MAX_VOTERS, Endpoint, Epoch, EpochEnd, NodeId, Offset, ReplicaKey, SnapshotId
from quorate.value import value

Int32: TypeAlias = Annotated[int, Integer(low=0)]
Destination: TypeAlias = Annotated[NodeId, Integer()]
"""A node id. Below 0: any node that listens at the address, which is all that the sender knows of it."""


@value(frozen=True, slots=True, kw_only=True)
class Request:
    source: NodeId
    destination: Destination
    correlation: int
    cluster_id: str


@value(frozen=True, slots=True, kw_only=True)
class Response:
    source: NodeId
    destination: Destination
    correlation: int
    error: ErrorCode = ErrorCode.NONE
    epoch: Epoch
    """The responder's epoch. `leader` is the one that it knows in this epoch."""
    leader: NodeId | None = None
    leader_endpoint: Endpoint | None = None


@value(frozen=True, slots=True, kw_only=True)
class VoteRequest(Request):
    voter: ReplicaKey
    """The voter that is asked for its vote."""
    candidate: ReplicaKey
    epoch: Epoch
    """The candidate's epoch; for a pre-vote the epoch it is in, not the next one."""
    last_epoch: Epoch
    """The epoch of the candidate's last record."""
    end_offset: Offset
    """The candidate's log end offset."""
    pre_vote: bool = False
    leader_resigned: bool = False
    """In a pre-vote: the leader of `epoch` told the candidate that it resigned. So a voter that heard that
    leader a moment ago need not refuse (KAFKA-20895)."""


@value(frozen=True, slots=True, kw_only=True)
class VoteResponse(Response):
    granted: bool = False
    pre_vote: bool = False


@value(frozen=True, slots=True, kw_only=True)
class BeginQuorumEpochRequest(Request):
    voter: ReplicaKey
    epoch: Epoch
    endpoint: Endpoint | None = None
    """The leader's endpoint."""


@value(frozen=True, slots=True, kw_only=True)
class BeginQuorumEpochResponse(Response):
    pass


@value(frozen=True, slots=True, kw_only=True)
class EndQuorumEpochRequest(Request):
    epoch: Epoch
    preferred_successors: Annotated[tuple[Annotated[NodeId, Integer(bits=64, low=0)], ...], Most(MAX_VOTERS)]
    """The other voters, the most up to date first."""


@value(frozen=True, slots=True, kw_only=True)
class EndQuorumEpochResponse(Response):
    pass


@value(frozen=True, slots=True, kw_only=True)
class FetchRequest(Request):
    replica: ReplicaKey
    epoch: Epoch
    """The leader's epoch as the follower knows it."""
    offset: Offset
    """The follower's log end offset: everything below it is durable there."""
    last_fetched_epoch: Epoch
    """The epoch of the record below `offset`."""
    max_wait_ms: Int32
    max_bytes: Int32
    high_watermark: Offset | None
    """The follower's high watermark. The leader answers as soon as it has a higher one."""
    read_round: int = 0
    """The read-index round in this leader's last answer of this epoch; 0 if none."""
    lease_time_ms: int = 0
    """The `lease_time_ms` of this leader's last answer of this epoch; 0 if none."""
    promise_ms: Int32 = 0
    """From the receipt of that answer on, the follower elects nobody for this time."""


@value(frozen=True, slots=True, kw_only=True)
class FetchResponse(Response):
    high_watermark: Offset | None = None
    log_start_offset: Offset = Offset(0)
    diverging: EpochEnd | None = None
    snapshot: SnapshotId | None = None
    """The snapshot to load with FetchSnapshot, before the next Fetch from its end: the asked offset is below
    the log start, or at the beginning of a long log."""
    read_round: int = 0
    """The leader's latest read-index round that is under way, to be echoed by the next Fetch; 0 if none."""
    batches: tuple[BatchSpan, ...] = ()
    lease_time_ms: int = 0
    """The leader's time at this answer, for the next Fetch to return; 0 if it takes no read leases."""
    records: bytes | memoryview = b""
    """The bytes of the batches. The core reads only `batches`; the driver has checked the CRCs."""


@value(frozen=True, slots=True, kw_only=True)
class FetchSnapshotRequest(Request):
    replica: ReplicaKey
    epoch: Epoch
    """The leader's epoch as the follower knows it."""
    snapshot: SnapshotId
    position: int
    """The number of bytes of it that the follower has."""
    max_bytes: Int32


@value(frozen=True, slots=True, kw_only=True)
class FetchSnapshotResponse(Response):
    snapshot: SnapshotId
    size: int = 0
    """The size of the whole snapshot in bytes."""
    position: int = 0
    """The position of the first byte of `chunk`."""
    length: int = 0
    """The number of bytes in `chunk`. The core does not read the bytes."""
    chunk: bytes | memoryview = b""


Message = (
    VoteRequest
    | VoteResponse
    | BeginQuorumEpochRequest
    | BeginQuorumEpochResponse
    | EndQuorumEpochRequest
    | EndQuorumEpochResponse
    | FetchRequest
    | FetchResponse
    | FetchSnapshotRequest
    | FetchSnapshotResponse
)
