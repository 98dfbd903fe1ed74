"""Cut ways on connections with TLS."""

from quorate.runtime import MEMBERS, Address, Stream, TlsFiles, TlsTerms
from quorate.runtime.real import ExpiryLog, TcpStream, TlsNetwork, TlsStream, TlsWatch
from quorate.testing.cut_ways import Cut, Cuttable, Way, Ways


class CuttableTlsStream(Cuttable, TlsStream):
    """A stream with TLS that stands still while its way is cut. A handshake that has begun ends."""

    __slots__ = ("_cut",)

    def __init__(self, stream: TcpStream, watch: TlsWatch, host: str, way: Way) -> None:
        TlsStream.__init__(self, stream, watch.contexts.client, watch, server_side=False, host=host)
        self._cut = Cut(way)


class CuttableTlsNetwork(TlsNetwork):
    """`TlsNetwork` on the ways of a node."""

    __slots__ = ("_ways",)

    def __init__(self, files: TlsFiles, terms: TlsTerms, expiry: ExpiryLog, ways: Ways) -> None:
        super().__init__(files, terms, expiry)
        self._ways = ways

    async def connect(self, address: Address) -> Stream:
        await self._ways.to(address).wait_whole()
        return await super().connect(address)

    def _over(self, plain: TcpStream, address: Address) -> TlsStream:
        return CuttableTlsStream(plain, self._watch, address.host, self._ways.to(address))

    def secured(self, files: TlsFiles, terms: TlsTerms = MEMBERS) -> "CuttableTlsNetwork":
        return CuttableTlsNetwork(files, terms, self._expiry, self._ways)
