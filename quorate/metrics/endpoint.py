"""`GET /metrics`, `GET /health` and `GET /health/live` over the runtime's network."""

import json
from collections.abc import Callable
from typing import Protocol

import trio
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder

from quorate.runtime import Listener, NetworkError, Stream, get_logger

log = get_logger(__name__)

_MAX_REQUEST_BYTES = 16 * 1024
_IDLE_SECONDS = 60
_MAX_CONNECTIONS = 64


class HealthReport(Protocol):
    """The answer of /health. `quorate.raft.Health` is one."""

    @property
    def healthy(self) -> bool: ...

    def as_dict(self) -> dict[str, object]:
        """Return the report as a dictionary for JSON."""
        ...


async def serve_metrics(
    listener: Listener, registry: CollectorRegistry, *, health: Callable[[], HealthReport] | None = None
) -> None:
    """Serve /metrics over HTTP until cancelled, in the OpenMetrics format if the client accepts it. With
    `health`, such as `lambda: quorum.health`, also serve /health: 200 or 503, with a JSON object that has the
    reason. /health/live answers 200 as long as the event loop runs. Every other request is refused.

    `registry`: any registry of prometheus_client, such as a service's own. A service that already has an
    endpoint needs only `RaftMetrics` in its registry.
    """
    limit = trio.Semaphore(_MAX_CONNECTIONS)
    async with trio.open_nursery() as nursery:
        while True:
            await limit.acquire()
            stream = await listener.accept()
            nursery.start_soon(_serve, stream, registry, health, limit)


async def _serve(
    stream: Stream,
    registry: CollectorRegistry,
    health: Callable[[], HealthReport] | None,
    limit: trio.Semaphore,
) -> None:
    try:
        while True:
            with trio.fail_after(_IDLE_SECONDS):
                request = await _receive_request(stream)
                if request is None:
                    return
                if len(request) > _MAX_REQUEST_BYTES:
                    await stream.send([_response("431 Request Header Fields Too Large", "text/plain", b"")])
                    return
                await stream.send([_answer(request, registry, health)])
                if _is_last(request):
                    return
    except (NetworkError, trio.TooSlowError):
        pass
    finally:
        stream.close()
        limit.release()


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


def _is_last(request: str) -> bool:
    """True if the client wants the connection closed after the answer."""
    return request.partition("\r\n")[0].endswith("HTTP/1.0") or (
        _headers(request).get("connection", "").lower() == "close"
    )


def _answer(request: str, registry: CollectorRegistry, health: Callable[[], HealthReport] | None) -> bytes:
    first = request.partition("\r\n")[0]
    method, _, target = first.partition(" ")
    path = target.partition(" ")[0].partition("?")[0]
    if method != "GET":
        return _response("405 Method Not Allowed", "text/plain", b"only GET is served\n", allow="GET")
    if path == "/health" and health is not None:
        report = health()
        status = "200 OK" if report.healthy else "503 Service Unavailable"
        return _response(status, "application/json", json.dumps(report.as_dict()).encode() + b"\n")
    if path == "/health/live" and health is not None:
        return _response("200 OK", "application/json", b'{"alive": true}\n')
    if path != "/metrics":
        tried = b"try /metrics\n" if health is None else b"try /metrics, /health or /health/live\n"
        return _response("404 Not Found", "text/plain", tried)
    encode, content_type = choose_encoder(_headers(request).get("accept", ""))
    return _response("200 OK", content_type, encode(registry))


def _response(status: str, content_type: str, body: bytes, *, allow: str | None = None) -> bytes:
    head = f"HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nContent-Length: {len(body)}\r\n"
    if allow is not None:
        head += f"Allow: {allow}\r\n"
    return f"{head}\r\n".encode() + body
