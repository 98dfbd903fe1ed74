"""The state of a core that may be read from outside."""

from collections.abc import Mapping

from quorate.error_code import ErrorCode
from quorate.raft.core.core_config import Generation
from quorate.raft.core.effects import Role
from quorate.raft.core.events import VoterChange
from quorate.raft.core.role_holder import RoleHolder
from quorate.raft.core.roles import Leader, Refused
from quorate.types import ElectionState, Endpoint, Epoch, NodeId, Offset, ReplicaKey, SnapshotId, VoterSet


class Observable(RoleHolder):
    """Values, or copies: nothing here changes anything."""

    __slots__ = ()

    @property
    def node_id(self) -> NodeId:
        return self._node.id

    @property
    def role(self) -> Role:
        return self._role.role

    @property
    def epoch(self) -> Epoch:
        return self._node.epoch

    @property
    def leader(self) -> NodeId | None:
        """The leader of this epoch, if known. None once this node has resigned from it."""
        return self._node.leader

    @property
    def leader_endpoint(self) -> Endpoint | None:
        return self._node.leader_endpoint

    @property
    def voted(self) -> ReplicaKey | None:
        return self._node.election.voted

    @property
    def election(self) -> ElectionState:
        return self._node.election

    @property
    def log_start_offset(self) -> Offset:
        return self._node.log.start_offset

    @property
    def log_end_offset(self) -> Offset:
        return self._node.log.end_offset

    @property
    def log_end_epoch(self) -> Epoch:
        return self._node.log.last_epoch

    @property
    def durable_end_offset(self) -> Offset:
        return self._node.log.durable_end_offset

    @property
    def generation(self) -> Generation:
        return self._node.log.generation

    @property
    def high_watermark(self) -> Offset | None:
        """The highest known since the process started (exclusive), at least the end of the latest snapshot;
        None before the first."""
        return self._node.high_watermark

    @property
    def epoch_start_offset(self) -> Offset | None:
        """On the leader: the offset of this epoch's LeaderChange record."""
        return self._role.epoch_start_offset if isinstance(self._role, Leader) else None

    @property
    def snapshot(self) -> SnapshotId | None:
        """The latest complete one of this node's log."""
        return self._node.log.snapshot

    @property
    def voters(self) -> VoterSet:
        """The latest in the log, committed or not; that of the configuration if the log has none."""
        return self._node.voters

    @property
    def has_dynamic_voters(self) -> bool:
        """True if the voter set is in the log (kraft.version 1)."""
        return self._node.log.voters.is_dynamic

    def voters_at(self, end_offset: Offset) -> VoterSet | None:
        """The set that a snapshot ending at `end_offset` must hold; None at kraft.version 0. Known from the
        log start on."""
        return self._node.log.voters.at(end_offset)

    def endpoint_of(self, node: NodeId) -> Endpoint | None:
        """Return the endpoint of `node`: a voter, the leader, or a bootstrap server, whose ids are -2, -3,
        ..."""
        return self._node.endpoint_of(node)

    @property
    def is_voter(self) -> bool:
        return self._node.is_voter

    def refusal_of(self, change: VoterChange) -> Refused | None:
        """Why `ChangeVoters` would be refused now; None if it would not."""
        if isinstance(self._role, Leader):
            return self._role.refusal_of(self._node, change)
        return Refused(ErrorCode.NOT_LEADER_OR_FOLLOWER, "this node does not lead; ask the leader")

    def replica_end_offsets(self) -> Mapping[ReplicaKey, Offset]:
        """On the leader: each replica's last valid fetch offset, and its own durable end. Otherwise empty."""
        return self._role.replica_end_offsets(self._node) if isinstance(self._role, Leader) else {}
