"""The state of a replica that follows a leader in one leader epoch. Dies with the epoch."""

from quorate.broker.metadata import PartitionState


class FollowerState:
    """An answer from a leader counts only for the very object that the request was made for: after any change
    of leader or epoch there is another one (KAFKA-13207)."""

    __slots__ = ("in_isr", "leader", "leader_epoch", "partition_epoch")

    def __init__(self, broker_id: int, state: PartitionState) -> None:
        self.leader = state.leader
        self.leader_epoch = state.leader_epoch
        self.partition_epoch = state.partition_epoch
        self.in_isr = broker_id in state.isr

    def update(self, broker_id: int, state: PartitionState) -> bool:
        """Apply a committed change within this epoch. Return False if it is older than the known state, or
        the same."""
        if state.partition_epoch <= self.partition_epoch:
            return False
        self.partition_epoch = state.partition_epoch
        self.in_isr = broker_id in state.isr
        return True
