"""TCP over trio sockets."""

import errno
import socket
from collections.abc import Sequence

import trio

from quorate.runtime.disk import Buffer
from quorate.runtime.network import Address, AddressInUseError, NetworkError

_BACKLOG = 512
_IOV_MAX = 512


class TcpStream:
    """`quorate.runtime.network.Stream` over a connected socket."""

    __slots__ = ("_peer", "_socket")

    def __init__(self, connected: trio.socket.SocketType, peer: str) -> None:
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket = connected
        self._peer = peer

    @property
    def peer(self) -> str:
        return self._peer

    async def receive_some(self, max_bytes: int = 65536) -> bytes:
        try:
            return await self._socket.recv(max_bytes)
        except (OSError, trio.ClosedResourceError) as error:
            raise NetworkError(f"{self._peer}: {error}") from error

    async def receive_into(self, buffer: memoryview) -> int:
        try:
            return await self._socket.recv_into(buffer)
        except (OSError, trio.ClosedResourceError) as error:
            raise NetworkError(f"{self._peer}: {error}") from error

    async def send(self, buffers: Sequence[Buffer]) -> None:
        try:
            pending = [memoryview(buffer) for buffer in buffers if len(buffer)]
            while pending:
                sent = await self._socket.sendmsg(pending[:_IOV_MAX])
                first = 0
                while first < len(pending) and sent >= len(pending[first]):
                    sent -= len(pending[first])
                    first += 1
                del pending[:first]
                if sent:
                    pending[0] = pending[0][sent:]
        except (OSError, trio.ClosedResourceError) as error:
            raise NetworkError(f"{self._peer}: {error}") from error

    def close(self) -> None:
        self._socket.close()


class TcpListener:
    """`quorate.runtime.network.Listener` over a listening socket."""

    __slots__ = ("_address", "_socket")

    def __init__(self, listening: trio.socket.SocketType, address: Address) -> None:
        self._socket = listening
        self._address = address

    @property
    def address(self) -> Address:
        return self._address

    async def accept(self) -> TcpStream:
        while True:
            try:
                connected, name = await self._socket.accept()
                return TcpStream(connected, f"{name[0]}:{name[1]}")
            except trio.ClosedResourceError as error:
                raise NetworkError(f"{self._address}: closed") from error
            except OSError as error:
                if error.errno in (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM):
                    # Out of descriptors: those in use must finish first, the backlog keeps the rest.
                    await trio.sleep(0.1)
                elif error.errno != errno.ECONNABORTED:
                    raise NetworkError(f"{self._address}: {error}") from error

    def close(self) -> None:
        self._socket.close()


class RealNetwork:
    """`quorate.runtime.network.Network` over TCP."""

    __slots__ = ()

    async def connect(self, address: Address) -> TcpStream:
        try:
            stream = await trio.open_tcp_stream(address.host, address.port)
        except OSError as error:
            raise NetworkError(f"can't connect to {address}: {error}") from error
        return TcpStream(stream.socket, str(address))

    async def listen(self, address: Address) -> TcpListener:
        try:
            family = (await trio.socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM))[0]
            listening = trio.socket.socket(family[0], socket.SOCK_STREAM)
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            await listening.bind(family[4])
            listening.listen(_BACKLOG)
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                raise AddressInUseError(
                    f"{address} is in use by another process; stop it or choose another port"
                ) from error
            raise NetworkError(f"can't listen on {address}: {error}") from error
        return TcpListener(listening, Address(address.host, listening.getsockname()[1]))
