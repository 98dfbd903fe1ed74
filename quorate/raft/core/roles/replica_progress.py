"""The progress of one replica, as its leader sees it."""

from typing import Final

from quorate.raft.core.cloning import Cloneable
from quorate.raft.core.events import Timer, TimerKind
from quorate.raft.core.messages import FetchRequest
from quorate.types import Offset, ReplicaKey

SILENT_PERIODS_MAX: Final = 2
"""The end of the count: a replica that has not fetched for so many periods is not known to be alive."""


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
        "promised_until_ms",
        "silent_periods",
    )

    def __init__(self, key: ReplicaKey, *, is_voter: bool = True) -> None:
        self.key = key
        self.is_voter = is_voter
        self.end_offset = Offset(0)
        """The offset of its last valid Fetch."""
        self.caught_up = False
        """True if it had all that was known to be committed at a Fetch, and has not been silent since."""
        self.fetched_as: ReplicaKey | None = None
        """The key in its last Fetch: with a directory id, also where the voter set has none."""
        self.acknowledged = False
        """True if it knows the leader."""
        self.silent_periods = SILENT_PERIODS_MAX
        """The number of periods (half fetch timeouts) that ended since its last valid Fetch."""
        self.parked: FetchRequest | None = None
        """Its Fetch that waits for records or a newer high watermark."""
        self.promised_until_ms = 0
        """It elects nobody before this time of the leader's lease clock, however slow that is."""
        self.fetch_wait = Timer(TimerKind.FETCH_WAIT, key.id)

    @property
    def is_alive(self) -> bool:
        """True if it fetched in this period or the one before: less than a fetch timeout ago."""
        return self.silent_periods < SILENT_PERIODS_MAX

    def end_period(self) -> None:
        """End a period: a replica that was silent for too long must catch up again before it counts as caught
        up."""
        self.silent_periods = min(self.silent_periods + 1, SILENT_PERIODS_MAX)
        if not self.is_alive:
            self.caught_up = False
