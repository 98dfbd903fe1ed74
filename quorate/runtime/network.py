"""The network as quorate sees it: byte streams that may be delayed, cut or half-open.

Two implementations: `quorate.runtime.real.real_network.RealNetwork` (TCP) and
`quorate.simulation.world.simulated_network.SimulatedNetwork`.
"""

import enum
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from quorate.runtime.disk import Buffer


@dataclass(frozen=True, slots=True)
class Address:
    """A host and a port to listen on or to connect to."""

    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"

    @classmethod
    def parse(cls, text: str) -> "Address":
        """Parse `host:port`, with an IPv6 host in brackets. Raises `ValueError` that names the fault."""
        host, separator, port = text.strip().rpartition(":")
        if not separator or not host or not port.isdecimal() or int(port) > 65535:
            raise ValueError(f"{text!r} is not host:port")
        return cls(host.removeprefix("[").removesuffix("]"), int(port))


class NetworkError(OSError):
    """A connection could not be opened, or it broke."""


class ConnectRefusedError(NetworkError):
    """The host answered that nothing listens at the address (ECONNREFUSED). No answer, or no way there, is
    another error."""


class AddressInUseError(NetworkError):
    """Another process already listens on this address."""


class TlsError(NetworkError):
    """The other end does not speak TLS, showed a certificate that this end does not accept, or did not accept
    this end's."""


class TlsFilesError(ValueError):
    """A certificate, its key or its authorities can't be used."""


class KeyStoreForm(enum.Enum):
    """The form of a file with keys or certificates, by Kafka's names (`ssl.keystore.type`)."""

    PEM = "PEM"
    PKCS12 = "PKCS12"


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsFiles:
    """The files by which one end of a connection proves who it is. They are read again when they change."""

    certificate: str
    """The path of the certificate, with those of authorities between it and `authorities` after it."""
    key: str
    """The path of its private key."""
    authorities: str
    """The path of the certificates of the authorities that vouch for the other ends. Empty: nobody does, and
    the other ends show no certificate."""
    key_form: KeyStoreForm = KeyStoreForm.PEM
    """Of the certificate and the key, which are one file in the form PKCS12."""
    key_password: str = field(default="", repr=False)
    """It opens the key. Empty: the key needs none."""
    authorities_form: KeyStoreForm = KeyStoreForm.PEM
    authorities_password: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class CertificateEnd:
    """The end of a certificate that a node shows, or by which it believes others."""

    file: str
    position: int
    """Its number in the file, from 1 on."""
    end_ms: int
    """Since the Unix epoch."""


class ClientAuth(enum.Enum):
    """The demand on those that connect to show a certificate, by Kafka's names (`ssl.client.auth`)."""

    NONE = "none"
    REQUESTED = "requested"
    """They may."""
    REQUIRED = "required"


class TlsUse(enum.Enum):
    """Rolling restarts take an open cluster to TLS through all three of these, in this order, while it goes
    on serving."""

    ACCEPTED = "accepted"
    """Connections with TLS are accepted, and such without, whose other ends may be anybody. This end opens
    its own without."""
    PREFERRED = "preferred"
    """Both are accepted. This end opens its own with TLS."""
    REQUIRED = "required"


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsTerms:
    """The demands of a network with TLS on those that connect. With others than the default, which is that of
    members of a cluster, it only accepts connections."""

    client_auth: ClientAuth = ClientAuth.REQUIRED
    before_1_3: bool = False
    """TLS 1.2 is spoken too."""
    strict: bool = True
    """Certificates keep RFC 5280 to the letter."""
    use: TlsUse = TlsUse.REQUIRED
    connects: bool = False
    """True: it only connects, and the certificate of the other end has to name the host that was dialled. A
    certificate of its own may be missing."""
    any_host: bool = False
    """True, where `connects` is: the certificate of the other end may name other hosts, because
    `Stream.identities` tells who it is."""


MEMBERS: Final = TlsTerms()


class Stream(Protocol):
    """One connection. One task may receive while another sends."""

    @property
    def peer(self) -> str:
        """The address of the other end, for log lines."""
        ...

    @property
    def identities(self) -> tuple[str, ...] | None:
        """The URIs in the verified certificate of the other end. Empty before the handshake. None: there is
        no TLS."""
        ...

    @property
    def subject(self) -> str | None:
        """The name in the verified certificate of the other end, in the form of RFC 2253. None: there is no
        certificate."""
        ...

    @property
    def certificate_end_ms(self) -> int | None:
        """The end of the verified certificate of the other end, in ms since the Unix epoch. None: there is no
        certificate, or no handshake yet."""
        ...

    async def handshake(self) -> None:
        """Complete the handshake of TLS on an accepted connection, before anything is received or sent. It
        has no timeout of its own. Without TLS nothing happens. Raises `TlsError`, `NetworkError`."""
        ...

    async def receive_some(self, max_bytes: int = 65536) -> bytes:
        """Return at least one byte, or none at the end of the stream. Raises `NetworkError`."""
        ...

    async def receive_into(self, buffer: memoryview) -> int:
        """Fill the start of `buffer` and return the number of bytes. 0: the end of the stream. Raises
        `NetworkError`."""
        ...

    def send_nowait(self, buffers: Sequence[Buffer]) -> int:
        """Give the network as many bytes as it takes without waiting, and return their number, from 0 to all.

        Call it only when no `send` is in progress. Raises `NetworkError`.
        """
        ...

    async def send(self, buffers: Sequence[Buffer]) -> None:
        """Send all buffers in order. Raises `NetworkError`. After an error or a cancellation any prefix may
        have been sent, and the stream must be closed."""
        ...

    def close(self) -> None:
        """Close the stream at once. Idempotent. A task that is receiving or sending gets `NetworkError`."""
        ...


class Listener(Protocol):
    """A socket that accepts connections."""

    @property
    def address(self) -> Address:
        """The bound address, with the real port if 0 was requested."""
        ...

    async def accept(self) -> Stream:
        """Return the next connection. Raises `NetworkError` if the listener breaks."""
        ...

    def room(self) -> int | None:
        """The number of further connections that leave the process enough file descriptors. None: no limit. A
        listener for clients refuses connections at 0."""
        ...

    def close(self) -> None:
        """Stop listening. Open connections stay open."""
        ...


class Network(Protocol):
    """The network of a node: it opens and accepts connections."""

    @property
    def identities(self) -> tuple[str, ...] | None:
        """The URIs in the certificate of this end. None: there is no TLS."""
        ...

    @property
    def certificates(self) -> Sequence[CertificateEnd]:
        """The certificates in use: those of this end, then those of the authorities. Empty without TLS."""
        ...

    async def connect(self, address: Address) -> Stream:
        """Open a connection. It has no timeout of its own, so use a cancel scope. Raises
        `ConnectRefusedError` if every address of the host refuses, else `NetworkError`."""
        ...

    async def listen(self, address: Address) -> Listener:
        """Bind an address. Raises `AddressInUseError` or `NetworkError`."""
        ...

    def secured(self, files: TlsFiles, terms: TlsTerms = MEMBERS) -> "Network":
        """Return the same network with TLS on each connection, where both ends show certificates, unless
        `terms` say otherwise. Its `connect` raises `TlsError` too. Names of hosts are not compared with
        those in certificates: see `Stream.identities`. Raises `TlsFilesError`."""
        ...
