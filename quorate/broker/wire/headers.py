"""Request and response headers."""

import struct
from collections.abc import Mapping
from typing import Final

from quorate.broker.wire.api import APIS, Api
from quorate.kafka_bytes.primitives import Cursor, Pieces
from quorate.kafka_bytes.varints import MalformedError
from quorate.value import value

_REQUEST = struct.Struct(">hhi")
MIN_REQUEST_BYTES: Final = _REQUEST.size


@value(frozen=True, slots=True)
class RequestHeader:
    api: Api
    version: int
    correlation_id: int
    client_id: str | None
    body_start: int
    """Position of the body in the frame."""


def read_request_header(frame: memoryview, apis: Mapping[int, Api] = APIS) -> RequestHeader:
    """Read a header. Raises `MalformedError`, also for a key that is not in `apis`. For versions above those
    that we serve it is read up to the client id, whose form is the same in all of them."""
    if len(frame) < MIN_REQUEST_BYTES:
        raise MalformedError(f"a frame of {len(frame)} bytes is too short for a request header")
    key, version, correlation_id = _REQUEST.unpack_from(frame)
    api = apis.get(key)
    if api is None:
        raise MalformedError(f"unknown API key {key}")
    if version < 0:
        raise MalformedError(f"version {version} of API {api.name}")
    # The client id keeps its int16 length in flexible versions too (RequestHeader.json says why).
    cursor = Cursor(frame, flexible=False, position=_REQUEST.size)
    client_id = cursor.nullable_string()
    if api.flexible(version) and version <= api.max_version:
        cursor.flexible = True
        cursor.tags()
    return RequestHeader(api, version, correlation_id, client_id, cursor.position)


def write_request_header(
    pieces: Pieces, *, api: Api, version: int, correlation_id: int, client_id: str | None
) -> None:
    pieces.write(_REQUEST.pack(api.key, version, correlation_id))
    flexible, pieces.flexible = pieces.flexible, False
    pieces.string(client_id)
    pieces.flexible = flexible
    if api.flexible(version):
        pieces.write(b"\0")


def response_prefix(*, api: Api, version: int, correlation_id: int, body_bytes: int) -> bytes:
    """Encode the frame length and the response header in front of a body of `body_bytes`."""
    if api.flexible_response_header(version):
        return struct.pack(">iix", body_bytes + 5, correlation_id)
    return struct.pack(">ii", body_bytes + 4, correlation_id)


def read_response_header(frame: memoryview, *, api: Api, version: int) -> int:
    """Return the position of the body in the frame (its correlation id was read to find key and version)."""
    cursor = Cursor(frame, flexible=api.flexible_response_header(version), position=4)
    cursor.tags()
    return cursor.position
