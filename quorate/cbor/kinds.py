"""The kinds of fields: each with its bounds, made from the type that a dataclass gives the field."""

import dataclasses
import enum
import math
import uuid
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from types import NoneType, UnionType
from typing import (
    Annotated,
    Final,
    Generic,
    NewType,
    TypeVar,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)

from quorate.bounds import Bound, Integer, Most, Numbered, Only
from quorate.cbor.plain import SchemaError
from quorate.types import SecretBytes

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
B = TypeVar("B", Integer, Most, Only)


@dataclass(frozen=True, slots=True)
class Kind(Generic[T_co]):
    """The values that a field takes, to CBOR and from CBOR. `decode` raises `SchemaError` for any other."""

    encode: Callable[..., object]
    decode: Callable[[object], T_co]
    """Both of anything but null where `nullable`."""
    nullable: bool = False
    check: str = "False"
    """An expression of `{0}`. Where it is true `decode` gives back its argument, so that it need not be
    called."""
    limits: tuple[int, int] | None = None
    """The least and the greatest value, both inclusive, of an integer."""

    def decode_any(self, raw: object) -> T_co:
        """As `decode`, null included where it may stand."""
        return cast(T_co, None) if raw is None and self.nullable else self.decode(raw)


def same(value: object) -> object:
    """The `encode` of values that CBOR has itself."""
    return value


def _integer(bound: Integer) -> Kind[int]:
    least, most = bound.limits

    def decode(raw: object) -> int:
        if type(raw) is not int:
            raise SchemaError(f"expected an integer, not {type(raw).__name__}")
        if not least <= raw <= most:
            raise SchemaError(f"{raw} is not within {least} and {most}")
        return raw

    check = f"type({{0}}) is int and {least} <= {{0}} <= {most}"
    return Kind(same, decode, check=check, limits=bound.limits)


def _decode_boolean(raw: object) -> bool:
    if raw is True or raw is False:
        return raw
    raise SchemaError(f"expected a boolean, not {type(raw).__name__}")


def _decode_number(raw: object) -> float:
    if type(raw) is float and math.isfinite(raw):
        return raw
    raise SchemaError(f"expected a finite number, not {raw!r:.40}")


def _text(bound: Most) -> Kind[str]:
    most = bound.count

    def decode(raw: object) -> str:
        if type(raw) is not str:
            raise SchemaError(f"expected a string, not {type(raw).__name__}")
        if len(raw) > most:
            raise SchemaError(f"a string of {len(raw)} characters, more than the {most} allowed")
        return raw

    return Kind(same, decode, check=f"type({{0}}) is str and len({{0}}) <= {most}")


def _secret(bound: Most) -> Kind[SecretBytes]:
    most = bound.count

    def decode(raw: object) -> SecretBytes:
        if type(raw) is not bytes:
            raise SchemaError(f"expected bytes, not {type(raw).__name__}")
        if len(raw) > most:
            raise SchemaError(f"{len(raw)} bytes, more than the {most} allowed")
        return SecretBytes(raw)

    return Kind(bytes, decode)


@lru_cache(maxsize=1 << 14)
def _uuid_of(raw: bytes) -> uuid.UUID:
    # A memo, not state: one topic's id is decoded with each of its records, and building one costs 2 us.
    return uuid.UUID(bytes=raw)


def decode_identifier(raw: object) -> uuid.UUID:
    """The UUID that is 16 bytes in CBOR. Raises `SchemaError`."""
    if type(raw) is not bytes or len(raw) != 16:
        raise SchemaError("expected an id of 16 bytes")
    return _uuid_of(raw)


def _encode_identifier(value: uuid.UUID) -> object:
    return value.bytes


def _member(of: type[enum.IntEnum], members: Collection[enum.IntEnum]) -> Kind[enum.IntEnum]:
    by_value: Mapping[object, enum.IntEnum] = {int(each): each for each in members}

    def decode(raw: object) -> enum.IntEnum:
        if type(raw) is not int or raw not in by_value:
            raise SchemaError(f"expected a {of.__name__}, not {raw!r:.40}")
        return by_value[raw]

    return Kind(int, decode)


def optional(kind: Kind[T]) -> Kind[T | None]:
    """A value that may be null."""
    return cast("Kind[T | None]", replace(kind, nullable=True, check=f"{{0}} is None or {kind.check}"))


def sequence(kind: Kind[T], *, most: int) -> Kind[tuple[T, ...]]:
    """Up to `most` values of one kind. Raises `TypeError` if it is optional."""
    if kind.nullable:
        raise TypeError("none of a tuple's values may be null")
    if kind.limits is not None:
        return cast("Kind[tuple[T, ...]]", _integers(*kind.limits, most))
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


def _integers(least: int, greatest: int, most: int) -> Kind[tuple[int, ...]]:
    """As `sequence` of anything else, with one check for all of them."""

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
            if not least <= value <= greatest:
                raise SchemaError(f"an integer that is not within {least} and {greatest}")
        return tuple(raw)

    return Kind(list, decode)


_UNBOUNDED: Final[Mapping[object, Kind[object]]] = {
    bool: Kind(same, _decode_boolean, check="{0} is True or {0} is False"),
    float: Kind(same, _decode_number),
    uuid.UUID: Kind(_encode_identifier, decode_identifier),
}


@dataclass(frozen=True, slots=True)
class Field:
    """A field as its dataclass declares it."""

    name: str
    type: object
    """With the bounds that are written on it."""
    kind: Kind[object]
    number: int | None
    """As `Numbered` says."""
    default: object
    """`dataclasses.MISSING` if it has none."""


class Kinds:
    """The kinds of fields by their types. A field has the bounds that are written on its type, else those in
    `bounds` for it, else 32 bits or 32,767 characters. A tuple must have bounds."""

    __slots__ = ("_bounds",)

    def __init__(self, bounds: Mapping[object, Bound]) -> None:
        self._bounds = bounds

    # `of` is a type, but not declared as `type[T]`: pyright takes no NewType for one.
    def kind(self, of: Callable[..., T], *written: Bound) -> Kind[T]:
        """The kind of a field of this type with these bounds written on it. Raises `TypeError` if there is
        none."""
        return cast("Kind[T]", self._kind(of, written))

    def fields(self, of: type[object], without: Collection[str] = ()) -> list[Field]:
        """The fields of a dataclass, in order. Raises `TypeError`."""
        if not dataclasses.is_dataclass(of):
            raise TypeError(f"{of.__name__} is not a dataclass")
        hints = get_type_hints(of, include_extras=True)
        if unknown := {*without} - hints.keys():
            raise TypeError(f"{of.__name__} has no {', '.join(sorted(unknown))}")
        return [
            self._field(of, each.name, hints[each.name], each.default)
            for each in dataclasses.fields(of)
            if each.name not in without
        ]

    def _field(self, of: type[object], name: str, hint: object, default: object) -> Field:
        inner, *written = get_args(hint) if get_origin(hint) is Annotated else (hint,)
        number = next((each.number for each in written if isinstance(each, Numbered)), None)
        try:
            kind = self._kind(inner, [each for each in written if not isinstance(each, Numbered)])
        except TypeError as error:
            raise TypeError(f"{of.__name__}.{name}: {error}") from None
        return Field(name, hint, kind, number, default)

    def _kind(self, hint: object, written: Sequence[object] = ()) -> Kind[object]:
        origin = get_origin(hint)
        if origin is Annotated:
            inner, *more = get_args(hint)
            return self._kind(inner, [*written, *more])
        if origin in (Union, UnionType):
            others = [each for each in get_args(hint) if each is not NoneType]
            if len(others) == 1:
                return optional(self._kind(others[0], written))
        if not written and hint in self._bounds:
            written = [self._bounds[hint]]
        if isinstance(hint, NewType):
            return self._kind(hint.__supertype__, written)
        if hint in _UNBOUNDED and not written:
            return _UNBOUNDED[hint]
        if hint is int:
            return _integer(_bound(Integer, written, Integer()))
        if hint is str:
            return _text(_bound(Most, written, Most(32767)))
        if hint is SecretBytes:
            return _secret(_bound(Most, written))
        if origin is tuple and get_args(hint)[1:] == (...,):
            return sequence(self._kind(get_args(hint)[0]), most=_bound(Most, written).count)
        if isinstance(hint, type) and issubclass(hint, enum.IntEnum):
            return _member(hint, _bound(Only, written, Only(tuple(hint))).members)
        if dataclasses.is_dataclass(hint) and isinstance(hint, type):
            return self._nested(hint, _bound(Most, written).count if written else None)
        raise TypeError(f"{hint} with {[*written]} is no kind of field")

    def _nested(self, of: type[object], most: int | None) -> Kind[object]:
        """A dataclass within another, of up to `most` values."""
        raise NotImplementedError


def _bound(wanted: type[B], written: Sequence[object], usual: B | None = None) -> B:
    """The last that is written counts."""
    bound = written[-1] if written else usual
    if not isinstance(bound, wanted) or not all(isinstance(each, wanted) for each in written):
        raise TypeError(f"it needs {wanted.__name__}, not {[*written]}")
    return bound
