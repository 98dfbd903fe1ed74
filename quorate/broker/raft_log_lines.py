"""Observers of the quorum of a node: its metrics, and further telemetry."""

from typing import Protocol

from quorate.raft import Quorum, Telemetry
from quorate.raft.core import Role
from quorate.types import Epoch, NodeId, Offset


class ServerTelemetry(Telemetry, Protocol):
    """`Telemetry` of the quorum under a `BrokerServer`."""

    def opened(self, quorum: Quorum[None]) -> None:
        """Before the quorum's first step, hence before anything else is told."""
        ...


class BothTelemetry:
    """Tells `first`, then `second`."""

    __slots__ = ("_first", "_second")

    def __init__(self, first: Telemetry, second: Telemetry) -> None:
        self._first = first
        self._second = second

    def booted(self, timestamp_ms: int) -> None:
        self._first.booted(timestamp_ms)
        self._second.booted(timestamp_ms)

    def role_changed(
        self, role: Role, *, is_voter: bool, epoch: Epoch, leader: NodeId | None, voted: NodeId | None
    ) -> None:
        self._first.role_changed(role, is_voter=is_voter, epoch=epoch, leader=leader, voted=voted)
        self._second.role_changed(role, is_voter=is_voter, epoch=epoch, leader=leader, voted=voted)

    def log_end_offset(self, end_offset: Offset, epoch: Epoch) -> None:
        self._first.log_end_offset(end_offset, epoch)
        self._second.log_end_offset(end_offset, epoch)

    def high_watermark(self, offset: Offset) -> None:
        self._first.high_watermark(offset)
        self._second.high_watermark(offset)

    def unknown_voter_connections(self, count: int) -> None:
        self._first.unknown_voter_connections(count)
        self._second.unknown_voter_connections(count)

    def election_finished(self, seconds: float) -> None:
        self._first.election_finished(seconds)
        self._second.election_finished(seconds)

    def committed(self, seconds: float, records: int) -> None:
        self._first.committed(seconds, records)
        self._second.committed(seconds, records)

    def records_fetched(self, count: int) -> None:
        self._first.records_fetched(count)
        self._second.records_fetched(count)

    def records_appended(self, count: int) -> None:
        self._first.records_appended(count)
        self._second.records_appended(count)

    def polled(self, *, idle_seconds: float, busy_seconds: float) -> None:
        self._first.polled(idle_seconds=idle_seconds, busy_seconds=busy_seconds)
        self._second.polled(idle_seconds=idle_seconds, busy_seconds=busy_seconds)

    def snapshot_loaded(self, size_bytes: int) -> None:
        self._first.snapshot_loaded(size_bytes)
        self._second.snapshot_loaded(size_bytes)

    def snapshot_taken(self, size_bytes: int) -> None:
        self._first.snapshot_taken(size_bytes)
        self._second.snapshot_taken(size_bytes)

    def states_compared(self, *, equal: int, different: int, unchecked: int) -> None:
        for each in (self._first, self._second):
            each.states_compared(equal=equal, different=different, unchecked=unchecked)
