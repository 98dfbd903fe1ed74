"""Plain values to CBOR and back. Tags are refused before they are interpreted, indefinite lengths and
duplicate keys too; depth and size are bounded."""

from collections.abc import Callable
from typing import Final, Never

import cbor2

MAX_DEPTH: Final = 10
"""Containers within containers, the outermost included."""


class SchemaError(ValueError):
    """Bytes or values that do not fit the schema."""


class _NoTags(dict[int, Callable[[object, bool], object]]):
    """Stands where cbor2 looks up the meaning of a tag, and refuses every tag unread. Otherwise cbor2 would
    build, for an unauthenticated peer, a regular expression, a number of thousands of digits, or references
    into the value itself."""

    def __missing__(self, tag: int) -> Never:
        raise SchemaError(f"CBOR tag {tag} is not allowed")


def _big(data: object, *, sign: int) -> int:
    if not isinstance(data, bytes):
        raise SchemaError("expected the bytes of an integer")
    number = int.from_bytes(data)
    return number if sign > 0 else -1 - number


_NO_TAGS: Final = _NoTags()
_BIG_INTEGERS: Final = _NoTags(
    {2: lambda data, _: _big(data, sign=1), 3: lambda data, _: _big(data, sign=-1)}
)
"""The tags of integers that need more than 64 bits (RFC 8949, 3.4.3)."""


def load(
    data: bytes,
    *,
    max_bytes: int,
    max_depth: int = MAX_DEPTH,
    text_keys: bool = False,
    big_integers: bool = False,
) -> object:
    """The plain value in `data`: None, bool, int, float, str, bytes, list or dict, with keys of text
    or bytes if `text_keys`. Integers have 64 bits, or more if `big_integers`. Raises `SchemaError`."""
    if len(data) > max_bytes:
        raise SchemaError(f"{len(data)} bytes, more than the {max_bytes} allowed")
    try:
        value: object = cbor2.loads(
            data,
            semantic_decoders=_BIG_INTEGERS if big_integers else _NO_TAGS,
            max_depth=max_depth,
            allow_indefinite=False,
            allow_duplicate_keys=False,
            strict_hashable_types=text_keys,
        )
    except (cbor2.CBORError, ValueError, TypeError, OverflowError, RecursionError) as error:
        raise SchemaError(f"not valid CBOR: {error}") from error
    return value


def dump(value: object) -> bytes:
    return cbor2.dumps(value)
