"""The part of HTTP/1.1 that a page on this host needs: one request a connection, and small bodies."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from quorate.runtime import Stream

HEAD_MAX_BYTES: Final = 16 * 1024
BODY_MAX_BYTES: Final = 512 * 1024
_HEADERS: Final = (
    "Content-Security-Policy: default-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'\r\n"
    "X-Content-Type-Options: nosniff\r\n"
    "Referrer-Policy: no-referrer\r\n"
    "Cache-Control: no-store\r\n"
    "Connection: close\r\n"
)


class HttpError(Exception):
    """A request that is refused. `status`: the first line's end, such as `404 Not Found`."""

    def __init__(self, status: str, message: str) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True, slots=True)
class HttpRequest:
    method: str
    path: str
    headers: Mapping[str, str] = field(default_factory=dict)
    """By their names in lower case."""
    body: bytes = b""


async def receive_request(stream: Stream) -> HttpRequest | None:
    """Return the request, or None if the connection ends before it is whole. Raises `HttpError`,
    `NetworkError`."""
    received = b""
    while b"\r\n\r\n" not in received:
        if len(received) > HEAD_MAX_BYTES:
            raise HttpError("431 Request Header Fields Too Large", "the head of the request is too long")
        data = await stream.receive_some()
        if not data:
            return None
        received += data
    head, _, body = received.partition(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    parts = first.split(" ")
    if len(parts) != 3 or not parts[2].startswith("HTTP/1."):
        raise HttpError("400 Bad Request", "this is no HTTP/1.1")
    named = [line.partition(":") for line in lines]
    headers = {name.strip().lower(): value.strip() for name, _, value in named}
    if len(headers) != len(named) or "transfer-encoding" in headers:
        raise HttpError("400 Bad Request", "a header comes twice, or the length is not told")
    length = headers.get("content-length", "0")
    if not (length.isascii() and length.isdecimal()):
        raise HttpError("400 Bad Request", "Content-Length is no number")
    if len(length) > 9 or int(length) > BODY_MAX_BYTES:
        raise HttpError("413 Content Too Large", f"a body has at most {BODY_MAX_BYTES} bytes")
    while len(body) < int(length):
        data = await stream.receive_some()
        if not data:
            return None
        body += data
    return HttpRequest(parts[0], parts[1], headers, body[: int(length)])


def response(status: str, content_type: str, body: bytes) -> bytes:
    """Return a response whose page may load nothing from elsewhere, and be framed nowhere."""
    head = f"HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nContent-Length: {len(body)}\r\n{_HEADERS}"
    return f"{head}\r\n".encode() + body
