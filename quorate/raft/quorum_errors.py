"""The errors of a quorum, grouped by the action that their user can take."""

from quorate.error_code import ErrorCode
from quorate.types import Endpoint, Epoch, NodeId, Offset, SnapshotId


class QuorumError(Exception):
    """The root of all errors of the quorum. Each subclass states whether anything happened."""


class NotLeaderError(QuorumError):
    """Nothing happened: this node is not the leader. `leader` is, in `epoch`. None: no leader is known, or
    none was heard within the fetch timeout. The message states for how long."""

    def __init__(
        self,
        *,
        leader: NodeId | None,
        epoch: Epoch,
        endpoint: Endpoint | None = None,
        problem: str | None = None,
    ) -> None:
        """`problem`: the reason why no leader is known."""
        self.leader = leader
        self.epoch = epoch
        self.endpoint = endpoint
        who = f"node {leader} leads" if leader is not None else problem or "nobody is known to lead"
        super().__init__(f"this node does not lead; {who} in epoch {epoch}")


class LeaderNotFoundError(NotLeaderError):
    """Nothing happened: a client found no leader among its addresses in time. The message names each of them
    and the reason."""

    def __init__(self, message: str) -> None:
        super().__init__(leader=None, epoch=Epoch(0))
        self.args = (message,)


class OutcomeUnknownError(QuorumError):
    """The operation may have happened, or may still happen: no answer came in time, or the leader changed or
    this node stopped before the commit. The message also names the case in which the append is committed but
    its result is not known here. A retry may append the records a second time."""


class QuorumStoppedError(QuorumError):
    """Nothing happened and nothing will: the quorum on this node has stopped or is stopping. `__cause__` is
    the error that stopped it. An earlier operation that may still happen ends in `OutcomeUnknownError`
    instead."""


class QuorumBusyError(QuorumError):
    """Nothing happened: the queue of appends (`max_pending_bytes`) was full until the timeout. Retry later,
    with fewer at once."""


class InvalidAppendError(QuorumError):
    """Nothing happened: the append is empty, too large or not made of bytes, or the leader's state machine
    refused it (`check`)."""


class SessionLostError(QuorumError):
    """Nothing happened: the session is not open. It was closed, or ended because it was idle for too long or
    because there were too many. Open another."""


class SessionWindowError(QuorumError):
    """The append was not applied: its sequence number is outside of the session's window. Below it, an
    earlier append with this number may have been, and its answer is forgotten. The message says which."""


class OffsetGoneError(QuorumError):
    """The records from an offset on are no longer known: a snapshot has taken their place. `earliest` is the
    first offset that can still be watched on the leader. Read the state, which has what came before, and
    watch from there."""

    def __init__(self, offset: Offset, *, earliest: Offset) -> None:
        self.earliest = earliest
        super().__init__(
            f"the records from offset {offset} on are gone, and the first that are left begin at {earliest}; "
            "read the state, which has what came before, and watch from there"
        )


class QuorumForkedError(QuorumError):
    """Nothing happened: this process is a fork of the one that opened the quorum, or the client. Its tasks,
    threads and connections run only there."""


class QuorumThreadError(QuorumError):
    """Nothing happened: a call that waits was made on the quorum's own thread, such as by `apply`, and would
    wait for itself."""


class InvalidArgumentError(QuorumError, ValueError):
    """Nothing happened: an argument is invalid. The message names the argument and the remedy."""


class RequestRefusedError(QuorumError):
    """Nothing happened: the leader refused a change of the voters (KIP-853), a transfer of leadership or a
    request of a client. `code` is Kafka's error code. The message names the remedy."""

    def __init__(self, code: ErrorCode, message: str) -> None:
        self.code = code
        super().__init__(message)


class StateMachineError(QuorumError):
    """The user's state machine raised an error. The node stops, because its state would otherwise differ from
    other nodes'."""

    def __init__(self, message: str, *, offset: int, epoch: Epoch) -> None:
        super().__init__(message)
        self.offset = offset
        """The base offset of the batch that was being applied, or the end offset of the snapshot."""
        self.epoch = epoch
        """The epoch of that batch, or of the last record in the snapshot."""


class StatesDifferError(QuorumError):
    """The state of this node differs from the one that a majority of the voters has after the same records.
    The node stops, because it would answer reads with what never was."""

    def __init__(self, message: str, *, snapshot: SnapshotId) -> None:
        super().__init__(message)
        self.snapshot = snapshot
        """The snapshot whose states differ: those after the records below its end offset."""


class SkipRefusedError(QuorumError):
    """Nothing happened: no batch of this offset and epoch can be skipped. It differs from the log, or the
    node has already applied it. The message says which."""


class RestoreRefusedError(QuorumError):
    """Nothing happened: the snapshot can't be restored into this folder. The message says why."""


class SnapshotNotTakenError(QuorumError):
    """No snapshot was taken, and the node continues. `__cause__` is the error of the state machine or the
    disk, if one was raised."""


class PeerProtocolError(QuorumError):
    """A peer sent bytes that are not this protocol. The node closes the connection."""


class QuorumConfigError(QuorumError):
    """The configuration is invalid. The message names the field and the remedy."""
