"""TLS on non-blocking sockets: the standard library's `ssl`, driven as `tcp` drives plain
connections.

Measured with both ends in one process (2 cores, OpenSSL 3.0), CPU per GB: plain sockets 0.35 s, this 1.2 s,
trio's `SSLStream` 2 s and more, the cipher alone 0.5 s.

Nothing else may touch the descriptor of such a connection: what is written past OpenSSL goes out in
plaintext.
"""

import ssl
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Final, TypeVar

import trio

from quorate.runtime.disk import Buffer
from quorate.runtime.network import (
    MEMBERS,
    Address,
    CertificateEnd,
    NetworkError,
    Stream,
    TlsError,
    TlsFiles,
    TlsTerms,
    TlsUse,
)
from quorate.runtime.real import tcp
from quorate.runtime.real.tls_contexts import TlsContexts, X509Name, end_of, issuer_of, subject_of, uris_of
from quorate.runtime.real.tls_watch import ExpiryLog, TlsWatch
from quorate.runtime.stream_over import StreamOver

_RECORD_BYTES: Final = 16 * 1024
"""The most plaintext of one record. Smaller buffers are joined up to it."""
_AT_ONCE_MAX_BYTES: Final = 256 * 1024
"""Of a send, and of a receive into a buffer: 0.1 ms of the cipher."""
_TLS_HANDSHAKE: Final = b"\x16"
"""The first byte of TLS. Neither the quorum's preface begins with it nor a request of Kafka's, whose length
would be over 352 MiB."""
T = TypeVar("T")

_FAULTS: Final = {
    "WRONG_VERSION_NUMBER": "it does not speak TLS",
    "HTTP_REQUEST": "it speaks HTTP without TLS",
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": "it shows no certificate",
    "UNSUPPORTED_PROTOCOL": "it speaks no version of TLS that is served here",
    "TLSV1_ALERT_UNKNOWN_CA": "it does not know the authority of this end's certificate",
    "SSLV3_ALERT_CERTIFICATE_EXPIRED": "it says that this end's certificate has expired; compare the clocks",
    "TLSV13_ALERT_CERTIFICATE_REQUIRED": "it demands a certificate of this end",
}


class TlsStream(tcp.TcpStream):
    """`quorate.runtime.network.Stream` with TLS, over a connected socket."""

    __slots__ = (
        "__weakref__",
        "_certificate_end_ms",
        "_era",
        "_error",
        "_identities",
        "_issuer",
        "_subject",
        "_tls",
        "_watch",
    )

    def __init__(
        self,
        stream: tcp.TcpStream,
        context: ssl.SSLContext,
        watch: TlsWatch,
        *,
        server_side: bool,
        host: str | None = None,
    ) -> None:
        # It takes the descriptor over, and closes it if it fails.
        tls = context.wrap_socket(
            stream._socket, server_side=server_side, do_handshake_on_connect=False, server_hostname=host
        )
        super().__init__(tls, stream.peer)
        self._tls = tls
        self._error: OSError | None = None
        self._identities: tuple[str, ...] = ()
        self._subject: str | None = None
        self._certificate_end_ms: int | None = None
        self._issuer: X509Name | None = None
        self._watch = watch
        self._era = watch.contexts.era
        watch.begin(self)

    @property
    def identities(self) -> tuple[str, ...] | None:
        return self._identities

    @property
    def subject(self) -> str | None:
        return self._subject

    @property
    def certificate_end_ms(self) -> int | None:
        return self._certificate_end_ms

    async def handshake(self) -> None:
        await self._when_ready(self._tls.do_handshake)
        self._issuer = issuer_of(self._tls)
        if not self.vouched_for:
            raise TlsError(f"{self._peer}: the authority of its certificate was removed meanwhile")
        self._identities = uris_of(self._tls)
        self._subject = subject_of(self._tls)
        self._certificate_end_ms = end_of(self._tls)

    @property
    def vouched_for(self) -> bool:
        """Whether an authority of now vouches for the certificate of the other end, if it has shown one."""
        return self._issuer is None or self._watch.contexts.vouch_for(self._issuer, self._era)

    def close(self) -> None:
        self._watch.end(self)
        super().close()

    async def receive_some(self, max_bytes: int = 65536) -> bytes:
        await self._wait()
        data: bytes | None = await self._when_ready(lambda: self._tls.read(min(max_bytes, _RECORD_BYTES)))
        pieces: list[bytes] = []
        left = max_bytes
        while data:
            pieces.append(data)
            left -= len(data)
            data = self._further(self._tls.read, min(left, _RECORD_BYTES)) if left else None
        return b"".join(pieces)

    async def receive_into(self, buffer: memoryview) -> int:
        await self._wait()
        end = min(len(buffer), _AT_ONCE_MAX_BYTES)
        received = last = await self._when_ready(lambda: self._tls.recv_into(buffer, end))
        while last and received < end:
            last = self._further(self._tls.recv_into, buffer[received:], end - received) or 0
            received += last
        return received

    def _further(self, read: Callable[..., T], *arguments: object) -> T | None:
        """Read what has arrived besides. Not to find anything costs 2 us. One record at a time would cost a
        pass through the scheduler each, and a burst of requests its batches. An error is for the next receive
        to tell."""
        try:
            return read(*arguments)
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return None
        except OSError as error:
            self._error = error
            return None

    async def _wait(self) -> None:
        """Until something has arrived."""
        if self._error is not None:
            raise self._broken(self._error) from self._error
        # Of the rest of a record the socket knows nothing. Of others it does: OpenSSL reads one at a time.
        if self._tls.pending():
            await trio.lowlevel.checkpoint()
            return
        try:
            await trio.lowlevel.wait_readable(self._open())
        except (OSError, trio.ClosedResourceError) as error:
            raise self._broken(error) from error

    async def _when_ready(self, act: Callable[[], T]) -> T:
        try:
            while True:
                self._open()
                try:
                    return act()
                except ssl.SSLWantReadError:
                    await trio.lowlevel.wait_readable(self._open())
                except ssl.SSLWantWriteError:
                    await trio.lowlevel.wait_writable(self._open())
        except (OSError, trio.ClosedResourceError) as error:
            raise self._broken(error) from error

    def send_nowait(self, buffers: Sequence[Buffer]) -> int:
        """A record that the socket took in part is kept by OpenSSL, and is not counted as sent. The next call
        begins with the same bytes, at least as many of a record, as OpenSSL demands."""
        sent = 0
        try:
            self._open()
            for piece in _pieces(buffers):
                taken = self._tls.send(piece)
                sent += taken
                if taken < len(piece) or sent >= _AT_ONCE_MAX_BYTES:
                    break
        except (ssl.SSLWantWriteError, ssl.SSLWantReadError):
            pass
        except (OSError, trio.ClosedResourceError) as error:
            raise self._broken(error) from error
        return sent

    def _broken(self, error: BaseException) -> NetworkError:
        if self._closed or not isinstance(error, ssl.SSLError):
            return super()._broken(error)
        if isinstance(error, ssl.SSLCertVerificationError):
            return TlsError(f"{self._peer}: its certificate is not accepted: {error.verify_message}")
        reason = _FAULTS.get(error.reason or "", error.reason or str(error))
        return TlsError(f"{self._peer}: {reason}")


def _pieces(buffers: Sequence[Buffer]) -> list[Buffer]:
    """Join small buffers up to a record: each record costs 4 us and 22 bytes."""
    pieces: list[Buffer] = []
    small: list[Buffer] = []
    size = total = 0
    for buffer in buffers:
        total += len(buffer)
        if len(buffer) >= _RECORD_BYTES:
            if small:
                pieces.append(b"".join(small))
                small, size = [], 0
            pieces.append(memoryview(buffer)[:_AT_ONCE_MAX_BYTES])
        else:
            small.append(buffer)
            size += len(buffer)
            if size >= _RECORD_BYTES:
                pieces.append(b"".join(small))
                small, size = [], 0
        if total >= _AT_ONCE_MAX_BYTES:
            break
    if small:
        pieces.append(b"".join(small))
    return pieces


class UndecidedStream(StreamOver):
    """`quorate.runtime.network.Stream` that speaks TLS or not, as its first byte tells in the handshake."""

    __slots__ = ("_plain", "_watch")

    def __init__(self, stream: tcp.TcpStream, watch: TlsWatch) -> None:
        super().__init__(stream)
        self._plain = stream
        self._watch = watch

    async def handshake(self) -> None:
        if await self._plain.peek() == _TLS_HANDSHAKE:
            try:
                self._stream = TlsStream(
                    self._plain, self._watch.contexts.server, self._watch, server_side=True
                )
            except OSError as error:
                raise NetworkError(f"{self._plain.peer}: {error}") from error
        await super().handshake()


class TlsListener:
    """`quorate.runtime.network.Listener` whose connections still have to greet."""

    __slots__ = ("__weakref__", "_listener", "_use", "_watch")

    def __init__(self, listener: tcp.TcpListener, watch: TlsWatch, use: TlsUse) -> None:
        self._listener = listener
        self._watch = watch
        self._use = use
        watch.begin_listening(self)

    @property
    def address(self) -> Address:
        return self._listener.address

    def room(self) -> int:
        return self._listener.room()

    async def accept(self) -> Stream:
        while True:
            stream = await self._listener.accept()
            if self._use is not TlsUse.REQUIRED:
                return UndecidedStream(stream, self._watch)
            with suppress(OSError):  # It is gone again.
                return TlsStream(stream, self._watch.contexts.server, self._watch, server_side=True)

    def close(self) -> None:
        self._watch.end_listening(self)
        self._listener.close()


class TlsNetwork:
    """`quorate.runtime.network.Network` with TLS on each connection."""

    __slots__ = ("_expiry", "_use", "_watch")

    def __init__(self, files: TlsFiles, terms: TlsTerms, expiry: ExpiryLog) -> None:
        """`expiry`: one for all networks of a node. Raises `TlsFilesError`."""
        self._expiry = expiry
        self._use = terms.use
        self._watch = TlsWatch(TlsContexts(files, replace(terms, use=TlsUse.REQUIRED)), expiry)

    @property
    def identities(self) -> tuple[str, ...] | None:
        return self._watch.contexts.identities

    @property
    def certificates(self) -> Sequence[CertificateEnd]:
        return self._watch.contexts.certificates

    async def connect(self, address: Address) -> Stream:
        plain = await tcp.connect(address)
        if self._use is TlsUse.ACCEPTED:
            return plain
        try:
            stream = self._over(plain, address)
        except OSError as error:
            raise NetworkError(f"can't connect to {address}: {error}") from error
        try:
            await stream.handshake()
        except BaseException:
            stream.close()
            raise
        return stream

    def _over(self, plain: tcp.TcpStream, address: Address) -> TlsStream:
        """Return the stream, which has yet to greet."""
        context = self._watch.contexts.client
        return TlsStream(plain, context, self._watch, server_side=False, host=address.host)

    async def listen(self, address: Address) -> TlsListener:
        return TlsListener(await tcp.listen(address), self._watch, self._use)

    def secured(self, files: TlsFiles, terms: TlsTerms = MEMBERS) -> "TlsNetwork":
        return TlsNetwork(files, terms, self._expiry)
