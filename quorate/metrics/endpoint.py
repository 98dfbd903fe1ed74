"""`GET /metrics`, `GET /health` and `GET /health/live` over the runtime's network."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Protocol

import trio
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder

from quorate.metrics.token_file import TokenFile
from quorate.runtime import Listener, NetworkError, Stream, get_logger

log = get_logger(__name__)

_MAX_REQUEST_BYTES = 16 * 1024
_IDLE_SECONDS = 60
_STRANGER_SECONDS = 10
"""The time for a handshake, and for a request of who has not shown the token that is asked for."""
_MAX_CONNECTIONS = 64


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """The head of a request by GET for a `Site`."""

    path: str
    """As it was sent, undecoded, without the query."""
    query: str
    headers: Mapping[str, str]
    """By the name in small letters."""
    known: bool
    """True: the sender has shown the token, or none is asked for."""


class Site(Protocol):
    """Pages beside the metrics. Each answer ends its connection, so that viewers hold none idle."""

    def serves(self, path: str) -> bool:
        """Return whether requests for this path are for the site."""
        ...

    async def serve(self, request: HttpRequest, stream: Stream) -> None:
        """Answer a request, within times of its own. Raises only `NetworkError` and `trio.TooSlowError`."""
        ...


class HealthReport(Protocol):
    """The answer of /health. `quorate.raft.Health` is one."""

    @property
    def healthy(self) -> bool: ...

    def as_dict(self) -> dict[str, object]:
        """Return the report as a dictionary for JSON."""
        ...


async def serve_metrics(
    listener: Listener,
    registry: CollectorRegistry,
    *,
    health: Callable[[], HealthReport] | None = None,
    token: TokenFile | None = None,
    site: Site | None = None,
) -> None:
    """Serve /metrics over HTTP until cancelled, in the OpenMetrics format if the client accepts it. With
    `health`, such as `lambda: quorum.health`, also serve /health: 200 or 503, with a JSON object that has the
    reason. /health/live answers 200 as long as the event loop runs. Every other request is refused.

    `listener`: that of a network with TLS (`runtime.network.secured`) serves HTTPS.

    `token`: whoever doesn't send it as a bearer token gets 401 (RFC 6750), and of /health only the status, so
    that probes need no secret.

    `site`: more to serve, such as a page for people. It decides by itself what it gives to whom.

    `registry`: any registry of prometheus_client, such as a service's own. A service that already has an
    endpoint needs only `RaftMetrics` in its registry.
    """
    limit = trio.Semaphore(_MAX_CONNECTIONS)
    async with trio.open_nursery() as nursery:
        while True:
            await limit.acquire()
            stream = await listener.accept()
            nursery.start_soon(_serve, stream, _Pages(registry, health, token, site), limit)


@dataclass(frozen=True, slots=True)
class _Pages:
    """What there is to ask for."""

    registry: CollectorRegistry
    health: Callable[[], HealthReport] | None
    token: TokenFile | None
    site: Site | None

    def known(self, headers: Mapping[str, str]) -> bool:
        """Return whether who sends these headers may have everything."""
        return self.token is None or self.token.accepts(headers.get("authorization", ""))


async def _serve(stream: Stream, pages: _Pages, limit: trio.Semaphore) -> None:
    seconds = _IDLE_SECONDS if pages.token is None else _STRANGER_SECONDS
    try:
        with trio.fail_after(_STRANGER_SECONDS):
            await stream.handshake()
        while True:
            with trio.fail_after(seconds):
                request = await _receive_request(stream)
                if request is None:
                    return
                if len(request) > _MAX_REQUEST_BYTES:
                    await stream.send([_response("431 Request Header Fields Too Large", "text/plain", b"")])
                    return
                headers = _headers(request)
                known = pages.known(headers)
                asked = _asked_of(pages.site, request, headers, known=known)
                if asked is None:
                    await stream.send([_answer(request, headers, pages, known=known)])
                    if _is_last(request, headers):
                        return
            if asked is not None and pages.site is not None:
                await pages.site.serve(asked, stream)
                return
            if known:
                seconds = _IDLE_SECONDS
    except (NetworkError, trio.TooSlowError):
        pass
    finally:
        stream.close()
        limit.release()


def _asked_of(
    site: Site | None, request: str, headers: Mapping[str, str], *, known: bool
) -> HttpRequest | None:
    """Return the request if it is for the site."""
    method, target = _method_and_target(request)
    path, _, query = target.partition("?")
    if site is None or method != "GET" or not site.serves(path):
        return None
    return HttpRequest(path, query, headers, known)


def _method_and_target(request: str) -> tuple[str, str]:
    method, _, rest = request.partition("\r\n")[0].partition(" ")
    return method, rest.partition(" ")[0]


async def _receive_request(stream: Stream) -> str | None:
    """A request's head, or as much of one that is too large as tells so; None when the connection ends."""
    received = b""
    while b"\r\n\r\n" not in received and len(received) <= _MAX_REQUEST_BYTES:
        data = await stream.receive_some()
        if not data:
            return None
        received += data
    return received.decode("latin-1")


def _headers(request: str) -> dict[str, str]:
    lines = (line.partition(":") for line in request.split("\r\n")[1:])
    return {name.strip().lower(): value.strip() for name, _, value in lines}


def _is_last(request: str, headers: Mapping[str, str]) -> bool:
    """True if the client wants the connection closed after the answer."""
    return request.partition("\r\n")[0].endswith("HTTP/1.0") or (
        headers.get("connection", "").lower() == "close"
    )


def _answer(request: str, headers: Mapping[str, str], pages: _Pages, *, known: bool) -> bytes:
    health = pages.health
    method, target = _method_and_target(request)
    path = target.partition("?")[0]
    if method != "GET":
        return _response("405 Method Not Allowed", "text/plain", b"only GET is served\n", {"Allow": "GET"})
    if path == "/health" and health is not None:
        report = health()
        status = "200 OK" if report.healthy else "503 Service Unavailable"
        told = report.as_dict() if known else {"healthy": report.healthy}
        return _response(status, "application/json", json.dumps(told).encode() + b"\n")
    if path == "/health/live" and health is not None:
        return _response("200 OK", "application/json", b'{"alive": true}\n')
    if not known:
        return _refusal(headers)
    if path != "/metrics":
        tried = b"try /metrics\n" if health is None else b"try /metrics, /health or /health/live\n"
        return _response("404 Not Found", "text/plain", tried)
    encode, content_type = choose_encoder(headers.get("accept", ""))
    return _response("200 OK", content_type, encode(pages.registry))


def _refusal(headers: Mapping[str, str]) -> bytes:
    challenge = 'Bearer realm="metrics"'
    if "authorization" in headers:
        challenge += ', error="invalid_token"'
    return _response("401 Unauthorized", "text/plain", b"send the token\n", {"WWW-Authenticate": challenge})


def _response(
    status: str, content_type: str, body: bytes, more: Mapping[str, str] = MappingProxyType({})
) -> bytes:
    head = f"HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nContent-Length: {len(body)}\r\n"
    head += "".join(f"{name}: {value}\r\n" for name, value in more.items())
    return f"{head}\r\n".encode() + body
