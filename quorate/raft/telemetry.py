"""The interface of a quorum's observers, such as its metrics."""

from typing import Protocol

from quorate.raft.core import Role
from quorate.types import Epoch, NodeId, Offset


class Telemetry(Protocol):
    """Observes a quorum. The quorum calls it on its own task, so no method may block.
    `quorate.metrics.RaftMetrics` implements it."""

    def booted(self, timestamp_ms: int) -> None:
        """The node started at `timestamp_ms`, in ms since the Unix epoch."""
        ...

    def role_changed(
        self, role: Role, *, is_voter: bool, epoch: Epoch, leader: NodeId | None, voted: NodeId | None
    ) -> None:
        """The node took this role, or learned a new epoch, leader or vote."""
        ...

    def log_end_offset(self, end_offset: Offset, epoch: Epoch) -> None:
        """The local log ends at `end_offset` (exclusive). Its last record has this epoch."""
        ...

    def high_watermark(self, offset: Offset) -> None:
        """The high watermark moved to `offset` (exclusive)."""
        ...

    def unknown_voter_connections(self, count: int) -> None:
        """This node knows no endpoint of `count` voters."""
        ...

    def election_finished(self, seconds: float) -> None:
        """An election ended after `seconds`: from candidacy until this node led or knew another leader."""
        ...

    def committed(self, seconds: float, records: int) -> None:
        """The leader committed these records `seconds` after it had appended them."""
        ...

    def records_fetched(self, count: int) -> None:
        """This follower fetched `count` records from the leader."""
        ...

    def records_appended(self, count: int) -> None:
        """This leader appended `count` records to its log."""
        ...

    def polled(self, *, idle_seconds: float, busy_seconds: float) -> None:
        """The driver waited for events for `idle_seconds`, then processed them for `busy_seconds`."""
        ...

    def snapshot_loaded(self, size_bytes: int) -> None:
        """The state machine loaded a snapshot whose file has `size_bytes`."""
        ...

    def snapshot_taken(self, size_bytes: int) -> None:
        """This node took a snapshot. Its file is durable and has `size_bytes`."""
        ...

    def states_compared(self, *, equal: int, different: int, unchecked: int) -> None:
        """The state at the latest snapshot was compared with those of the other voters: so many have an equal
        one, a different one, and none to compare with."""
        ...


class NoTelemetry:
    """A telemetry that ignores every call."""

    __slots__ = ()

    def booted(self, timestamp_ms: int) -> None:
        pass

    def role_changed(
        self, role: Role, *, is_voter: bool, epoch: Epoch, leader: NodeId | None, voted: NodeId | None
    ) -> None:
        pass

    def log_end_offset(self, end_offset: Offset, epoch: Epoch) -> None:
        pass

    def high_watermark(self, offset: Offset) -> None:
        pass

    def unknown_voter_connections(self, count: int) -> None:
        pass

    def election_finished(self, seconds: float) -> None:
        pass

    def committed(self, seconds: float, records: int) -> None:
        pass

    def records_fetched(self, count: int) -> None:
        pass

    def records_appended(self, count: int) -> None:
        pass

    def polled(self, *, idle_seconds: float, busy_seconds: float) -> None:
        pass

    def snapshot_loaded(self, size_bytes: int) -> None:
        pass

    def snapshot_taken(self, size_bytes: int) -> None:
        pass

    def states_compared(self, *, equal: int, different: int, unchecked: int) -> None:
        pass
