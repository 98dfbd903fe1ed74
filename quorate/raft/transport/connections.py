"""The connections of a listener: the one to close when there are too many, and the one for an answer."""

from collections import OrderedDict
from typing import Final

from quorate.raft.transport.outbox import Outbox
from quorate.types import NodeId

CONNECTIONS_MAX: Final = 1000
PLACES_PER_VOTER: Final = 8
"""The connections of one voter that are not displaced. A node needs two, and may leave two behind."""
_OWED_MAX: Final = 1000
"""The answers that the core may owe one connection. A node waits for one at a time."""


class PeerConnection:
    """An accepted connection, and the `Caller` of its requests. Its node is unknown until a request names
    it."""

    __slots__ = ("is_client", "is_closed", "node", "outbox", "owed", "proven")

    def __init__(self, outbox: Outbox) -> None:
        self.outbox = outbox
        self.node: NodeId | None = None
        """The voter that its last request named as sender."""
        self.proven: NodeId | None = None
        """The node that the certificate at the other end names. None: there is no TLS, or it is a client."""
        self.is_client = False
        """The certificate at the other end names a client."""
        self.owed: dict[int, int] = {}
        """The correlations of its requests that the core has not answered, by number, oldest first."""
        self.is_closed = False


class Connections:
    """The accepted connections, in the order of their last frames. The one that has been silent for longest,
    and is not of a voter, is displaced by a new one. So unused connections do not keep new ones out."""

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
        """Note a request for the core. Returns a number to pass to the core as its correlation, because two
        senders may choose the same one. A connection with too many requests loses its oldest answers."""
        self._last_asked = number = self._last_asked + 1
        owed = connection.owed
        if len(owed) >= _OWED_MAX:
            oldest = next(iter(owed))
            del owed[oldest], self._owed[oldest]
        owed[number] = correlation
        self._owed[number] = connection
        return number

    def take_request(self, number: int) -> tuple[PeerConnection, int] | None:
        """Return the connection of the request and its correlation there. None: that is closed."""
        connection = self._owed.pop(number, None)
        return None if connection is None else (connection, connection.owed.pop(number))

    def note_heard(self, connection: PeerConnection) -> None:
        """Note a received frame."""
        if connection in self._silent_first:
            self._silent_first.move_to_end(connection)

    def assign_voter(self, connection: PeerConnection, voter: NodeId | None) -> None:
        """Note the voter that the connection belongs to. None: no voter."""
        if connection.node == voter:
            return
        self._release_place(connection)
        connection.node = voter
        if voter is not None:
            places = self._of_voter.setdefault(voter, {})
            places[connection] = None
            if len(places) > PLACES_PER_VOTER:
                # The oldest of them loses its place.
                self._release_place(next(iter(places)))

    def displace(self) -> PeerConnection | None:
        """Remove a connection that the caller closes, to make room. None: all are of voters."""
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
