"""The network of this machine: TCP, with TLS where a program asks for it."""

from quorate.runtime.network import MEMBERS, Address, Network, TlsFiles, TlsTerms
from quorate.runtime.real import tcp


class RealNetwork:
    """`quorate.runtime.network.Network` over TCP."""

    __slots__ = ()

    @property
    def identities(self) -> tuple[str, ...] | None:
        return None

    async def connect(self, address: Address) -> tcp.TcpStream:
        return await tcp.connect(address)

    async def listen(self, address: Address) -> tcp.TcpListener:
        return await tcp.listen(address)

    def secured(self, files: TlsFiles, terms: TlsTerms = MEMBERS) -> Network:
        # Most programs need no `ssl`, which takes 13 ms to import.
        from quorate.runtime.real.tls_network import TlsNetwork

        return TlsNetwork(files, terms)
