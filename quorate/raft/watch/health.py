"""The health of a node: whether it takes part in a working quorum, and if not, the reason."""

from dataclasses import asdict, dataclass

from quorate.raft.core import Role
from quorate.types import Epoch, NodeId, Offset


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """The health of one node at one moment. The node computes it without asking others.

    A healthy node is running and follows a leader that it heard within the fetch timeout
    (`CoreConfig.fetch_timeout_ms`), or leads, has heard a majority of the voters within it, and has applied
    everything that earlier leaders committed. `staleness_ms` bounds how old its state is.
    """

    healthy: bool
    reason: str | None
    """Why the node is not healthy. None: it is."""
    node_id: NodeId
    role: Role
    leader: NodeId | None
    """The same as `Quorum.leader`."""
    epoch: Epoch
    applied_offset: Offset
    """The first offset that this node has not applied (exclusive end)."""
    staleness_ms: int | None
    """The same as `Quorum.staleness_ms`."""

    def as_dict(self) -> dict[str, object]:
        """Return the fields as a dictionary that `json.dumps` accepts."""
        return {**asdict(self), "role": self.role.value}
