"""The network as quorate sees it: byte streams that may be delayed, cut or half-open.

Two implementations: `quorate.runtime.real.network.RealNetwork` (TCP) and
`quorate.simulation.world.network.SimulatedNetwork`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from quorate.runtime.disk import Buffer


@dataclass(frozen=True, slots=True)
class Address:
    """Where a node listens."""

    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"

    @classmethod
    def parse(cls, text: str) -> "Address":
        """From `host:port`, IPv6 hosts in brackets. Raises `ValueError` saying what is wrong."""
        host, separator, port = text.strip().rpartition(":")
        if not separator or not host or not port.isdigit() or int(port) > 65535:
            raise ValueError(f"{text!r} is not host:port")
        return cls(host.removeprefix("[").removesuffix("]"), int(port))


class NetworkError(OSError):
    """A connection could not be made, or broke."""


class AddressInUseError(NetworkError):
    """Another process listens on this address."""


class Stream(Protocol):
    """One connection. One task may receive while another sends."""

    @property
    def peer(self) -> str:
        """The other end, for log lines."""
        ...

    async def receive_some(self, max_bytes: int = 65536) -> bytes:
        """At least one byte, or empty at the end of the stream. Raises `NetworkError`."""
        ...

    async def receive_into(self, buffer: memoryview) -> int:
        """Fill the start of `buffer`; the number of bytes, 0 at the end of the stream."""
        ...

    def send_nowait(self, buffers: Sequence[Buffer]) -> int:
        """Hand as much as possible to the network without waiting; the number of bytes taken, from 0 to all.

        Only while no `send` is under way. Raises `NetworkError`.
        """
        ...

    async def send(self, buffers: Sequence[Buffer]) -> None:
        """Send all buffers in order, vectored. Raises `NetworkError`; if cancelled or failed, any prefix
        may have been sent and the stream must be closed."""
        ...

    def close(self) -> None:
        """Close at once, without waiting. Idempotent. A task that is receiving or sending gets
        `NetworkError`."""
        ...


class Listener(Protocol):
    @property
    def address(self) -> Address:
        """The bound address (the real port when 0 was asked for)."""
        ...

    async def accept(self) -> Stream: ...

    def room(self) -> int | None:
        """How many more connections the process can hold and still open its files; None: as many as you like.
        A listener that may be crowded out, as one for clients, accepts no more then."""
        ...

    def close(self) -> None: ...


class Network(Protocol):
    async def connect(self, address: Address) -> Stream:
        """Raises `NetworkError`. Has no timeout of its own: the caller's cancel scope is it."""
        ...

    async def listen(self, address: Address) -> Listener:
        """Raises `AddressInUseError` or `NetworkError`."""
        ...
