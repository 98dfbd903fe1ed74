"""Requests and answers of HTTP/1.1 over the runtime's streams. h11 reads and writes the bytes.

For pages and metrics that a node serves: small requests, answers that are there as a whole, and streams of
events.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from ipaddress import ip_address
from types import MappingProxyType
from typing import Final

import h11

from quorate.runtime import Stream

HEAD_MAX_BYTES: Final = 16 * 1024
"""A request line with its headers may be so long."""
PAGE_HEADERS: Final = MappingProxyType(
    {
        "Content-Security-Policy": "default-src 'self'; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'none'",
        "X-Content-Type-Options": "nosniff",
        "Referrer-Policy": "no-referrer",
        "Cross-Origin-Resource-Policy": "same-origin",
        "Cache-Control": "no-store",
    }
)
"""A page with them may load nothing from elsewhere, and is framed, read and kept by nobody."""
_LAST: Final = MappingProxyType({**PAGE_HEADERS, "Connection": "close"})


class HttpError(Exception):
    """A request that is refused, with what to do about it. `more`: facts for programs, such as offsets."""

    def __init__(self, status: HTTPStatus, message: str, **more: int | None) -> None:
        super().__init__(message)
        self.status = status
        self.more = more


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpRequest:
    """A request."""

    method: str
    path: str
    """As it was sent, undecoded, without the query."""
    query: str
    headers: Mapping[str, str]
    """By the name in small letters. Of one that comes twice, the last."""
    body: bytes


def refuse_strangers(request: HttpRequest, *, local_only: bool) -> None:
    """Raise `HttpError` for what a page of elsewhere made the browser send: its origin is not the host that
    is asked. `local_only`: the listener is for this machine, so the host must be a name of this machine, and
    not one of elsewhere that was made to lead here (DNS rebinding)."""
    host, origin = request.headers.get("host", ""), request.headers.get("origin")
    if origin is not None and origin.partition("://")[2].lower() != host.lower():
        raise HttpError(HTTPStatus.FORBIDDEN, "a page of another origin may not use this one")
    name = host if host.endswith("]") else host.rpartition(":")[0] or host
    if local_only and not _is_loopback(name):
        raise HttpError(
            HTTPStatus.MISDIRECTED_REQUEST,
            "this page is for this machine: ask for it by localhost or 127.0.0.1",
        )


def _is_loopback(name: str) -> bool:
    try:
        return name.lower() == "localhost" or ip_address(name.strip("[]")).is_loopback
    except ValueError:
        return False


class HttpStream:
    """A connection, for one request after the other: `receive`, then `answer` or `begin` and `send_more`."""

    def __init__(self, stream: Stream, *, body_max_bytes: int = 0) -> None:
        self._stream = stream
        self._body_max_bytes = body_max_bytes
        self._is_head = False
        self._h11 = h11.Connection(h11.SERVER, max_incomplete_event_size=HEAD_MAX_BYTES)

    async def receive(self) -> HttpRequest | None:
        """Return the next request; None: there is none, as either side has ended it. Raises `HttpError`, to
        be answered by `refuse`, and `NetworkError`."""
        if self._h11.our_state is h11.DONE and self._h11.their_state is h11.DONE:
            self._h11.start_next_cycle()
        if self._h11.our_state is not h11.IDLE:
            return None
        head = await self._next()
        if not isinstance(head, h11.Request):
            return None
        self._is_head = head.method == b"HEAD"
        headers = {name.decode("ascii"): value.decode("latin-1") for name, value in head.headers}
        body = bytearray()
        self._check_size(int(headers.get("content-length", "0")))
        while isinstance(part := await self._next(), h11.Data):
            body += part.data
            self._check_size(len(body))
        path, _, query = head.target.decode("ascii").partition("?")
        return HttpRequest(
            method=head.method.decode("ascii"),
            path=path,
            query=query,
            headers=headers,
            body=bytes(body),
        )

    def _check_size(self, size: int) -> None:
        if size > self._body_max_bytes:
            raise HttpError(
                HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"a body has at most {self._body_max_bytes} bytes"
            )

    async def _next(self) -> h11.Event | None:
        """Return the next event; None: none before an answer."""
        while (event := self._receive_event()) is h11.NEED_DATA:
            if self._h11.they_are_waiting_for_100_continue:
                await self._send(h11.InformationalResponse(status_code=HTTPStatus.CONTINUE, headers=[]))
            self._h11.receive_data(await self._stream.receive_some())
        return event if isinstance(event, h11.Event) else None

    def _receive_event(self) -> h11.Event | type[h11.NEED_DATA] | type[h11.PAUSED]:
        try:
            return self._h11.next_event()
        except h11.RemoteProtocolError as error:
            raise HttpError(HTTPStatus(error.error_status_hint), str(error)) from None

    async def answer(
        self,
        status: HTTPStatus,
        content_type: str,
        body: bytes,
        headers: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """Answer the request. Raises `NetworkError`."""
        about = {"Content-Type": content_type, "Content-Length": str(len(body)), **headers}
        await self._send(
            _response(status, about), h11.Data(data=b"" if self._is_head else body), h11.EndOfMessage()
        )

    async def refuse(self, error: HttpError) -> None:
        """Answer what is no request, and end the connection."""
        if self._h11.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            await self.answer(error.status, "text/plain; charset=utf-8", f"{error}\n".encode(), _LAST)

    async def begin(self, content_type: str, headers: Mapping[str, str]) -> None:
        """Begin an answer that goes on until the connection ends."""
        await self._send(_response(HTTPStatus.OK, {"Content-Type": content_type, **headers}))

    async def send_more(self, data: bytes) -> None:
        await self._send(h11.Data(data=data))

    async def _send(self, *events: h11.Event) -> None:
        pieces = [data for each in events if (data := self._h11.send(each))]
        await self._stream.send([b"".join(pieces)])


def _response(status: HTTPStatus, headers: Mapping[str, str]) -> h11.Response:
    return h11.Response(status_code=status, reason=status.phrase, headers=list(headers.items()))
