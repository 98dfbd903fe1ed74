"""The progress of one replica, as its leader sees it."""

from typing import Final

from quorate.raft.core.cloning import Cloneable
from quorate.raft.core.events import Timer, TimerKind
from quorate.raft.core.messages import FetchRequest
from quorate.types import Offset, ReplicaKey

SILENT_PERIODS_MAX: Final = 2
"""Where counting stops: a replica that has not fetched for so many periods is not known to be alive."""


class ReplicaProgress(Cloneable, derived={"fetch_wait": "named by the key"}):
    """A follower or observer, in one epoch of one leader."""

    __slots__ = (
        "acknowledged",
        "caught_up",
        "end_offset",
        "fetch_wait",
        "fetched_as",
        "is_voter",
        "key",
        "parked",
        "silent_periods",
    )

    def __init__(self, key: ReplicaKey, *, is_voter: bool = True) -> None:
        self.key = key
        self.is_voter = is_voter
        self.end_offset = Offset(0)
        """Of its last valid fetch."""
        self.caught_up = False
        """It had everything that was then known to be committed, and has not been silent since."""
        self.fetched_as: ReplicaKey | None = None
        """The key in its last Fetch: with a directory id, also where the voter set has none."""
        self.acknowledged = False
        """It knows who leads."""
        self.silent_periods = SILENT_PERIODS_MAX
        """Half fetch timeouts that have ended without a valid Fetch of it since the last one; 0 if it has
        fetched in this one."""
        self.parked: FetchRequest | None = None
        """Waits for records or a newer high watermark."""
        self.fetch_wait = Timer(TimerKind.FETCH_WAIT, key.id)

    @property
    def is_alive(self) -> bool:
        """It fetched in this period or the one before: less than a fetch timeout ago."""
        return self.silent_periods < SILENT_PERIODS_MAX

    def end_period(self) -> None:
        """End a period: a replica that was silent for too long must catch up again before it counts as caught
        up."""
        self.silent_periods = min(self.silent_periods + 1, SILENT_PERIODS_MAX)
        if not self.is_alive:
            self.caught_up = False
