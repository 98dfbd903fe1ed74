"""The listener that clients connect to."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

import trio

from quorate.broker.settings.client_settings import KafkaServerConfig
from quorate.broker.wire.api import APIS
from quorate.broker.wire.budget import MemoryBudget, ResponseBudget
from quorate.broker.wire.connection import Connection, ConnectionLimits, LateFrame
from quorate.broker.wire.connection_quotas import ConnectionQuotas, Place, address_of
from quorate.broker.wire.exchanges import ConnectionContext, RequestHandler
from quorate.broker.wire.feature_levels import NO_FEATURES, Features
from quorate.broker.wire.listener_security import UNPROTECTED, ListenerSecurity
from quorate.broker.wire.loop_time import NothingCounted, RequestTimes
from quorate.broker.wire.principals import ANONYMOUS, Principal
from quorate.broker.wire.sasl.credentials import Credentials, Tokens
from quorate.broker.wire.sasl.login import Login, LoginCounts, Logins
from quorate.broker.wire.wire_errors import ErrorTable
from quorate.runtime import Compute, Entropy, Listener, NetworkError, Stream, get_logger

log = get_logger(__name__)

_REFUSALS_SAID_EVERY_S: Final = 1.0
_MOST_HELD_BACK: Final = 1000
"""Connections that wait to be closed. Others beyond it are closed at once."""
_HANDSHAKE_S: Final = 10.0
"""The time that a handshake of TLS may take."""


@dataclass(frozen=True, slots=True)
class ServerStatistics:
    connections: int
    connections_accepted: int
    connections_refused: int
    request_bytes_held: int
    response_bytes_held: int
    logins: LoginCounts = field(default_factory=LoginCounts)


class WireServer:
    """Serves one listener until cancelled. Cancelling closes every connection at once."""

    def __init__(
        self,
        listener: Listener | None,
        handler: RequestHandler,
        config: KafkaServerConfig,
        *,
        errors: ErrorTable | None = None,
        features: Callable[[], Features] = lambda: NO_FEATURES,
        listener_name: str = "PLAINTEXT",
        quotas: ConnectionQuotas | None = None,
        times: RequestTimes | None = None,
        security: ListenerSecurity = UNPROTECTED,
        identify: Callable[[Stream], Principal] = lambda stream: ANONYMOUS,
        credentials: Credentials | None = None,
        entropy: Entropy | None = None,
        compute: Compute | None = None,
        tokens: Tokens | None = None,
    ) -> None:
        """`listener`: None if another one accepts the connections, and passes them to `serve`. `quotas`:
        those of all listeners of the node; its own without. `times` counts the time that requests take of the
        event loop. `identify`: returns who is at the other end by its certificate, or raises `TlsError`.
        `credentials`, `entropy` and `compute`: needed if `security` has SASL, for logins; `tokens`
        with OAUTHBEARER too."""
        self._listener = listener
        self._handler = handler
        self._forms = {**APIS, **{key: served.api for key, served in handler.apis.items()}}
        self._config = config
        self._errors = errors or ErrorTable()
        self._features = features
        self._listener_name = listener_name
        self._connections: dict[int, Connection] = {}
        self._quotas = quotas or ConnectionQuotas(config.connections)
        self._times = times or NothingCounted()
        self._security = security
        self._identify = identify
        self._logins: Logins | None = None
        if security.protocol.sasl:
            if credentials is None or entropy is None or compute is None:
                raise ValueError(
                    f"listener {listener_name} has SASL, so it needs credentials, entropy and compute"
                )
            if security.tokens is not None and tokens is None:
                raise ValueError(f"listener {listener_name} has OAUTHBEARER, so it needs tokens")
            self._logins = Logins(security, credentials, entropy=entropy, compute=compute, tokens=tokens)
        self._held_back = 0
        self._refusal_said_at = -math.inf
        self._accepted = 0
        self._refused = 0
        self._requests = MemoryBudget(config.queued_max_request_bytes)
        self._responses = ResponseBudget(config.queued_max_response_bytes)
        self._limits = ConnectionLimits(
            max_frame_bytes=config.request_max_bytes,
            max_pending_responses=config.max_pending_responses,
            max_pending_bytes=config.max_pending_response_bytes,
            idle_timeout_s=config.idle_timeout_s,
            frame_timeout_s=config.frame_timeout_s,
            send_timeout_s=config.send_timeout_s,
        )

    def statistics(self) -> ServerStatistics:
        return ServerStatistics(
            len(self._connections),
            self._accepted,
            self._refused,
            self._requests.limit - self._requests.available,
            self._responses.used,
            LoginCounts() if self._logins is None else self._logins.counts,
        )

    def close_where(self, fits: Callable[[ConnectionContext], bool]) -> int:
        """Close the connections whose context fits, at once: what they have sent and was not handled yet is
        dropped. Return their number."""
        closed = [each for each in self._connections.values() if fits(each.context)]
        for each in closed:
            each.close()
        return len(closed)

    async def run(self) -> None:
        """Serve until cancelled. Raises `NetworkError` if the listener breaks."""
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._sweep)
                nursery.start_soon(self._relieve)
                while self._listener is not None:
                    await self._accept_next(self._listener, nursery)
        finally:
            if self._listener is not None:
                self._listener.close()

    async def _accept_next(self, listener: Listener, nursery: trio.Nursery) -> None:
        stream = await listener.accept()
        taken = False
        try:
            await self._quotas.wait_turn(self._listener_name)
            too_quick_s = self._quotas.too_quick_s(address_of(stream.peer))
            if too_quick_s > 0:
                nursery.start_soon(self._hold_back, stream, too_quick_s)
            elif (connection := self._admitted(stream)) is not None:
                nursery.start_soon(self._run, *connection)
            taken = True
        finally:
            if not taken:
                stream.close()

    async def serve(self, stream: Stream) -> None:
        """Serve a connection that another listener accepted, until it ends."""
        admitted = self._admitted(stream)
        if admitted is not None:
            _, connection, _ = admitted
            connection.known_as(self._identify(stream))
            await self._run(*admitted)

    async def _hold_back(self, stream: Stream, seconds: float) -> None:
        """Close a connection of an address that opens them too quickly, after a while: most clients try again
        at once (KIP-612)."""
        room = None if self._listener is None else self._listener.room()
        self._held_back += 1
        try:
            if self._held_back <= _MOST_HELD_BACK and (room is None or room > 0):
                await trio.sleep(seconds)
        finally:
            self._held_back -= 1
            self._refuse(
                stream, f"{address_of(stream.peer)} opens them too quickly (connection_creation_rate)"
            )

    def _refusal(self, address: str) -> str | None:
        """Return the reason to refuse one more connection from `address`, or None."""
        quotas = self._quotas
        if quotas.full(self._listener_name):
            return f"{quotas.count} are open (max.connections)"
        refusal = quotas.refusal(address)
        if refusal is not None:
            return refusal
        room = None if self._listener is None else self._listener.room()
        if room is not None and room <= 0:
            return (
                "logs and other nodes need the file descriptors that are left; raise the limit (ulimit -n, "
                "LimitNOFILE= of systemd, --ulimit nofile= of Docker)"
            )
        return None

    def _refuse(self, stream: Stream, reason: str) -> None:
        """Close the connection, with a log line per second at most: a client that connects in a loop would
        fill the disk."""
        self._refused += 1
        now = trio.current_time()
        if now - self._refusal_said_at >= _REFUSALS_SAID_EVERY_S:
            log.warning("connections are refused", peer=stream.peer, reason=reason, so_far=self._refused)
            self._refusal_said_at = now
        stream.close()

    def _admitted(self, stream: Stream) -> tuple[Stream, Connection, Place] | None:
        """Return the connection that serves the stream; None if it was refused."""
        address = address_of(stream.peer)
        refusal = self._refusal(address)
        if refusal is not None:
            self._refuse(stream, refusal)
            return None
        self._accepted += 1
        context = ConnectionContext(
            id=self._accepted, peer=stream.peer, listener=self._listener_name, memory=self._requests
        )
        connection = Connection(
            stream,
            context,
            self._handler,
            errors=self._errors,
            features=self._features,
            limits=self._limits,
            response_budget=self._responses,
            forms=self._forms,
            times=self._times,
            login=None if self._logins is None else Login(self._logins, peer=stream.peer),
        )
        self._connections[connection.id] = connection
        return stream, connection, self._quotas.add(self._listener_name, address, connection)

    async def _greet(self, stream: Stream, connection: Connection) -> bool:
        """Complete the handshake of TLS. Return False if there is none, and the connection is closed."""
        try:
            with trio.fail_after(_HANDSHAKE_S):
                await stream.handshake()
            connection.known_as(self._identify(stream))
        except trio.TooSlowError:
            # The controllers' watch, for one, says nothing.
            log.debug("connection closed", peer=stream.peer, reason=f"no TLS within {_HANDSHAKE_S:g} s")
            stream.close()
            return False
        except NetworkError as error:
            self._refuse(stream, str(error))
            return False
        return True

    async def _run(self, stream: Stream, connection: Connection, place: Place) -> None:
        try:
            if self._security.tls is None or await self._greet(stream, connection):
                await connection.run()
        except Exception as error:
            # A bug of ours on one connection must not take the others down.
            log.error("connection failed", peer=connection.peer, exc_info=error)
        finally:
            stream.close()
            del self._connections[connection.id]
            self._quotas.remove(place)

    async def _sweep(self) -> None:
        """Enforce all deadlines of all connections with one timer."""
        while True:
            await trio.sleep(self._config.sweep_interval_s)
            now = trio.current_time()
            for connection in list(self._connections.values()):
                reason = connection.overdue(now)
                if reason is not None:
                    connection.close(reason)

    async def _relieve(self) -> None:
        """Free memory that slow peers hold and don't fill, if others wait for it."""
        while True:
            await self._requests.wait_wanted()
            await trio.sleep(self._config.relief_interval_s)
            self._make_room(trio.current_time())

    def _make_room(self, now: float) -> None:
        """Close peers that hold memory and are late in filling it, those with the least of it first, until
        waiting requests have enough."""
        late = [
            (frame, connection)
            for connection in self._connections.values()
            if (frame := connection.late_frame(now)) is not None
        ]
        late.sort(key=lambda each: each[0].arrived)
        wanted_of_large, wanted = self._requests.wanted_of_large, self._requests.wanted
        closed: list[tuple[LateFrame, Connection]] = []
        for frame, connection in late:
            if wanted > 0 or (frame.large and wanted_of_large > 0):
                closed.append((frame, connection))
                wanted -= frame.held
                wanted_of_large -= frame.held if frame.large else 0
        for _, connection in closed:
            connection.close()
        if closed:
            frame, connection = closed[0]
            log.warning(
                "connections closed because others wait for their memory",
                connections=len(closed),
                first_peer=connection.peer,
                reason=f"{frame.arrived} bytes of a request have come, the rest is late, and it holds "
                f"{frame.held} bytes of queued.max.request.bytes",
            )
