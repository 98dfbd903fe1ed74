"""`throttle_time_ms` in answers that are encoded already: how long a client waits is known at the end."""

import math
from collections.abc import Sequence
from dataclasses import fields
from functools import cache
from typing import Final

from quorate.broker.wire.api import Api, ApiKey
from quorate.broker.wire.codecs.entities import response_type
from quorate.runtime import Buffer

_FETCH_FIRST: Final = 1
"""The version of Fetch that has it."""
_SIZES: Final = {"error_code": 2}
"""Of the fields that may stand before it."""


@cache
def throttle_offset(api: Api, version: int) -> int | None:
    """Return where the field is in the body of an answer; None if that has none, or has it behind others of
    unknown size (Produce, ApiVersions)."""
    if api.key == ApiKey.FETCH:
        return 0 if version >= _FETCH_FIRST else None
    if api.key == ApiKey.PRODUCE:
        return None
    offset = 0
    for field in fields(response_type(api, version)):
        if field.name == "throttle_time":
            return offset
        size = _SIZES.get(field.name)
        if size is None:
            return None
        offset += size
    return None


def with_throttle(body: Sequence[Buffer], *, api: Api, version: int, seconds: float) -> Sequence[Buffer]:
    """Return the body with the longer of its throttle time and `seconds`. The first piece is replaced, not
    changed: others may have it too."""
    offset = throttle_offset(api, version)
    if offset is None or not body or len(body[0]) < offset + 4:
        return body
    first = memoryview(body[0])
    place = slice(offset, offset + 4)
    held = int.from_bytes(first[place], "big", signed=True)
    milliseconds = max(held, math.ceil(seconds * 1000))
    head = bytes(first[:offset]) + milliseconds.to_bytes(4, "big", signed=True)
    return [head, first[place.stop :], *body[1:]]
