"""A client connection for our own use: followers' fetches, the command line, the Spark source, tests."""

from collections import deque
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final, TypeVar

import trio
from kio.schema.errors import ErrorCode
from kio.static.protocol import RequestPayload, ResponsePayload

from quorate.broker.wire.api import API_VERSIONS, APIS, Api, ApiKey, own_api
from quorate.broker.wire.codecs.entities import (
    build,
    decode_entity,
    encode_entity,
    request_type,
    response_type,
)
from quorate.broker.wire.codecs.fetch_codec import (
    KafkaFetchRequest,
    KafkaFetchResponse,
    decode_fetch_response_steps,
    encode_fetch_request_steps,
)
from quorate.broker.wire.codecs.produce_codec import (
    ProducedTopic,
    ProduceRequest,
    decode_produce_response,
    encode_produce_request,
)
from quorate.broker.wire.framing import MAX_FRAME_BYTES, KafkaFrameReader
from quorate.broker.wire.headers import read_response_header, write_request_header
from quorate.broker.wire.sending import join_small, remaining
from quorate.broker.wire.wire_errors import KafkaError, RequestTimedOutError, UnsupportedVersionError
from quorate.kafka_bytes.primitives import Pieces
from quorate.kafka_bytes.varints import MalformedError
from quorate.runtime import Address, Buffer, Network, NetworkError, Stream, get_logger, in_slices

log = get_logger(__name__)

R = TypeVar("R", bound=ResponsePayload)

_SEND_BYTES: Final = 1024 * 1024
_VERSIONS_ASKED: Final = 3


@dataclass(slots=True)
class _Call:
    """A request on its way, until its response or the end of the connection."""

    api: Api
    version: int
    correlation_id: int
    timeout_s: float
    deadline: float
    """On trio's clock."""
    done: trio.Event
    frame: memoryview | None = None


class SentFetch:
    """A Fetch that was sent. A wait for its answer may be cancelled and begun again; `forget` it at last."""

    __slots__ = ("_call", "_client")

    def __init__(self, client: "WireClient", call: _Call) -> None:
        self._client = client
        self._call = call

    @property
    def deadline(self) -> float:
        """The time at which it has taken too long, on trio's clock."""
        return self._call.deadline

    @property
    def over(self) -> bool:
        """Return whether there is an answer, or the connection has ended."""
        return self._call.done.is_set()

    async def wait(self) -> None:
        """Wait until it is `over`, for any time."""
        await self._call.done.wait()

    async def response(self) -> KafkaFetchResponse:
        """Return the answer, whose record bytes are views of the receive buffer. Raises as `WireClient`
        says, and `RequestTimedOutError` if it isn't there."""
        body = self._client._body_of(self._call)
        return await in_slices(decode_fetch_response_steps(body, self._call.version))

    def forget(self) -> None:
        """Ignore the answer."""
        self._client._end(self._call)


class WireClient:
    """Requests may be sent by many tasks at once; responses are matched by correlation id.

    Every method that sends raises `NetworkError` once the connection is broken, `RequestTimedOutError` when
    no response came in time (the request may have been carried out), and `MalformedError` for a response
    that is none. A cancelled call leaves the connection usable.
    """

    def __init__(
        self,
        stream: Stream,
        *,
        client_id: str | None,
        timeout_s: float,
        max_in_flight: int,
        max_frame_bytes: int,
    ) -> None:
        self._stream = stream
        self._client_id = client_id
        self._timeout_s = timeout_s
        self._frames = KafkaFrameReader(stream, max_frame_bytes=max_frame_bytes)
        self._calls: dict[int, _Call] = {}
        self._outbox: deque[list[Buffer]] = deque()
        self._to_send = trio.lowlevel.ParkingLot()
        self._in_flight = trio.Semaphore(max_in_flight)
        self._next_id = 0
        self._sending = False
        self._broken: str | None = None
        self.versions: Mapping[int, tuple[int, int]] = {}
        """The inclusive versions that the server serves, by API key; empty before `negotiate`."""

    @property
    def peer(self) -> str:
        return self._stream.peer

    @property
    def certificate_end_ms(self) -> int | None:
        """As `Stream.certificate_end_ms`."""
        return self._stream.certificate_end_ms

    @property
    def broken(self) -> str | None:
        """The reason why the connection can no longer be used, or None."""
        return self._broken

    async def negotiate(self) -> None:
        """Ask for the server's versions. Raises `KafkaError` if it refuses even that."""
        for version in (_VERSIONS_ASKED, 0):
            entity = build(
                request_type(ApiKey.API_VERSIONS, version),
                client_software_name="quorate",
                client_software_version="1",
            )
            body = await self._call(API_VERSIONS, version, encode_entity(entity), None)
            # A server that does not know the version answers in version 0 (KIP-511).
            refused = body[:2] == ErrorCode.unsupported_version.to_bytes(2, "big")
            response: object = decode_entity(
                response_type(ApiKey.API_VERSIONS, 0 if refused else version), body
            )
            code = getattr(response, "error_code", ErrorCode.none)
            if code is ErrorCode.none:
                self.versions = {
                    int(item.api_key): (int(item.min_version), int(item.max_version))
                    for item in getattr(response, "api_keys", ())
                }
                return
            if code is not ErrorCode.unsupported_version:
                raise KafkaError(code, f"{self.peer} refused ApiVersions")
        raise UnsupportedVersionError(f"{self.peer} does not serve ApiVersions version 0")

    def version(self, api_key: ApiKey, *, at_most: int | None = None) -> int:
        """Return the highest version that both sides speak. Raises `UnsupportedVersionError`."""
        ours = api_key.api
        lowest, highest = self.versions.get(api_key, (0, -1))
        best = min(ours.max_version, highest, ours.max_version if at_most is None else at_most)
        if best < max(lowest, ours.min_version):
            raise UnsupportedVersionError(
                f"{self.peer} serves {api_key.name} versions {lowest} to {highest}, "
                f"and we speak {ours.min_version} to {ours.max_version}"
            )
        return best

    async def send(self, request: RequestPayload, response: type[R], *, timeout_s: float | None = None) -> R:
        """Send a request, kio's or ours, and return its answer, an instance of `response`."""
        key, version = int(request.__api_key__), int(request.__version__)
        if (response.__api_key__, response.__version__) != (key, version):
            raise ValueError(f"{response.__name__} v{response.__version__} does not answer {request!r}")
        api = APIS.get(key) or own_api(key, type(request).__name__)
        body = await self._call(api, version, encode_entity(request), timeout_s)
        return decode_entity(response, body)

    async def call(
        self,
        api_key: ApiKey,
        *,
        timeout_s: float | None = None,
        at_most: int | None = None,
        **values: object,
    ) -> ResponsePayload:
        """Send a request of the highest common version, and no higher than `at_most`, built from values by
        field name."""
        version = self.version(api_key, at_most=at_most)
        request = build(request_type(api_key, version), **values)
        return await self.send(request, response_type(api_key, version), timeout_s=timeout_s)

    async def fetch(
        self, request: KafkaFetchRequest, *, timeout_s: float | None = None
    ) -> KafkaFetchResponse:
        """Send a Fetch. Record bytes of the response are views of the receive buffer. `timeout_s` is on top
        of the request's own `max_wait_ms`."""
        under_way = await self.begin_fetch(request, timeout_s=timeout_s)
        try:
            with trio.move_on_at(under_way.deadline):
                await under_way.wait()
            return await under_way.response()
        finally:
            under_way.forget()

    async def begin_fetch(self, request: KafkaFetchRequest, *, timeout_s: float | None = None) -> SentFetch:
        """Send a Fetch, as `fetch` does, and return before its answer has come."""
        wait_s = (self._timeout_s if timeout_s is None else timeout_s) + request.max_wait_ms / 1000
        pieces = await in_slices(encode_fetch_request_steps(request))
        call = await self._begin(ApiKey.FETCH.api, request.version, pieces, wait_s)
        return SentFetch(self, call)

    async def produce(
        self, request: ProduceRequest, *, timeout_s: float | None = None
    ) -> Sequence[ProducedTopic]:
        """Send a Produce. With acks=0 nothing is returned, at once: the server never answers."""
        pieces = encode_produce_request(request)
        if request.acks == 0:
            self._put(ApiKey.PRODUCE.api, request.version, self._draw_id(), pieces)
            return ()
        wait_s = (self._timeout_s if timeout_s is None else timeout_s) + request.timeout_ms / 1000
        body = await self._call(ApiKey.PRODUCE.api, request.version, pieces, wait_s)
        return decode_produce_response(body, request.version)

    async def _call(
        self, api: Api, version: int, body: Sequence[Buffer], timeout_s: float | None
    ) -> memoryview:
        call = await self._begin(api, version, body, self._timeout_s if timeout_s is None else timeout_s)
        try:
            with trio.move_on_at(call.deadline):
                await call.done.wait()
            return self._body_of(call)
        finally:
            self._end(call)

    async def _begin(self, api: Api, version: int, body: Sequence[Buffer], timeout_s: float) -> _Call:
        deadline = trio.current_time() + timeout_s
        call = _Call(api, version, self._draw_id(), timeout_s, deadline, trio.Event())
        try:
            self._in_flight.acquire_nowait()
        except trio.WouldBlock:
            with trio.move_on_at(call.deadline) as waiting:
                await self._in_flight.acquire()
            if waiting.cancelled_caught:
                raise self._too_late(call) from None
        self._calls[call.correlation_id] = call
        try:
            self._put(api, version, call.correlation_id, body)
        except NetworkError:
            self._end(call)
            raise
        return call

    def _end(self, call: _Call) -> None:
        if self._calls.pop(call.correlation_id, None) is not None:
            self._in_flight.release()

    def _body_of(self, call: _Call) -> memoryview:
        if call.frame is not None:
            header_bytes = read_response_header(call.frame, api=call.api, version=call.version)
            return call.frame[header_bytes:]
        if self._broken is not None:
            raise NetworkError(f"{self.peer}: {self._broken}")
        raise self._too_late(call)

    def _too_late(self, call: _Call) -> RequestTimedOutError:
        return RequestTimedOutError(f"{self.peer} did not answer {call.api.name} within {call.timeout_s:g} s")

    def _draw_id(self) -> int:
        self._next_id = (self._next_id + 1) & 0x7FFFFFFF
        return self._next_id

    def _put(self, api: Api, version: int, correlation_id: int, body: Sequence[Buffer]) -> None:
        if self._broken is not None:
            raise NetworkError(f"{self.peer}: {self._broken}")
        header = Pieces(flexible=False)
        write_request_header(
            header, api=api, version=version, correlation_id=correlation_id, client_id=self._client_id
        )
        pieces = [*header.finish(), *body]
        size = sum(map(len, pieces))
        frame = join_small([size.to_bytes(4, "big"), *pieces])
        if not self._outbox and not self._sending and len(self._calls) == 1:
            # Nothing else is under way: sending here saves a pass through the scheduler.
            frame = remaining(frame, self._stream.send_nowait(frame))
        if frame:
            self._outbox.append(frame)
            self._to_send.unpark_all()

    async def _write(self) -> None:
        try:
            while True:
                batch: list[Buffer] = []
                size = 0
                while self._outbox and size < _SEND_BYTES:
                    pieces = self._outbox.popleft()
                    batch += pieces
                    size += sum(map(len, pieces))
                if batch:
                    self._sending = True
                    await self._stream.send(join_small(batch))
                    self._sending = False
                else:
                    await self._to_send.park()
        except NetworkError as error:
            self._break(str(error))

    async def _read(self) -> None:
        try:
            while frames := await self._frames.receive():
                for frame in frames:
                    if len(frame) < 4:
                        raise MalformedError(f"a response of {len(frame)} bytes")
                    call = self._calls.get(int.from_bytes(frame[:4], "big", signed=True))
                    # None: the caller gave up on it, or cancelled.
                    if call is not None:
                        call.frame = frame
                        call.done.set()
            self._break("the peer closed the connection")
        except NetworkError as error:
            self._break(str(error))
        except MalformedError as error:
            log.warning("connection closed", peer=self.peer, reason=str(error))
            self._break(str(error))

    def _break(self, reason: str) -> None:
        if self._broken is None:
            self._broken = reason
        self._stream.close()
        for call in self._calls.values():
            call.done.set()


@asynccontextmanager
async def open_client(
    network: Network,
    address: Address,
    *,
    client_id: str | None = "quorate",
    timeout_s: float = 30.0,
    max_in_flight: int = 1000,
    max_frame_bytes: int = MAX_FRAME_BYTES,
    negotiate: bool = True,
) -> AsyncIterator[WireClient]:
    """Connect, ask for versions (unless both ends are ours and the caller names versions itself), and close
    in the end. Raises `NetworkError` when there is no connection within `timeout_s`."""
    stream: Stream | None = None
    failure: Exception | None = None
    with trio.move_on_after(timeout_s):
        stream = await network.connect(address)
    if stream is None:
        raise NetworkError(f"no connection to {address} within {timeout_s:g} s")
    client = WireClient(
        stream,
        client_id=client_id,
        timeout_s=timeout_s,
        max_in_flight=max_in_flight,
        max_frame_bytes=max_frame_bytes,
    )
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(client._write)
            nursery.start_soon(client._read)
            try:
                if negotiate:
                    await client.negotiate()
                yield client
            except Exception as error:
                # Raised again below: the caller's own error must not arrive wrapped in our nursery's group.
                failure = error
            nursery.cancel_scope.cancel()
    finally:
        client._break("closed here")
    if failure is not None:
        raise failure
