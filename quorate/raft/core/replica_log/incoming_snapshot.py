"""A snapshot that is being fetched from the leader."""

import enum

from quorate.raft.core.cloning import Cloneable
from quorate.types import SnapshotId, VoterSet


class Arrival(enum.Enum):
    FETCHING = "fetching"
    CHECKING = "checking"
    """All its bytes have arrived. They are not yet known to be whole and durable."""
    CHECKED = "checked"


class IncomingSnapshot(Cloneable):
    """The received part of a snapshot. Nothing of the log or the voters changes before it is checked."""

    __slots__ = ("arrival", "id", "position", "voters")

    def __init__(self, snapshot: SnapshotId) -> None:
        self.id = snapshot
        self.position = 0
        """The number of bytes that have arrived."""
        self.arrival = Arrival.FETCHING
        self.voters: VoterSet | None = None
        """The voters in it, once it is checked."""
