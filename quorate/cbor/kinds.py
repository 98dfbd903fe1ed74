"""The kinds of fields, with their bounds."""

import enum
import math
import uuid
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final, Generic, TypeVar, cast

from quorate.cbor.plain import SchemaError

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
E = TypeVar("E", bound=enum.IntEnum)


@dataclass(frozen=True, slots=True)
class Kind(Generic[T_co]):
    """What may stand in a field: to CBOR, and from CBOR with `SchemaError` for anything else."""

    encode: Callable[..., object]
    decode: Callable[[object], T_co]
    """Both of anything but null where `nullable`."""
    nullable: bool = False
    check: str = "False"
    """An expression of `{0}`. Where it is true `decode` gives back its argument, so that it need not be
    called."""

    def decode_any(self, raw: object) -> T_co:
        """As `decode`, null included where it may stand."""
        return cast(T_co, None) if raw is None and self.nullable else self.decode(raw)


def same(value: object) -> object:
    """`encode` of what CBOR has itself."""
    return value


def integer(*, bits: int = 32, low: int | None = None, high: int | None = None) -> Kind[int]:
    """A signed integer of `bits`, from `low` to `high` (inclusive) where they are given."""
    least, most = _bounds(bits, low, high)

    def decode(raw: object) -> int:
        if type(raw) is not int:
            raise SchemaError(f"expected an integer, not {type(raw).__name__}")
        if not least <= raw <= most:
            raise SchemaError(f"{raw} is not within {least} and {most}")
        return raw

    return Kind(same, decode, check=f"type({{0}}) is int and {least} <= {{0}} <= {most}")


def _bounds(bits: int, low: int | None, high: int | None = None) -> tuple[int, int]:
    limit = 1 << (bits - 1)
    return -limit if low is None else low, limit - 1 if high is None else high


def _decode_boolean(raw: object) -> bool:
    if raw is True or raw is False:
        return raw
    raise SchemaError(f"expected a boolean, not {type(raw).__name__}")


boolean: Final = Kind(same, _decode_boolean, check="{0} is True or {0} is False")


def _decode_number(raw: object) -> float:
    if type(raw) is float and math.isfinite(raw):
        return raw
    raise SchemaError(f"expected a finite number, not {raw!r:.40}")


number: Final = Kind(same, _decode_number)
"""A floating-point number, neither infinite nor NaN."""


def text(*, most: int = 32767) -> Kind[str]:
    """A string of up to `most` characters."""

    def decode(raw: object) -> str:
        if type(raw) is not str:
            raise SchemaError(f"expected a string, not {type(raw).__name__}")
        if len(raw) > most:
            raise SchemaError(f"a string of {len(raw)} characters, more than the {most} allowed")
        return raw

    return Kind(same, decode, check=f"type({{0}}) is str and len({{0}}) <= {most}")


@lru_cache(maxsize=1 << 14)
def _uuid_of(raw: bytes) -> uuid.UUID:
    # A memo, not state: one topic's id is decoded with each of its records, and building one costs 2 us.
    return uuid.UUID(bytes=raw)


def _decode_identifier(raw: object) -> uuid.UUID:
    if type(raw) is not bytes or len(raw) != 16:
        raise SchemaError("expected an id of 16 bytes")
    return _uuid_of(raw)


def _encode_identifier(value: uuid.UUID) -> object:
    return value.bytes


identifier: Final = Kind(_encode_identifier, _decode_identifier)
"""A UUID, 16 bytes in CBOR."""


def optional(kind: Kind[T]) -> Kind[T | None]:
    """A value that may be null."""
    return cast("Kind[T | None]", replace(kind, nullable=True, check=f"{{0}} is None or {kind.check}"))


def sequence(kind: Kind[T], *, most: int) -> Kind[tuple[T, ...]]:
    """Up to `most` values of one kind that is not optional."""
    encode_one, decode_one = kind.encode, kind.decode

    def encode(values: tuple[T, ...]) -> object:
        return [encode_one(value) for value in values]

    def decode(raw: object) -> tuple[T, ...]:
        if type(raw) is not list:
            raise SchemaError(f"expected a list, not {type(raw).__name__}")
        if len(raw) > most:
            raise SchemaError(f"a list of {len(raw)}, more than the {most} allowed")
        return tuple([decode_one(value) for value in raw])

    return Kind(encode, decode)


def integers(*, most: int, bits: int = 32, low: int | None = None) -> Kind[tuple[int, ...]]:
    """Up to `most` integers. As `sequence(integer(...))`, with one check for all of them."""
    least, highest = _bounds(bits, low)

    def decode(raw: object) -> tuple[int, ...]:
        if type(raw) is not list:
            raise SchemaError(f"expected a list, not {type(raw).__name__}")
        if not raw:
            return ()
        if len(raw) > most:
            raise SchemaError(f"a list of {len(raw)}, more than the {most} allowed")
        for value in raw:
            if type(value) is not int:
                raise SchemaError(f"expected an integer, not {type(value).__name__}")
            if not least <= value <= highest:
                raise SchemaError(f"an integer that is not within {least} and {highest}")
        return tuple(raw)

    return Kind(list, decode)


def one_of(members: type[E], *, only: Collection[E] | None = None) -> Kind[E]:
    """A member of an integer enum. `only`: which of them are decoded, if not all."""
    by_value: Mapping[object, E] = {int(each): each for each in (members if only is None else only)}

    def decode(raw: object) -> E:
        if type(raw) is not int or raw not in by_value:
            raise SchemaError(f"expected a {members.__name__}, not {raw!r:.40}")
        return by_value[raw]

    return Kind(int, decode)
