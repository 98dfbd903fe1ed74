"""The events that a driver passes to `step`, one at a time."""

import enum
from typing import NamedTuple

from quorate.raft.core.core_config import Generation
from quorate.raft.core.messages import Message
from quorate.types import Epoch, EpochEnd, NodeId, Offset, ReplicaKey, SnapshotId, Voter, VoterSet
from quorate.value import value


class TimerKind(enum.Enum):
    __hash__ = object.__hash__  # Enum's own is a call into Python, for every look-up of a timer

    ELECTION = "election"
    """An election (or pre-vote round, or wait of an unattached or resigned node) took too long."""
    FETCH = "fetch"
    """Nothing was heard from the leader."""
    CHECK_QUORUM = "check-quorum"
    """The leader has not been fetched from by a majority."""
    BEGIN_QUORUM = "begin-quorum"
    """A period of the leader ends. It names itself to voters that did not fetch in it, and observers that
    were silent for long have to catch up again."""
    FETCH_WAIT = "fetch-wait"
    """A parked Fetch of `Timer.node` has waited for as long as it asked to."""
    BACKOFF = "backoff"
    """`Timer.node` may be asked again."""
    TRANSFER = "transfer"
    """The chosen successor has not caught up."""
    PROMISE = "promise"
    """The promise of read leases has ended: this node may stand for election and vote again."""


class Timer(NamedTuple):
    kind: TimerKind
    node: NodeId | None = None


@value(frozen=True, slots=True)
class Received:
    """A message arrived. For a FetchResponse the driver has checked each batch's CRC."""

    message: Message


@value(frozen=True, slots=True)
class RequestFailed:
    """No response came: the connection broke, or the request timed out."""

    destination: NodeId
    correlation: int


@value(frozen=True, slots=True)
class Unreachable:
    """The connection to `node` broke and could not be opened again at once."""

    node: NodeId


@value(frozen=True, slots=True)
class Durable:
    """The local log is durable below `end_offset`."""

    generation: Generation
    end_offset: Offset


@value(frozen=True, slots=True)
class CommitHeard:
    """The leader of `epoch` answered an append of ours: everything below `end_offset` is committed. A Fetch
    would tell, and may take `high_watermark_wait_ms` longer."""

    epoch: Epoch
    end_offset: Offset


@value(frozen=True, slots=True)
class TimerFired:
    timer: Timer


@value(frozen=True, slots=True)
class Propose:
    """Append one batch of `count` records, if this node leads. `proposal` is the driver's name for it."""

    proposal: int
    count: int


@value(frozen=True, slots=True)
class Resign:
    """Stop leading and let a successor be elected (shutdown, or the application gave up)."""


@value(frozen=True, slots=True)
class TransferLeadership:
    """Resign so that `successor` is elected, once it has the whole log and all of it is committed. Nothing
    may be proposed from here to the `TransferEnded` that follows, or the loss of leadership."""

    successor: NodeId


@value(frozen=True, slots=True)
class ReadIndex:
    """Find out whether this node still leads, after now. `read_round` is the driver's name for it, larger
    than any before."""

    read_round: int


@value(frozen=True, slots=True)
class AddVoter:
    voter: Voter


@value(frozen=True, slots=True)
class RemoveVoter:
    """Remove exactly this voter: the directory id must match."""

    key: ReplicaKey


@value(frozen=True, slots=True)
class UpdateVoter:
    """The endpoint of a voter has changed. Its key has not."""

    voter: Voter


@value(frozen=True, slots=True)
class AdoptVoters:
    """Write the static voter set into the log, with the directory ids that the voters fetch with. From then
    on it is changed by the events above (the upgrade to kraft.version 1)."""


VoterChange = AddVoter | RemoveVoter | UpdateVoter | AdoptVoters


@value(frozen=True, slots=True)
class ChangeVoters:
    """Ask the leader for one change of the voter set. Answered by `VotersChanged` with `request`."""

    request: int
    change: VoterChange


@value(frozen=True, slots=True)
class SnapshotTaken:
    """A snapshot of this node's state is complete and durable. Its end is at or below the high watermark and
    the durable end, and the end of a batch."""

    snapshot: SnapshotId


@value(frozen=True, slots=True)
class LogStartMoved:
    """The log now begins at `start.end_offset`, the end of a snapshot, whose last record is of
    `start.epoch`. Told before the files below are removed."""

    start: EpochEnd


@value(frozen=True, slots=True)
class SnapshotChecked:
    """The outcome of `CheckSnapshot`: the fetched snapshot is whole and durable. `voters`: those in it, None
    if it has none (kraft.version 0)."""

    snapshot: SnapshotId
    voters: VoterSet | None


@value(frozen=True, slots=True)
class SnapshotDamaged:
    """The outcome of `CheckSnapshot`: the snapshot is damaged, and was removed."""

    snapshot: SnapshotId


Event = (
    Received
    | RequestFailed
    | Unreachable
    | Durable
    | CommitHeard
    | TimerFired
    | Propose
    | Resign
    | TransferLeadership
    | ReadIndex
    | ChangeVoters
    | SnapshotTaken
    | LogStartMoved
    | SnapshotChecked
    | SnapshotDamaged
)
