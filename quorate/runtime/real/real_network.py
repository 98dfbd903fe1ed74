"""The network of this machine: TCP, with TLS where a program asks for it."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from quorate.runtime.network import MEMBERS, Address, CertificateEnd, Network, TlsFiles, TlsTerms
from quorate.runtime.real import tcp

if TYPE_CHECKING:
    from quorate.runtime.real.tls_watch import ExpiryLog


class RealNetwork:
    """`quorate.runtime.network.Network` over TCP."""

    __slots__ = ("_expiry",)

    def __init__(self) -> None:
        self._expiry: ExpiryLog | None = None

    @property
    def identities(self) -> tuple[str, ...] | None:
        return None

    @property
    def certificates(self) -> Sequence[CertificateEnd]:
        return ()

    async def connect(self, address: Address) -> tcp.TcpStream:
        return await tcp.connect(address)

    async def listen(self, address: Address) -> tcp.TcpListener:
        return await tcp.listen(address)

    def secured(self, files: TlsFiles, terms: TlsTerms = MEMBERS) -> Network:
        # Most programs need no `ssl`, which takes 13 ms to import.
        from quorate.runtime.real.tls_network import TlsNetwork
        from quorate.runtime.real.tls_watch import ExpiryLog

        self._expiry = self._expiry or ExpiryLog()
        return TlsNetwork(files, terms, self._expiry)
