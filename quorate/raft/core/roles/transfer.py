"""Leadership transferred to a chosen voter, without a gap longer than an election."""

from quorate.error_code import ErrorCode
from quorate.raft.core.cloning import Cloneable
from quorate.raft.core.effects import ArmTimer, TransferEnded
from quorate.raft.core.roles.tracker import Replicas
from quorate.raft.core.shared_state import TRANSFER, NodeState
from quorate.types import NodeId, Offset


class Transfer(Cloneable):
    """Waits for the successor to have the whole log, for an election timeout at most."""

    __slots__ = ("successor",)

    def __init__(self) -> None:
        self.successor: NodeId | None = None
        """The chosen successor. None: no transfer is under way."""

    def ask(self, node: NodeState, replicas: Replicas, successor: NodeId) -> None:
        """Begin a transfer in place of a running one. The successor must be another voter that fetches,
        because appends wait meanwhile."""
        follower = replicas.followers.get(successor)
        if follower is None or not follower.is_alive:
            error = ErrorCode.INVALID_VOTER_KEY if follower is None else ErrorCode.REQUEST_TIMED_OUT
            node.out.append(TransferEnded(successor, error))
            return
        if self.successor is not None:
            node.out.append(TransferEnded(self.successor, ErrorCode.REQUEST_TIMED_OUT))
        self.successor = successor
        timeout_ms = node.config.election_timeout_ms
        node.out.append(ArmTimer(TRANSFER, timeout_ms, timeout_ms))

    def is_due(self, node: NodeState, replicas: Replicas, *, high_watermark: Offset | None) -> bool:
        """True if the successor has the whole log, and all of it is committed and durable on the leader."""
        if self.successor is None:
            return False
        end = node.log.end_offset
        successor = replicas.followers.get(self.successor)
        return (
            successor is not None
            and successor.end_offset == end
            and high_watermark == end
            and node.log.is_durable
        )

    def give_up(self, node: NodeState) -> None:
        if self.successor is not None:
            node.out.append(TransferEnded(self.successor, ErrorCode.REQUEST_TIMED_OUT))
            self.successor = None
