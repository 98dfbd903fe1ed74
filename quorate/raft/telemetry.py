"""What the quorum tells whoever watches it, at the moment it happens."""

from typing import Protocol

from quorate.raft.core import Role
from quorate.types import Epoch, NodeId, Offset


class Telemetry(Protocol):
    """Called on the quorum's task; must not block. `quorate.metrics.RaftMetrics` is one."""

    def booted(self, timestamp_ms: int) -> None: ...

    def role_changed(
        self, role: Role, *, is_voter: bool, epoch: Epoch, leader: NodeId | None, voted: NodeId | None
    ) -> None: ...

    def log_end_offset(self, end_offset: Offset, epoch: Epoch) -> None:
        """The local log ends at `end_offset` (exclusive); its last record is of `epoch`."""
        ...

    def high_watermark(self, offset: Offset) -> None: ...

    def unknown_voter_connections(self, count: int) -> None:
        """Voters whose connection information is not known."""
        ...

    def election_finished(self, seconds: float) -> None:
        """From becoming a candidate to learning of a leader or becoming it."""
        ...

    def committed(self, seconds: float, records: int) -> None:
        """On the leader: from appending these records to the high watermark passing them."""
        ...

    def records_fetched(self, count: int) -> None: ...

    def records_appended(self, count: int) -> None: ...

    def polled(self, *, idle_seconds: float, busy_seconds: float) -> None:
        """The loop waited and then worked for so long."""
        ...

    def snapshot_loaded(self, size_bytes: int) -> None:
        """The state machine was filled from a snapshot file of this size."""
        ...

    def snapshot_taken(self, size_bytes: int) -> None:
        """A snapshot of the state machine, taken here, is durable. The size is the file's."""
        ...


class NoTelemetry:
    """Watches nothing."""

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
