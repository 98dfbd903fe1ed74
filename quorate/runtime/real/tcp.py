"""TCP on non-blocking sockets.

The sockets are the standard library's, driven by trio's public wait functions: a receive that finds data
and a send that finds room cost one system call and no pass through the scheduler, which on the commit path
is most of what there is to save (docs/explanation/performance.md).
"""

import errno
import socket
from collections.abc import Sequence
from contextlib import suppress

import trio

from quorate.runtime.disk import Buffer
from quorate.runtime.network import (
    Address,
    AddressInUseError,
    ConnectRefusedError,
    NetworkError,
)
from quorate.runtime.real import descriptors

_BACKLOG = 512
_IOV_MAX = 512
_RECEIVE_MAX_BYTES = 64 * 1024
"""At once, however much is asked for. From 128 KiB on, malloc may map and unmap pages for each receive: three
system calls and two page faults, which for a hundred bytes cost 14 times what the receive does."""


def buffers_from(buffers: Sequence[Buffer], skip: int) -> list[Buffer]:
    """Return the rest of `buffers` after their first `skip` bytes."""
    for index, buffer in enumerate(buffers):
        if skip < len(buffer):
            rest = list(buffers[index:])
            if skip:
                rest[0] = memoryview(buffer)[skip:]
            return rest
        skip -= len(buffer)
    return []


class TcpStream:
    """`quorate.runtime.network.Stream` over a connected socket."""

    __slots__ = ("_closed", "_peer", "_socket")

    def __init__(self, connected: socket.socket, peer: str) -> None:
        connected.setblocking(False)
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket = connected
        self._peer = peer
        self._closed = False

    @property
    def peer(self) -> str:
        return self._peer

    @property
    def identities(self) -> tuple[str, ...] | None:
        return None

    @property
    def subject(self) -> str | None:
        return None

    @property
    def certificate_end_ms(self) -> int | None:
        return None

    async def handshake(self) -> None:
        return

    def _broken(self, error: BaseException) -> NetworkError:
        return NetworkError(f"{self._peer}: {'closed' if self._closed else error}")

    def _open(self) -> socket.socket:
        """Trio takes the -1 of a closed socket for our bug and raises `ValueError`."""
        if self._closed:
            raise trio.ClosedResourceError("closed")
        return self._socket

    async def receive_some(self, max_bytes: int = 65536) -> bytes:
        try:
            while True:
                await trio.lowlevel.wait_readable(self._open())
                try:
                    return self._socket.recv(min(max_bytes, _RECEIVE_MAX_BYTES))
                except BlockingIOError:
                    continue
        except (OSError, trio.ClosedResourceError) as error:
            raise self._broken(error) from error

    async def peek(self) -> bytes:
        """Return the first byte that has arrived and leave it there; none at the end of the stream."""
        try:
            while True:
                await trio.lowlevel.wait_readable(self._open())
                with suppress(BlockingIOError):
                    return self._socket.recv(1, socket.MSG_PEEK)
        except (OSError, trio.ClosedResourceError) as error:
            raise self._broken(error) from error

    async def receive_into(self, buffer: memoryview) -> int:
        try:
            while True:
                try:
                    received = self._socket.recv_into(buffer)
                except BlockingIOError:
                    await trio.lowlevel.wait_readable(self._open())
                else:
                    return received
        except (OSError, trio.ClosedResourceError) as error:
            raise self._broken(error) from error

    def send_nowait(self, buffers: Sequence[Buffer]) -> int:
        try:
            return self._socket.sendmsg(buffers[:_IOV_MAX])
        except BlockingIOError:
            return 0
        except OSError as error:
            raise self._broken(error) from error

    async def send(self, buffers: Sequence[Buffer]) -> None:
        pending = buffers_from(buffers, 0)
        while True:
            pending = buffers_from(pending, self.send_nowait(pending))
            if not pending:
                break
            try:
                await trio.lowlevel.wait_writable(self._open())
            except (OSError, trio.ClosedResourceError) as error:
                raise self._broken(error) from error
        await trio.lowlevel.checkpoint()

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            trio.lowlevel.notify_closing(self._socket)
            self._socket.close()


class TcpListener:
    """`quorate.runtime.network.Listener` over a listening socket."""

    __slots__ = ("_address", "_closed", "_socket")

    def __init__(self, listening: socket.socket, address: Address) -> None:
        self._socket = listening
        self._address = address
        self._closed = False

    @property
    def address(self) -> Address:
        return self._address

    def room(self) -> int:
        return descriptors.left() - descriptors.reserve()

    async def accept(self) -> TcpStream:
        while True:
            if self._closed:
                raise NetworkError(f"{self._address}: closed")
            try:
                await trio.lowlevel.wait_readable(self._socket)
                connected, name = self._socket.accept()
                return TcpStream(connected, f"{name[0]}:{name[1]}")
            except BlockingIOError:
                continue
            except trio.ClosedResourceError as error:
                raise NetworkError(f"{self._address}: closed") from error
            except OSError as error:
                if error.errno in (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM):
                    # Out of descriptors: those in use must finish first, the backlog keeps the rest.
                    await trio.sleep(0.1)
                elif error.errno != errno.ECONNABORTED:
                    raise NetworkError(f"{self._address}: {error}") from error

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            trio.lowlevel.notify_closing(self._socket)
            self._socket.close()


async def connect(address: Address) -> TcpStream:
    """As `Network.connect`."""
    try:
        stream = await trio.open_tcp_stream(address.host, address.port)
    except OSError as error:
        kind = ConnectRefusedError if _refused(error) else NetworkError
        raise kind(f"can't connect to {address}: {error}") from error
    except UnicodeError as error:  # from the encoding of a host with a label of more than 63 characters
        raise NetworkError(f"can't connect to {address}: {error}") from error
    return TcpStream(socket.socket(fileno=stream.socket.detach()), str(address))


async def listen(address: Address) -> TcpListener:
    """As `Network.listen`."""
    try:
        found = await trio.socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)
        family, _, _, _, name = found[0]
        listening = socket.socket(family, socket.SOCK_STREAM)
        try:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listening.bind(name)
            listening.listen(_BACKLOG)
            listening.setblocking(False)
        except BaseException:
            listening.close()
            raise
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise AddressInUseError(
                f"{address} is in use by another process; stop it or choose another port"
            ) from error
        raise NetworkError(f"can't listen on {address}: {error}") from error
    return TcpListener(listening, Address(address.host, listening.getsockname()[1]))


def _refused(error: OSError) -> bool:
    """Return whether each attempt of trio's, one for each address that the name has, was refused."""
    attempts = error.__cause__
    return isinstance(attempts, ExceptionGroup) and all(
        isinstance(each, ConnectionRefusedError) for each in attempts.exceptions
    )
