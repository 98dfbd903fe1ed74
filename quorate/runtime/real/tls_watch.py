"""The look at a node's TLS files while connections are open, and the end of those that a removed authority
vouched for."""

import time
from collections.abc import Sequence
from typing import Final, Protocol
from weakref import WeakSet

import trio

from quorate.runtime.event_log import get_logger
from quorate.runtime.network import CertificateEnd
from quorate.runtime.real.tls_contexts import TlsContexts

log = get_logger(__name__)

LOOK_SECONDS: Final = 2.0
"""Between two looks at the files."""
SPREAD_SECONDS: Final = 5.0
"""The time over which the connections of a removed authority end, so that they don't all come again at once.
With the look before it they have ended 10 s after the file was changed."""

WARN_DAYS: Final = 30
"""The days before the end of a certificate from which on the log warns of it, once a day."""
_DAY_SECONDS: Final = 86_400


class ExpiryLog:
    """The warnings of certificates that end, of all networks of a node."""

    def __init__(self) -> None:
        self._said: dict[CertificateEnd, float] = {}
        """When the last warning was."""

    def tell(self, certificates: Sequence[CertificateEnd], *, now_s: float) -> None:
        """Warn of each certificate that ends soon or has ended, unless that was said on this day."""
        for each in certificates:
            left_s = each.end_ms / 1000 - now_s
            if left_s > WARN_DAYS * _DAY_SECONDS or now_s - self._said.get(each, 0.0) < _DAY_SECONDS:
                continue
            self._said[each] = now_s
            if left_s <= 0:
                log.error(
                    "a certificate has ended",
                    file=each.file,
                    position=each.position,
                    reason="new connections fail; replace it, as with `quorate certs rotate`",
                )
            else:
                log.warning(
                    "a certificate ends soon",
                    file=each.file,
                    position=each.position,
                    days=int(left_s / _DAY_SECONDS),
                    reason="replace it, as with `quorate certs rotate`",
                )


class Watched(Protocol):
    """A listener, or a connection."""

    def close(self) -> None: ...


class WatchedConnection(Watched, Protocol):
    @property
    def vouched_for(self) -> bool: ...


class TlsWatch:
    """The contexts of one network, and what is open on it. A task of its own looks at the files as long as
    anything is."""

    def __init__(self, contexts: TlsContexts, expiry: ExpiryLog) -> None:
        self.contexts = contexts
        self._expiry = expiry
        self._connections: WeakSet[WatchedConnection] = WeakSet()
        self._listeners: WeakSet[Watched] = WeakSet()
        self._runs = False

    def begin(self, connection: WatchedConnection) -> None:
        """Watch a connection until `end`."""
        self._connections.add(connection)
        self._start()

    def end(self, connection: WatchedConnection) -> None:
        self._connections.discard(connection)

    def begin_listening(self, listener: Watched) -> None:
        """Look at the files until `end_listening`."""
        self._listeners.add(listener)
        self._start()

    def end_listening(self, listener: Watched) -> None:
        self._listeners.discard(listener)

    def _start(self) -> None:
        if not self._runs:
            self._runs = True
            # A network has no nursery, and connections outlive the tasks that open them.
            trio.lowlevel.spawn_system_task(self._run, name="look at TLS files")

    async def _run(self) -> None:
        try:
            era = self.contexts.era
            while self._connections or self._listeners:
                self._expiry.tell(self.contexts.certificates, now_s=time.time())
                await trio.sleep(LOOK_SECONDS)
                self.contexts.look()
                # Also after a new connection has looked.
                if era != self.contexts.era:
                    era = self.contexts.era
                    await _end([each for each in self._connections if not each.vouched_for])
        finally:
            self._runs = False


async def _end(connections: Sequence[WatchedConnection]) -> None:
    if connections:
        log.info("connections end, whose authority was removed", connections=len(connections))
    for connection in connections:
        connection.close()
        await trio.sleep(SPREAD_SECONDS / len(connections))
