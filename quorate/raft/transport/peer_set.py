"""The nodes that this one asks, as the voter set and the leader change."""

from collections.abc import Callable

from quorate.raft.core import Core, Event, Message, RequestFailed
from quorate.raft.transport.peers import Peer
from quorate.runtime import Tasks
from quorate.types import Endpoint, NodeId, VoterSet

MakePeer = Callable[[NodeId, Endpoint], Peer]


class PeerSet:
    """One `Peer` per node that there is reason to ask, made when it is first asked."""

    def __init__(self, core: Core, make: MakePeer, *, tasks: Tasks, deliver: Callable[[Event], None]) -> None:
        self._core = core
        self._tasks = tasks
        self._deliver = deliver
        self._make = make
        self._peers: dict[NodeId, Peer] = {}
        self._asked: list[Peer] = []
        """The peers with a request that waits for the next flush."""
        self._voters: VoterSet = core.voters

    def send(self, message: Message) -> None:
        """Queue a request; `flush` sends it. It fails at once if the endpoint of its destination is
        unknown."""
        peer = self._peers.get(message.destination)
        endpoint = self._core.endpoint_of(message.destination)
        if peer is None or peer.endpoint != endpoint:
            if endpoint is None:
                self._deliver(RequestFailed(message.destination, message.correlation))
                return
            if peer is not None:
                peer.close()
            if message.destination >= 0 and message.destination not in self._core.voters:
                self._forget_outside_ids()
            peer = self._peers[message.destination] = self._make(message.destination, endpoint)
            self._tasks.start(peer.run)
        peer.send(message)
        self._asked.append(peer)

    def flush(self) -> None:
        if self._asked:
            for peer in self._asked:
                peer.flush()
            self._asked.clear()
        if self._core.voters is not self._voters:
            self._forget_outside_ids()

    def _forget_outside_ids(self) -> None:
        """Close the connections to all ids but the voters and the leader. Called after a change of the
        voters, and before a further outside id is asked."""
        self._voters = self._core.voters
        for node in [node for node in self._peers if node not in self._voters and node != self._core.leader]:
            self._peers.pop(node).close()
