"""A client connection: a reader that handles requests in order, a writer that answers in order."""

import math
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import trio
from kio.schema.errors import ErrorCode

from quorate.broker.wire.api import API_VERSIONS, Api, ApiKey
from quorate.broker.wire.budget import ResponseBudget
from quorate.broker.wire.codecs.fetch_codec import KafkaFetchRequest
from quorate.broker.wire.codecs.produce_codec import ProduceRequest, decode_produce_steps
from quorate.broker.wire.exchanges import (
    Answer,
    CloseConnection,
    ConnectionContext,
    Deferred,
    EncodedResponse,
    Refusal,
    Request,
    RequestContext,
    RequestHandler,
    Response,
)
from quorate.broker.wire.feature_levels import NO_FEATURES, Features
from quorate.broker.wire.framing import SLOWEST_BYTES_PER_S, KafkaFrameReader
from quorate.broker.wire.headers import RequestHeader, read_request_header, response_prefix
from quorate.broker.wire.loop_time import LoopTime, RequestTimes
from quorate.broker.wire.principals import Principal
from quorate.broker.wire.repeated_fetch import FetchMemory, RepeatedFetch, correlation_id
from quorate.broker.wire.request_codec import api_versions_response, decode_request, encode_response
from quorate.broker.wire.sasl.login import Login, LoginStep, refuse_sasl
from quorate.broker.wire.sending import join_small, remaining
from quorate.broker.wire.throttle_times import with_throttle
from quorate.broker.wire.wire_errors import ErrorTable
from quorate.kafka_bytes.varints import MalformedError
from quorate.runtime import Buffer, NetworkError, Stream, get_logger, in_slices

log = get_logger(__name__)

_SEND_BYTES: Final = 1024 * 1024
_LAST_ANSWER_S: Final = 5.0
"""The time that a peer has to accept the last answer of a login that failed."""
_REQUESTS_PER_TURN: Final = 32
"""Requests that are handled without giving other tasks a turn."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionLimits:
    """`max_pending_responses` and `max_pending_bytes`: answers not yet sent, above which no further request
    is handled (one response may go over). The time-outs say how long a peer may be
    silent, take for the rest of a frame, or take to accept an answer; large ones get more time."""

    max_frame_bytes: int
    max_pending_responses: int = 500
    max_pending_bytes: int = 8 * 1024 * 1024
    idle_timeout_s: float = 600.0
    frame_timeout_s: float = 60.0
    send_timeout_s: float = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LateFrame:
    """An unfinished frame, and the bytes of the request memory that it holds; `large`: of the share of large
    ones."""

    arrived: int
    held: int
    large: bool


@dataclass(slots=True)
class _WaitingAnswer:
    """An answer that is not there yet, and the data for its refusal."""

    context: RequestContext
    request: Request
    deferred: Deferred
    loop_s: float | None
    """The seconds that it has taken of the event loop already; None if they are not counted."""


@dataclass(slots=True)
class _Ready:
    pieces: Sequence[Buffer]
    size: int


class _CloseAskedError(Exception):
    """The handler wants the connection closed."""


class _LoginEndedError(Exception):
    """The login failed or has expired. It wrote a log line."""


class Connection:
    """Runs until the peer leaves, breaks protocol or is cut off. Errors end it with one log line."""

    def __init__(
        self,
        stream: Stream,
        context: ConnectionContext,
        handler: RequestHandler,
        *,
        errors: ErrorTable,
        features: Callable[[], Features],
        limits: ConnectionLimits,
        response_budget: ResponseBudget,
        forms: Mapping[int, Api],
        times: RequestTimes,
        login: Login | None = None,
    ) -> None:
        """`forms`: all APIs that are known, by key. The handler has those that are served. `login`: None if
        clients need none."""
        self._stream = stream
        self._context = context
        self._gate = context.gate
        self._handler = handler
        self._errors = errors
        self._features = features
        self._limits = limits
        self._forms = forms
        self._served = handler.apis
        self._shown = tuple(each.api for each in self._served.values())
        self._responses = response_budget
        self._times = times
        self._loop_time: LoopTime | None = None
        """Of the request that is handled; None if it is not counted."""
        self._frames = KafkaFrameReader(stream, max_frame_bytes=limits.max_frame_bytes, budget=context.memory)
        self._login = login
        if login is not None:
            self._frames.limit(login.max_receive_bytes, key="sasl.server.max.receive.size")
        self._fetches = FetchMemory()
        self._queue: deque[_WaitingAnswer | _Ready] = deque()
        self._pending_bytes = 0
        self._to_send = trio.lowlevel.ParkingLot()
        self._room = trio.lowlevel.ParkingLot()
        self._reason: str | None = None
        self._closed = False
        self._last_active = trio.current_time()
        self._busy = False
        self._sending = False
        self._send_deadline = math.inf
        self.requests = 0

    @property
    def id(self) -> int:
        return self._context.id

    @property
    def peer(self) -> str:
        return self._context.peer

    @property
    def context(self) -> ConnectionContext:
        return self._context

    def known_as(self, principal: Principal) -> None:
        """Take the further requests for those of `principal`."""
        self._context = replace(self._context, principal=principal)

    @property
    def last_active(self) -> float:
        """When the peer last sent or took something, on trio's clock."""
        return self._last_active

    async def run(self) -> None:
        """Serve until the connection is over. The stream is closed then, however it ended."""
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._write, nursery.cancel_scope)
                await self._read()
                nursery.cancel_scope.cancel()
        finally:
            self._stream.close()
            self._frames.release()
            self._responses.put_back(self._pending_bytes)
            for entry in self._queue:
                if isinstance(entry, _WaitingAnswer):
                    entry.deferred.abandon()
            if self._reason is not None:
                log.warning("connection closed", peer=self._context.peer, reason=self._reason)

    def close(self, reason: str | None = None) -> None:
        """End the connection from outside. `reason`: for its log line; None if the caller writes one."""
        if self._reason is None:
            self._reason = reason
        self._closed = True
        self._stream.close()

    def overdue(self, now: float) -> str | None:
        """Return the reason to close the connection at `now`, or None."""
        limits = self._limits
        if now > self._send_deadline:
            return f"the peer did not take what it asked for within {limits.send_timeout_s:g} s"
        if self._busy:
            return None
        started = self._frames.frame_started_at
        allowed = limits.frame_timeout_s + self._frames.arrived_bytes / SLOWEST_BYTES_PER_S
        if started is not None and now - started > allowed:
            return f"a frame was not complete {now - started:.0f} s after its first byte"
        if not self._queue and now - self._last_active > limits.idle_timeout_s:
            return f"idle for {limits.idle_timeout_s:g} s (connections.max.idle.ms)"
        return None

    def late_frame(self, now: float) -> "LateFrame | None":
        """Return the frame under way if it holds memory and its peer is late with the rest."""
        frames = self._frames
        if not frames.is_late(now):
            return None
        return LateFrame(arrived=frames.arrived_bytes, held=frames.held_bytes, large=frames.is_large)

    async def _read(self) -> None:
        try:
            handled = 0
            while frames := await self._frames.receive():
                self._last_active = trio.current_time()
                self._busy = True
                last = len(frames) - 1
                for index, frame in enumerate(frames):
                    if self._closed:
                        return  # what came before the end is not handled either
                    if self._times.counts:
                        await self._handle_counted(frame)
                    else:
                        await self._handle(frame)
                    if index < last:
                        # The next request may park inside its handler: answers that are ready must not wait
                        # for it.
                        self._wake_writer()
                    handled += 1
                    if handled % _REQUESTS_PER_TURN == 0:
                        await trio.lowlevel.checkpoint()
                self._busy = False
                self._frames.release()
                self._send_ready()
                if self._gate.opens_at > self._last_active:
                    await self._wait_at_gate()
        except (MalformedError, _CloseAskedError) as error:
            self._end(str(error))
        except _LoginEndedError:
            pass
        except NetworkError as error:
            log.debug("connection broke", peer=self._context.peer, error=str(error))

    def _end(self, reason: str) -> None:
        if self._reason is None:
            self._reason = reason

    async def _handle_counted(self, frame: memoryview) -> None:
        self._loop_time = LoopTime()
        try:
            await self._loop_time.of(self._handle(frame))
        finally:
            self._loop_time = None

    def _taken(self) -> float:
        """Return the seconds that the handled request has taken of the event loop so far."""
        return 0.0 if self._loop_time is None else self._loop_time.take()

    async def _handle(self, frame: memoryview) -> None:
        if self._queue:
            await self._wait_for_room()
        if self._gate.opens_at > self._last_active:
            await self._wait_at_gate()
        if self._login is not None and await self._taken_by(self._login, frame):
            return
        repeated = self._fetches.repeated_by(frame)
        if repeated is not None:
            await self._answer_fetch(repeated, frame)
            return
        header = read_request_header(frame, self._forms)
        api = header.api
        context = self._request_context(header)
        if api.key not in self._served and api is not API_VERSIONS:
            refusal = refuse_sasl(api, header.version) if api.serves(header.version) else None
            if refusal is None:
                raise MalformedError(f"listener {self._context.listener} does not serve {api.name}")
            self.requests += 1
            self._enqueue(context, EncodedResponse(refusal))
            return
        self.requests += 1
        if not api.serves(header.version):
            await self._refuse_version(header, frame, context)
            return
        request = await decode_request(api, header.version, frame[header.body_start :])
        if api is API_VERSIONS:
            self._enqueue(context, self._api_versions(header.version))
            return
        if isinstance(request, KafkaFetchRequest):
            if request.replica_id >= 0:
                self._loop_time = None  # A broker's: a throttle of replication would throttle all producers.
            else:
                request = self._fetches.note(frame, header, request)
        await self._answer(context, request)

    def _request_context(self, header: RequestHeader) -> RequestContext:
        return RequestContext(
            self._context, header.api, header.version, header.correlation_id, header.client_id
        )

    async def _taken_by(self, login: Login, frame: memoryview) -> bool:
        """Return whether the frame is of the connection's login, which has taken it then."""
        step = await login.take(frame)
        if step is None:
            return False
        self.requests += 1
        self._enqueue_step(step)
        if step.closes:
            if step.answer is not None:
                await self._send_last()
            raise _LoginEndedError
        if login.complete and login.principal is not None:
            self._context = replace(self._context, principal=login.principal, mechanism=login.mechanism)
            self._frames.limit(self._limits.max_frame_bytes, key="socket.request.max.bytes")
            if login.lasts:
                self._login = None
        return True

    def _enqueue_step(self, step: LoginStep) -> None:
        if step.answer is None:
            return
        if step.header is not None:
            self._enqueue(self._request_context(step.header), EncodedResponse(step.answer))
            return
        token = b"".join(step.answer)
        self._queue.append(self._counted(_Ready([len(token).to_bytes(4, "big") + token], len(token) + 4)))

    async def _send_last(self) -> None:
        """Send what is queued, before the connection is closed."""
        with trio.move_on_after(_LAST_ANSWER_S):
            while self._queue or self._sending:
                self._wake_writer()
                await self._room.park()

    async def _answer_fetch(self, repeated: RepeatedFetch, frame: memoryview) -> None:
        """Answer a request that was decoded before."""
        header = repeated.header
        context = RequestContext(
            self._context,
            header.api,
            header.version,
            correlation_id(frame),
            header.client_id,
            repeated=True,
        )
        self.requests += 1
        await self._answer(context, repeated.request)

    async def _answer(self, context: RequestContext, request: Request) -> None:
        answer: Answer
        try:
            answer = await self._handler.handle(context, request)
        except MalformedError:
            raise
        except Exception as error:
            answer = await self._error_response(context, request, error)
            if isinstance(request, ProduceRequest) and request.acks == 0:
                answer = CloseConnection(self._errors.message(error) or self._errors.code(error).name)
        if isinstance(answer, CloseConnection):
            raise _CloseAskedError(answer.reason)
        if isinstance(request, ProduceRequest):
            if request.acks == 0:
                if self._loop_time is not None:
                    self._times.charge_time(context, self._taken())
                return
            if isinstance(answer, Deferred):
                request = await in_slices(request.skeleton_steps())
        if isinstance(answer, Deferred):
            counted = None if self._loop_time is None else self._taken()
            self._queue.append(_WaitingAnswer(context, request, answer, counted))
            answer.notify(self._take_answer)
        elif answer is not None:
            self._enqueue(context, answer)
        else:
            raise RuntimeError(f"the handler gave no answer to {context.api.name} v{context.version}")

    async def _wait_at_gate(self) -> None:
        """Read and handle nothing more for as long as the client has to wait. Its answers leave before."""
        busy, self._busy = self._busy, True
        self._wake_writer()
        await trio.sleep_until(self._gate.opens_at)
        self._last_active = trio.current_time()
        self._busy = busy

    def _api_versions(self, version: int, error: ErrorCode = ErrorCode.none) -> Response:
        features = self._features() if error is ErrorCode.none else NO_FEATURES
        return api_versions_response(version, error=error, features=features, served=self._shown)

    async def _refuse_version(
        self, header: RequestHeader, frame: memoryview, context: RequestContext
    ) -> None:
        if header.api is API_VERSIONS:
            # The client learns from a v0 body what it may ask; every client can read that one (KIP-511).
            self._enqueue(context, self._api_versions(0, ErrorCode.unsupported_version))
            return
        if header.api.key == ApiKey.PRODUCE and header.version < 3:
            request = await in_slices(decode_produce_steps(frame[header.body_start :], header.version))
            if request.acks != 0:
                refusal = Refusal(header.version, ErrorCode.unsupported_version)
                self._enqueue(context, await self._served[header.api.key].refusal(request, refusal))
                return
        raise MalformedError(
            f"{header.api.name} version {header.version} is not served (client {header.client_id!r})"
        )

    async def _error_response(self, context: RequestContext, request: Request, error: Exception) -> Response:
        code = self._errors.code(error)
        if code is ErrorCode.unknown_server_error:
            log.error(
                "request failed",
                api=context.api.name,
                version=context.version,
                client_id=context.client_id,
                peer=self._context.peer,
                exc_info=error,
            )
        refusal = Refusal(context.version, code, self._errors.message(error))
        return await self._served[context.api.key].refusal(request, refusal)

    def _enqueue(self, context: RequestContext, response: Response) -> None:
        body = encode_response(response)
        if self._loop_time is not None:
            body = self._charged(context, body, self._taken())
        self._queue.append(self._counted(self._ready(context, body)))

    def _charged(self, context: RequestContext, body: Sequence[Buffer], seconds: float) -> Sequence[Buffer]:
        """Count the time that the request took, and tell the client if it has to wait."""
        wait_s = self._times.charge_time(context, seconds)
        if wait_s <= 0:
            return body
        return with_throttle(body, api=context.api, version=context.version, seconds=wait_s)

    def _ready(self, context: RequestContext, body: Sequence[Buffer]) -> _Ready:
        size = sum(map(len, body))
        prefix = response_prefix(
            api=context.api,
            version=context.version,
            correlation_id=context.correlation_id,
            body_bytes=size,
        )
        return _Ready([prefix, *body], size + len(prefix))

    def _wake_writer(self) -> None:
        self._to_send.unpark_all()

    def _take_answer(self) -> None:
        """An answer has come. Send it from here if it is the only one awaited, which saves the writer a pass
        through the scheduler. Answers that come together leave together."""
        if len(self._queue) > 1 or self._busy:
            self._wake_writer()
            return
        try:
            self._send_ready()
        except NetworkError:
            # The reader finds out. The task that completed the answer is not concerned.
            self._stream.close()
            return
        self._last_active = trio.current_time()

    async def _wait_for_room(self) -> None:
        limits = self._limits
        while self._queue and (
            len(self._queue) >= limits.max_pending_responses
            or self._pending_bytes >= limits.max_pending_bytes
            or self._responses.exhausted
        ):
            await self._room.park()

    async def _write(self, scope: trio.CancelScope) -> None:
        try:
            while True:
                batch: list[Buffer] = []
                size = 0
                while self._may_send() and size < _SEND_BYTES:
                    entry = self._queue[0]
                    if isinstance(entry, _WaitingAnswer):
                        entry = await self._settled(entry)
                    self._queue.popleft()
                    batch += entry.pieces
                    size += entry.size
                if batch:
                    await self._send(batch, size)
                if not self._may_send():
                    await self._to_send.park()
                elif batch:
                    await trio.lowlevel.checkpoint()
        except NetworkError as error:
            log.debug("connection broke", peer=self._context.peer, error=str(error))
            scope.cancel()

    def _may_send(self) -> bool:
        """Return whether the first answer in order is there."""
        if not self._queue:
            return False
        first = self._queue[0]
        return isinstance(first, _Ready) or first.deferred.done

    def _settled_at_once(self, waiting: _WaitingAnswer) -> _Ready | None:
        """Return the answer if it is encoded already and its time is not counted."""
        encoded = waiting.deferred.encoded if waiting.loop_s is None else None
        return None if encoded is None else self._counted(self._ready(waiting.context, encoded.body))

    async def _settled(self, waiting: _WaitingAnswer) -> _Ready:
        if waiting.loop_s is None:
            body = await self._body_of(waiting)
        else:
            loop_time = LoopTime()
            body = await loop_time.of(self._body_of(waiting))
            seconds = waiting.loop_s + waiting.deferred.loop_s + loop_time.take()
            body = self._charged(waiting.context, body, seconds)
        return self._counted(self._ready(waiting.context, body))

    def _counted(self, ready: _Ready) -> _Ready:
        self._pending_bytes += ready.size
        self._responses.take(ready.size)
        return ready

    async def _body_of(self, waiting: _WaitingAnswer) -> Sequence[Buffer]:
        try:
            response = await waiting.deferred.result()
        except Exception as error:
            response = await self._error_response(waiting.context, waiting.request, error)
        return encode_response(response)

    async def _send(self, batch: list[Buffer], size: int) -> None:
        pieces = join_small(batch)
        rest = remaining(pieces, self._stream.send_nowait(pieces))
        if rest:
            allowed = self._limits.send_timeout_s + size / SLOWEST_BYTES_PER_S
            self._send_deadline = trio.current_time() + allowed
            self._sending = True
            await self._stream.send(rest)
            self._sending = False
            self._send_deadline = math.inf
        self._last_active = trio.current_time()
        self._sent(size)

    def _sent(self, size: int) -> None:
        self._pending_bytes -= size
        self._responses.put_back(size)
        self._room.unpark_all()

    def _send_ready(self) -> None:
        """Send without the writer as much as the network takes at once, which saves a pass through the
        scheduler. The writer sends the rest."""
        batch: list[Buffer] = []
        size = 0
        while not self._sending and self._queue and size < _SEND_BYTES:
            first = self._queue[0]
            entry = self._settled_at_once(first) if isinstance(first, _WaitingAnswer) else first
            if entry is None:
                break
            self._queue.popleft()
            batch += entry.pieces
            size += entry.size
        if batch:
            pieces = join_small(batch)
            sent = self._stream.send_nowait(pieces)
            if sent < size:
                self._queue.appendleft(_Ready(remaining(pieces, sent), size - sent))
            self._sent(sent)
        if self._may_send():
            self._wake_writer()
