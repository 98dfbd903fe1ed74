"""What can go wrong for a user of the quorum, branched by what the user can do about it."""

from quorate.error_code import ErrorCode
from quorate.types import Endpoint, Epoch, NodeId


class QuorumError(Exception):
    """Root of all errors of the quorum."""


class NotLeaderError(QuorumError):
    """Nothing happened: this node does not lead. `leader` (None when unknown, or not heard for the fetch
    timeout) does, in `epoch`; the message says for how long nobody was heard."""

    def __init__(
        self,
        *,
        leader: NodeId | None,
        epoch: Epoch,
        endpoint: Endpoint | None = None,
        problem: str | None = None,
    ) -> None:
        """`problem`: why no leader is known, in place of that none is."""
        self.leader = leader
        self.epoch = epoch
        self.endpoint = endpoint
        who = f"node {leader} leads" if leader is not None else problem or "nobody is known to lead"
        super().__init__(f"this node does not lead; {who} in epoch {epoch}")


class OutcomeUnknownError(QuorumError):
    """It may have happened, now or later: the append was sent and no answer came in time, or leadership
    was lost, or this node stopped, before it committed, or (as the message says) it was committed, and its
    result is not known here.
    A retry may append it a second time."""


class QuorumStoppedError(QuorumError):
    """Nothing happened, and nothing will: the quorum on this node has stopped, or is about to. `__cause__`
    says why when it was not asked to. What was asked for earlier and may be done all the same ends in
    `OutcomeUnknownError`."""


class QuorumBusyError(QuorumError):
    """Nothing happened: appends of `max_pending_bytes` waited for their commit all the time. Try again later,
    with less at once."""


class InvalidAppendError(QuorumError):
    """The append was refused before anything happened: it is empty, too large, not made of bytes, or the
    leader's state machine refuses it (`check`)."""


class QuorumForkedError(QuorumError):
    """Nothing happened: this process was forked off the one that opened the quorum, whose tasks, threads and
    connections don't run here."""


class InvalidArgumentError(QuorumError, ValueError):
    """Nothing happened: an argument of the call can't mean anything; the message names it and the remedy."""


class RequestRefusedError(QuorumError):
    """Nothing happened: the leader refused a change of the voters (KIP-853) or a transfer of leadership.
    `code` is Kafka's, and the message says what to do."""

    def __init__(self, code: ErrorCode, message: str) -> None:
        self.code = code
        super().__init__(message)


class StateMachineError(QuorumError):
    """The user's state machine raised. The node stops, since it can't go on without diverging."""

    def __init__(self, message: str, *, offset: int, epoch: Epoch) -> None:
        super().__init__(message)
        self.offset = offset
        """Base offset of the batch that was being applied; of a snapshot, its end offset."""
        self.epoch = epoch
        """Of that batch, or of the last record that the snapshot holds."""


class SkipRefusedError(QuorumError):
    """Nothing happened: the batch that `skip_batch` was to leave out is not what its offset and epoch say, or
    the node is past it. The message says which."""


class SnapshotNotTakenError(QuorumError):
    """There is no new snapshot, and the node goes on. The message says why, and `__cause__` what was raised,
    by the state machine or the disk."""


class PeerProtocolError(QuorumError):
    """The other end of a connection does not speak this protocol; the connection is closed."""


class QuorumConfigError(QuorumError):
    """The configuration can't work; the message names the field and the remedy."""
