"""A client of a quorum, for processes that are no members of it."""

from quorate.raft.clients.client import Client

__all__ = ["Client"]
