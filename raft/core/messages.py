"""What nodes say to each other: KIP-595's RPCs. Every request gets one response with its correlation.

`source` and `destination` are node ids; a response goes back the way its request came. Responses whose
correlation is not the one in flight to that node are ignored by the receiver.
"""

import enum
from dataclasses import dataclass

from quorate.raft.core.types import BatchSpan, Endpoint, Epoch, EpochEnd, NodeId, Offset, ReplicaKey


class ErrorCode(enum.IntEnum):
    """Kafka's error codes that the quorum's RPCs use."""

    NONE = 0
    NOT_LEADER_OR_FOLLOWER = 6
    BROKER_NOT_AVAILABLE = 8
    INVALID_REQUEST = 42
    FENCED_LEADER_EPOCH = 74
    UNKNOWN_LEADER_EPOCH = 75
    INCONSISTENT_CLUSTER_ID = 104
    INVALID_VOTER_KEY = 125


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    source: NodeId
    destination: NodeId
    correlation: int
    cluster_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    source: NodeId
    destination: NodeId
    correlation: int
    error: ErrorCode = ErrorCode.NONE
    epoch: Epoch
    """The responder's epoch, and the leader it knows in it."""
    leader: NodeId | None = None
    leader_endpoint: Endpoint | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class VoteRequest(Request):
    voter: ReplicaKey
    """Whose vote is asked for."""
    candidate: ReplicaKey
    epoch: Epoch
    """The candidate's epoch; for a pre-vote the epoch it is in, not the next one."""
    last_epoch: Epoch
    """Epoch of the candidate's last record."""
    end_offset: Offset
    """The candidate's log end offset."""
    pre_vote: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class VoteResponse(Response):
    granted: bool = False
    pre_vote: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class BeginQuorumEpochRequest(Request):
    voter: ReplicaKey
    epoch: Epoch
    endpoint: Endpoint | None = None
    """The leader's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BeginQuorumEpochResponse(Response):
    pass


@dataclass(frozen=True, slots=True, kw_only=True)
class EndQuorumEpochRequest(Request):
    epoch: Epoch
    preferred_successors: tuple[NodeId, ...]
    """The other voters, the most up to date first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EndQuorumEpochResponse(Response):
    pass


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchRequest(Request):
    replica: ReplicaKey
    epoch: Epoch
    """The leader's epoch as the follower knows it."""
    offset: Offset
    """The follower's log end offset: everything below it is durable there."""
    last_fetched_epoch: Epoch
    """Epoch of the record below `offset`."""
    max_wait_ms: int
    max_bytes: int
    high_watermark: Offset | None
    """The follower's, so that the leader answers when it has a newer one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchResponse(Response):
    high_watermark: Offset | None = None
    log_start_offset: Offset = Offset(0)
    diverging: EpochEnd | None = None
    batches: tuple[BatchSpan, ...] = ()
    records: bytes | memoryview = b""
    """The batches' bytes. Opaque to the core, which goes by `batches`; the driver has checked CRCs."""


Message = (
    VoteRequest
    | VoteResponse
    | BeginQuorumEpochRequest
    | BeginQuorumEpochResponse
    | EndQuorumEpochRequest
    | EndQuorumEpochResponse
    | FetchRequest
    | FetchResponse
)
