"""What the core is told. One event at a time goes into `step`."""

import enum
from dataclasses import dataclass

from quorate.raft.core.messages import Message
from quorate.raft.core.types import Generation, NodeId, Offset


class TimerKind(enum.Enum):
    ELECTION = "election"
    """An election (or pre-vote round, or wait of an unattached or resigned node) took too long."""
    FETCH = "fetch"
    """Nothing was heard from the leader."""
    CHECK_QUORUM = "check-quorum"
    """The leader has not been fetched from by a majority."""
    BEGIN_QUORUM = "begin-quorum"
    """Time to tell the voters that have not fetched lately who leads."""
    FETCH_WAIT = "fetch-wait"
    """A parked Fetch of `Timer.node` has waited for as long as it asked to."""
    BACKOFF = "backoff"
    """`Timer.node` may be asked again."""


@dataclass(frozen=True, slots=True)
class Timer:
    kind: TimerKind
    node: NodeId | None = None


@dataclass(frozen=True, slots=True)
class Received:
    """A message arrived. For a FetchResponse the driver has checked each batch's CRC."""

    message: Message


@dataclass(frozen=True, slots=True)
class RequestFailed:
    """No response came: the connection broke, or the request timed out."""

    destination: NodeId
    correlation: int


@dataclass(frozen=True, slots=True)
class Unreachable:
    """The connection to `node` broke and could not be opened again at once."""

    node: NodeId


@dataclass(frozen=True, slots=True)
class Durable:
    """The local log is durable below `end_offset`."""

    generation: Generation
    end_offset: Offset


@dataclass(frozen=True, slots=True)
class TimerFired:
    timer: Timer


@dataclass(frozen=True, slots=True)
class Propose:
    """Append one batch of `count` records, if this node leads. `proposal` is the driver's name for it."""

    proposal: int
    count: int


@dataclass(frozen=True, slots=True)
class Resign:
    """Stop leading and let a successor be elected (shutdown, or the application gave up)."""


Event = Received | RequestFailed | Unreachable | Durable | TimerFired | Propose | Resign
