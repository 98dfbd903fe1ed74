"""A client of a quorum, for processes that are no members of it."""

from quorate.raft.clients.client import Client
from quorate.raft.clients.client_messages import Watched
from quorate.raft.clients.watch import Watch

__all__ = ["Client", "Watch", "Watched"]
