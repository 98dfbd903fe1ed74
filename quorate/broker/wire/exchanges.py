"""The values that pass between a connection and its broker."""

import math
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import field
from typing import Final, Protocol, TypeAlias

import trio
from kio.schema.errors import ErrorCode
from kio.static.protocol import RequestPayload, ResponsePayload

from quorate.broker.wire.api import Api
from quorate.broker.wire.budget import MemoryBudget
from quorate.broker.wire.codecs.fetch_codec import KafkaFetchRequest
from quorate.broker.wire.codecs.produce_codec import ProduceRequest
from quorate.broker.wire.listener_security import SaslMechanism
from quorate.broker.wire.principals import ANONYMOUS, Principal
from quorate.runtime import Buffer
from quorate.value import value

Request: TypeAlias = ProduceRequest | KafkaFetchRequest | RequestPayload
"""A decoded request: hand-written types for Produce and Fetch, kio's class of the version for the rest."""


@value(frozen=True, slots=True)
class EncodedResponse:
    """A response body already encoded, as pieces that must not change until they were sent."""

    body: Sequence[Buffer]


Response: TypeAlias = ResponsePayload | EncodedResponse


_NEVER_SHORT: Final = 1 << 62


class Gate:
    """Closed while a client that has used more than its quota has to wait: its connection's next request is
    not looked at (KIP-219)."""

    __slots__ = ("opens_at",)

    def __init__(self) -> None:
        self.opens_at = -math.inf
        """On trio's clock."""

    def close_for(self, seconds: float) -> None:
        self.opens_at = max(self.opens_at, trio.current_time() + seconds)


class Kept:
    """The state that handlers keep with a connection, from one request to the next."""

    __slots__ = ("fetch", "sender")

    def __init__(self) -> None:
        self.fetch: object = None
        """Of the handler of Fetch."""
        self.sender: object = None
        """Of the checks of what the client may do."""


@value(frozen=True, slots=True, kw_only=True)
class ConnectionContext:
    """The properties that all requests of a connection share."""

    id: int
    peer: str
    """host:port of the client, for log lines and the member's host in groups."""
    listener: str
    """Name of the listener that accepted it, such as PLAINTEXT."""
    principal: Principal = ANONYMOUS
    mechanism: SaslMechanism | None = None
    """The mechanism of its login; None: it has none."""
    gate: Gate = field(default_factory=Gate)
    kept: Kept = field(default_factory=Kept)
    memory: MemoryBudget = field(default_factory=lambda: MemoryBudget(_NEVER_SHORT))
    """The account of requests, and of the records that are unpacked for them."""


@value(frozen=True, slots=True)
class RequestContext:
    connection: ConnectionContext
    api: Api
    version: int
    correlation_id: int
    client_id: str | None
    repeated: bool = False
    """Whether the connection has sent the same before and got the same request object for it."""


class Deferred:
    """An answer that comes later. Made by a handler, which returns it and completes it exactly once.

    The connection goes on to its next requests meanwhile, and still answers in request order. Completing is
    cheap and may be done from any task. `on_abandon` is called if the connection ends before completion.
    """

    __slots__ = ("_abandoned", "_on_abandon", "_on_done", "_outcome", "loop_s")

    def __init__(self, on_abandon: Callable[[], None] | None = None) -> None:
        self._outcome: Response | Exception | Callable[[], Awaitable[Response]] | None = None
        self._on_done: Callable[[], None] | None = None
        self._on_abandon = on_abandon
        self._abandoned = False
        self.loop_s = 0.0
        """The seconds that the work for it took of the event loop, where they are counted."""

    @property
    def done(self) -> bool:
        return self._outcome is not None

    @property
    def encoded(self) -> EncodedResponse | None:
        """The answer, if it is there and encoded."""
        return self._outcome if isinstance(self._outcome, EncodedResponse) else None

    @property
    def abandoned(self) -> bool:
        """Note that the connection has ended, so that the answer is not read. Completing it does nothing
        then."""
        return self._abandoned

    def complete(self, response: Response) -> None:
        self._settle(response)

    def complete_with(self, build: Callable[[], Awaitable[Response]]) -> None:
        """Complete with a response that is built when it is about to be sent: a slow consumer's answers take
        no memory before their turn."""
        self._settle(build)

    def fail(self, error: Exception) -> None:
        """Answer with the error's code, as if the handler had raised it."""
        self._settle(error)

    def _settle(self, outcome: Response | Exception | Callable[[], Awaitable[Response]]) -> None:
        if self._outcome is not None:
            raise RuntimeError("a deferred response was completed twice")
        self._outcome = outcome
        if self._on_done is not None:
            self._on_done()

    async def result(self) -> Response:
        """Return the response, once `done`. Raises the handler's error. Called by the connection."""
        outcome = self._outcome
        if isinstance(outcome, Exception):
            raise outcome
        if callable(outcome):
            return await outcome()
        if outcome is None:
            raise RuntimeError("a deferred response was read before it was completed")
        return outcome

    def notify(self, on_done: Callable[[], None]) -> None:
        """Register the connection's callback. It is called once: on completion, or now if completed."""
        self._on_done = on_done
        if self._outcome is not None:
            on_done()

    def abandon(self) -> None:
        """Tell the handler that the connection has ended."""
        self._abandoned = True
        self._on_done = None
        if self._outcome is None and self._on_abandon is not None:
            self._on_abandon()


@value(frozen=True, slots=True)
class CloseConnection:
    """The outcome where the protocol has no answer that could carry an error: the client sees the connection
    close, and asks for the leader."""

    reason: str


Answer: TypeAlias = Response | Deferred | CloseConnection | None


@value(frozen=True, slots=True)
class Refusal:
    """The contents of an answer that says an error of everything in its request. `version`: that of the
    answer."""

    version: int
    code: ErrorCode
    message: str | None = None


class ServedApi(Protocol):
    """An API of a listener."""

    @property
    def api(self) -> Api:
        """The form of its messages."""
        ...

    async def refusal(self, request: Request, refusal: Refusal) -> Response:
        """Return the answer that refuses all of `request`, which is of this API. Other tasks run every few
        milliseconds, because the request may be large."""
        ...


class RequestHandler(Protocol):
    """The broker behind the listener."""

    @property
    def apis(self) -> Mapping[int, ServedApi]:
        """The APIs that the listener serves, by key. It serves `CONNECTION_APIS` itself, besides these."""
        ...

    async def handle(self, context: RequestContext, request: Request) -> Answer:
        """Answer one request. Requests of a connection come one after the other, in order: the next is not
        read before this returns, so what must wait for others returns a `Deferred`.

        None and `CloseConnection` only for Produce with acks=0, which an exception closes too. Otherwise an
        exception becomes the API's error response by the error table.
        A request's record bytes are views of the receive buffer and count against the memory limit until
        this returns; whoever keeps them longer keeps the buffer.
        """
        ...
