"""How far one replica has come, as its leader sees it."""

from collections.abc import Hashable

from quorate.raft.core.events import Timer, TimerKind
from quorate.raft.core.messages import FetchRequest
from quorate.raft.core.types import Offset, ReplicaKey


class ReplicaProgress:
    """A follower or observer, in one epoch of one leader."""

    __slots__ = (
        "acknowledged",
        "caught_up",
        "end_offset",
        "fetch_wait",
        "fetched_as",
        "fetched_in_period",
        "is_voter",
        "key",
        "parked",
    )

    def __init__(self, key: ReplicaKey, *, is_voter: bool = True) -> None:
        self.key = key
        self.is_voter = is_voter
        self.end_offset = Offset(0)
        """Of its last valid fetch."""
        self.caught_up = False
        """It once had everything that was then known to be committed."""
        self.fetched_as: ReplicaKey | None = None
        """The key in its last Fetch: with a directory id, also where the voter set has none."""
        self.acknowledged = False
        """It knows who leads."""
        self.fetched_in_period = False
        """Since the last time the unheard were told who leads."""
        self.parked: FetchRequest | None = None
        """Waits for records or a newer high watermark."""
        self.fetch_wait = Timer(TimerKind.FETCH_WAIT, key.id)

    def clone(self) -> "ReplicaProgress":
        twin = ReplicaProgress.__new__(ReplicaProgress)
        twin.key = self.key
        twin.is_voter = self.is_voter
        twin.end_offset = self.end_offset
        twin.acknowledged = self.acknowledged
        twin.fetched_in_period = self.fetched_in_period
        twin.caught_up = self.caught_up
        twin.fetched_as = self.fetched_as
        twin.parked = self.parked
        twin.fetch_wait = self.fetch_wait
        return twin

    def state_key(self) -> Hashable:
        return (
            self.key,
            self.is_voter,
            self.end_offset,
            self.caught_up,
            self.fetched_as,
            self.acknowledged,
            self.fetched_in_period,
            self.parked,
        )
