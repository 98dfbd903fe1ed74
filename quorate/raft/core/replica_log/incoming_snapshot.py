"""A snapshot that is being fetched from the leader."""

import enum

from quorate.raft.core.cloning import Cloneable
from quorate.types import SnapshotId, VoterSet


class Arrival(enum.Enum):
    FETCHING = "fetching"
    CHECKING = "checking"
    """All its bytes are here, and not yet known to be whole and durable."""
    CHECKED = "checked"


class IncomingSnapshot(Cloneable):
    """The received part of a snapshot. Nothing of the log or the voters changes before it is checked."""

    __slots__ = ("arrival", "id", "position", "voters")

    def __init__(self, snapshot: SnapshotId) -> None:
        self.id = snapshot
        self.position = 0
        """Bytes that are here."""
        self.arrival = Arrival.FETCHING
        self.voters: VoterSet | None = None
        """Those in it; meaningful once it is checked."""
