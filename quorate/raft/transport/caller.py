"""The caller of an application's request, as the connection that it came on."""

from collections.abc import Awaitable, Callable
from typing import Protocol

from quorate.runtime import Stream


class Caller(Protocol):
    """A node's requests come on one connection, which it keeps. The system ends it with the process."""

    @property
    def gone(self) -> bool:
        """True when the connection is over, which says nothing of the process at its other end."""
        ...


class LocalCaller:
    """`Caller` for the requests of this node itself."""

    __slots__ = ()

    @property
    def gone(self) -> bool:
        return False


ApplicationHandler = Callable[[bytes], Awaitable[bytes]]
CallerHandler = Callable[[bytes, Caller], Awaitable[bytes]]

StrangerHandler = Callable[[Stream], Awaitable[None]]
"""Serves a connection that speaks Kafka's protocol until it is over."""
