"""The times for telemetry: the driver's work and waits, and elections."""

from collections.abc import Callable

from quorate.raft.core import Role, RoleChanged
from quorate.raft.telemetry import Telemetry

_REPORT_EVERY_SECONDS = 0.1
_ASKING_ROLES = (Role.CANDIDATE, Role.PROSPECTIVE)


class DriverTimes:
    """Measures the driver's work and waits, and elections, for the telemetry."""

    __slots__ = ("_asking_since", "_busy_seconds", "_now", "_reported_at", "_telemetry")

    def __init__(self, telemetry: Telemetry, now: Callable[[], float]) -> None:
        self._telemetry = telemetry
        self._now = now
        self._asking_since: float | None = None
        self._reported_at = self._now()
        self._busy_seconds = 0.0

    def add_work(self, started: float) -> None:
        """Add the time since `started` as work. The telemetry gets the sum every 100 ms, because a report
        takes longer than a step."""
        ended = self._now()
        self._busy_seconds += ended - started
        since = ended - self._reported_at
        if since >= _REPORT_EVERY_SECONDS:
            self._telemetry.polled(idle_seconds=since - self._busy_seconds, busy_seconds=self._busy_seconds)
            self._reported_at = ended
            self._busy_seconds = 0.0

    def note_role(self, effect: RoleChanged) -> None:
        """Measure an election: from candidacy until this node leads or learns of a leader."""
        now = self._now()
        if effect.role in _ASKING_ROLES:
            if effect.role is Role.CANDIDATE and self._asking_since is None:
                self._asking_since = now
        elif effect.leader is not None and self._asking_since is not None:
            self._telemetry.election_finished(now - self._asking_since)
            self._asking_since = None
