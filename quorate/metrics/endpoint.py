"""`GET /metrics`, `GET /health` and `GET /health/live` over the runtime's network."""

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from http import HTTPStatus
from typing import Protocol

import trio
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder

from quorate.http_server import HttpError, HttpRequest, HttpStream
from quorate.metrics.token_file import TokenFile
from quorate.runtime import Listener, NetworkError, Stream, get_logger

log = get_logger(__name__)

_IDLE_SECONDS = 60
_STRANGER_SECONDS = 10
"""The time for a handshake, and for a request of who has not shown the token that is asked for."""
_MAX_CONNECTIONS = 64
_TEXT = "text/plain"
_JSON = "application/json"


class Site(Protocol):
    """Pages beside the metrics. Each answer ends its connection, so that viewers hold none idle."""

    def serves(self, path: str) -> bool:
        """Return whether requests for this path are for the site."""
        ...

    async def serve(self, request: HttpRequest, http: HttpStream, *, known: bool) -> None:
        """Answer a request, within times of its own. `known`: the sender has shown the token, or none is
        asked for. Raises only `HttpError`, `NetworkError` and `trio.TooSlowError`."""
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
    http = HttpStream(stream)
    seconds = _IDLE_SECONDS if pages.token is None else _STRANGER_SECONDS
    try:
        with trio.fail_after(_STRANGER_SECONDS):
            await stream.handshake()
        while True:
            with trio.fail_after(seconds):
                request = await http.receive()
                if request is None:
                    return
                known = pages.known(request.headers)
                site = pages.site
                if site is None or request.method != "GET" or not site.serves(request.path):
                    await _answer(request, http, pages, known=known)
                    site = None
            if site is not None:
                await site.serve(request, http, known=known)
                return
            if known:
                seconds = _IDLE_SECONDS
    except HttpError as error:
        with suppress(NetworkError, trio.TooSlowError), trio.fail_after(_STRANGER_SECONDS):
            await http.refuse(error)
    except (NetworkError, trio.TooSlowError):
        pass
    finally:
        stream.close()
        limit.release()


async def _answer(request: HttpRequest, http: HttpStream, pages: _Pages, *, known: bool) -> None:
    health, path = pages.health, request.path
    if request.method != "GET":
        allowed = {"Allow": "GET"}
        await http.answer(HTTPStatus.METHOD_NOT_ALLOWED, _TEXT, b"only GET is served\n", allowed)
    elif path == "/health" and health is not None:
        report = health()
        status = HTTPStatus.OK if report.healthy else HTTPStatus.SERVICE_UNAVAILABLE
        told = report.as_dict() if known else {"healthy": report.healthy}
        await http.answer(status, _JSON, json.dumps(told).encode() + b"\n")
    elif path == "/health/live" and health is not None:
        await http.answer(HTTPStatus.OK, _JSON, b'{"alive": true}\n')
    elif not known:
        challenge = 'Bearer realm="metrics"'
        if "authorization" in request.headers:
            challenge += ', error="invalid_token"'
        await http.answer(
            HTTPStatus.UNAUTHORIZED, _TEXT, b"send the token\n", {"WWW-Authenticate": challenge}
        )
    elif path == "/metrics":
        encode, content_type = choose_encoder(request.headers.get("accept", ""))
        await http.answer(HTTPStatus.OK, content_type, encode(pages.registry))
    else:
        tried = b"try /metrics\n" if health is None else b"try /metrics, /health or /health/live\n"
        await http.answer(HTTPStatus.NOT_FOUND, _TEXT, tried)
