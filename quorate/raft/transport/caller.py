"""The caller of an application's request, as the connection that it came on."""

from collections.abc import Awaitable, Callable
from typing import Protocol

from quorate.runtime import Stream
from quorate.types import NodeId


class Caller(Protocol):
    """The sender of an application's request: a node, which sends all its requests on one connection. The
    system closes that connection when the process ends."""

    @property
    def is_closed(self) -> bool:
        """True when the connection is closed. The process at its other end may still run."""
        ...

    @property
    def proven(self) -> NodeId | None:
        """The node that the certificate at the other end names. None: there is no TLS, it is a client, or it
        is this node itself."""
        ...


class LocalCaller:
    """`Caller` for the requests of this node itself."""

    __slots__ = ()

    @property
    def is_closed(self) -> bool:
        return False

    @property
    def proven(self) -> NodeId | None:
        return None


ApplicationHandler = Callable[[bytes], Awaitable[bytes]]
CallerHandler = Callable[[bytes, Caller], Awaitable[bytes]]

KafkaHandler = Callable[[Stream], Awaitable[None]]
"""Serves a connection that speaks Kafka's protocol until it is over."""
