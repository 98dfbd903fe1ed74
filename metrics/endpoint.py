"""`GET /metrics` over the network seam."""

import structlog
import trio
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder

from quorate.runtime.network import Listener, NetworkError, Stream

log = structlog.get_logger(__name__)

_MAX_REQUEST_BYTES = 16 * 1024
_IDLE_SECONDS = 60
_MAX_CONNECTIONS = 64


async def serve_metrics(listener: Listener, registry: CollectorRegistry) -> None:
    """Answer scrapes until cancelled. Anything but a GET of /metrics is refused."""
    limit = trio.Semaphore(_MAX_CONNECTIONS)
    async with trio.open_nursery() as nursery:
        while True:
            await limit.acquire()
            stream = await listener.accept()
            nursery.start_soon(_serve, stream, registry, limit)


async def _serve(stream: Stream, registry: CollectorRegistry, limit: trio.Semaphore) -> None:
    try:
        while True:
            with trio.fail_after(_IDLE_SECONDS):
                request = await _receive_request(stream)
                if request is None:
                    return
                await stream.send([_answer(request, registry)])
    except (NetworkError, trio.TooSlowError):
        pass
    finally:
        stream.close()
        limit.release()


async def _receive_request(stream: Stream) -> str | None:
    received = b""
    while b"\r\n\r\n" not in received:
        data = await stream.receive_some()
        if not data or len(received) > _MAX_REQUEST_BYTES:
            return None
        received += data
    return received.decode("latin-1")


def _answer(request: str, registry: CollectorRegistry) -> bytes:
    first, _, rest = request.partition("\r\n")
    method, _, target = first.partition(" ")
    path = target.partition(" ")[0].partition("?")[0]
    if method != "GET":
        return _response("405 Method Not Allowed", "text/plain", b"only GET is served\n")
    if path != "/metrics":
        return _response("404 Not Found", "text/plain", b"try /metrics\n")
    headers = {
        name.strip().lower(): value.strip()
        for name, _, value in (line.partition(":") for line in rest.split("\r\n"))
    }
    encode, content_type = choose_encoder(headers.get("accept", ""))
    return _response("200 OK", content_type, encode(registry))


def _response(status: str, content_type: str, body: bytes) -> bytes:
    head = f"HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body
