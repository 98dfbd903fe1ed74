"""Whether a node takes part in a quorum that works, and if not, why."""

from dataclasses import asdict, dataclass

from quorate.raft.core import Role
from quorate.types import Epoch, NodeId, Offset


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """One node's, at one moment, from what it knows by itself: nobody is asked.

    Healthy is a node that serves: it runs, and has heard its leader within the fetch timeout
    (`CoreConfig.fetch_timeout_ms`), or leads and has heard a majority of the voters, and applied what earlier
    leaders committed. How far behind its state is, `staleness_ms` says.
    """

    healthy: bool
    reason: str | None
    """Why not; None if healthy."""
    node_id: NodeId
    role: Role
    leader: NodeId | None
    """As `Quorum.leader`."""
    epoch: Epoch
    applied_offset: Offset
    """Exclusive."""
    staleness_ms: int | None
    """As `Quorum.staleness_ms`."""

    def as_dict(self) -> dict[str, object]:
        """For JSON."""
        return {**asdict(self), "role": self.role.value}
