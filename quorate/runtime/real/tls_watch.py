"""The look at a node's TLS files while connections are open, and the end of those that a removed authority
vouched for."""

from collections.abc import Sequence
from typing import Final, Protocol
from weakref import WeakSet

import trio

from quorate.runtime.event_log import get_logger
from quorate.runtime.real.tls_contexts import TlsContexts

log = get_logger(__name__)

LOOK_SECONDS: Final = 2.0
"""Between two looks at the files."""
SPREAD_SECONDS: Final = 5.0
"""The time over which the connections of a removed authority end, so that they don't all come again at once.
With the look before it they have ended 10 s after the file was changed."""


class Watched(Protocol):
    """A listener, or a connection."""

    def close(self) -> None: ...


class WatchedConnection(Watched, Protocol):
    @property
    def vouched_for(self) -> bool: ...


class TlsWatch:
    """The contexts of one network, and what is open on it. A task of its own looks at the files as long as
    anything is."""

    def __init__(self, contexts: TlsContexts) -> None:
        self.contexts = contexts
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
