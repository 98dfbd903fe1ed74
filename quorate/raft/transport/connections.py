"""The connections that a listener has accepted: who has to go when there are too many, and which of them an
answer goes to."""

from collections import OrderedDict
from typing import Final

from quorate.raft.transport.outbox import Outbox
from quorate.types import NodeId

CONNECTIONS_MAX: Final = 1000
PLACES_PER_VOTER: Final = 8
"""Connections under one voter's id that nobody displaces. A node needs two, and may leave two behind."""
_OWED_MAX: Final = 1000
"""Answers that the core owes one connection. A node waits for one at a time."""


class PeerConnection:
    """One that was accepted. Not known to be anybody's until it says so. It is the `Caller` of what comes on
    it."""

    __slots__ = ("is_closed", "node", "outbox", "owed")

    def __init__(self, outbox: Outbox) -> None:
        self.outbox = outbox
        self.node: NodeId | None = None
        """The voter that it last said it is."""
        self.owed: dict[int, int] = {}
        """Correlations of its requests that the core has, oldest first."""
        self.is_closed = False


class Connections:
    """Ordered by when they were last heard. The one that has been silent for longest, and is no voter's,
    makes room for the next: so those who hold connections without using them keep nobody out."""

    def __init__(self) -> None:
        self._silent_first: OrderedDict[PeerConnection, None] = OrderedDict()
        self._of_voter: dict[NodeId, dict[PeerConnection, None]] = {}
        self._owed: dict[int, PeerConnection] = {}
        self._last_asked = 0

    def __len__(self) -> int:
        return len(self._silent_first)

    def add(self, connection: PeerConnection) -> None:
        self._silent_first[connection] = None

    def remove(self, connection: PeerConnection) -> None:
        """Drop the connection and the answers for it."""
        connection.is_closed = True
        self._silent_first.pop(connection, None)
        self._release_place(connection)
        for number in connection.owed:
            del self._owed[number]
        connection.owed.clear()

    def add_request(self, connection: PeerConnection, correlation: int) -> int:
        """A request for the core came on it. Returns the number that takes the place of its correlation
        there: who sends a request draws its correlation, so anybody may draw the same. Whoever asks without
        end loses its own oldest answers."""
        self._last_asked = number = self._last_asked + 1
        owed = connection.owed
        if len(owed) >= _OWED_MAX:
            oldest = next(iter(owed))
            del owed[oldest], self._owed[oldest]
        owed[number] = correlation
        self._owed[number] = connection
        return number

    def take_request(self, number: int) -> tuple[PeerConnection, int] | None:
        """The connection that the request came on, and its correlation there; None if that is gone."""
        connection = self._owed.pop(number, None)
        return None if connection is None else (connection, connection.owed.pop(number))

    @property
    def owing(self) -> int:
        """Requests that the core has."""
        return len(self._owed)

    def note_heard(self, connection: PeerConnection) -> None:
        """Something came on it."""
        if connection in self._silent_first:
            self._silent_first.move_to_end(connection)

    def assign_voter(self, connection: PeerConnection, voter: NodeId | None) -> None:
        """It says that it is `voter`'s; None: no voter's."""
        if connection.node == voter:
            return
        self._release_place(connection)
        connection.node = voter
        if voter is not None:
            places = self._of_voter.setdefault(voter, {})
            places[connection] = None
            if len(places) > PLACES_PER_VOTER:
                # The oldest of them has no place of its own any more.
                self._release_place(next(iter(places)))

    def displace(self) -> PeerConnection | None:
        """Take out who has to make room, to be closed; None if all have places of their own."""
        for connection in self._silent_first:
            if connection.node is None:
                self.remove(connection)
                return connection
        return None

    def _release_place(self, connection: PeerConnection) -> None:
        if connection.node is not None:
            places = self._of_voter[connection.node]
            del places[connection]
            if not places:
                del self._of_voter[connection.node]
            connection.node = None
