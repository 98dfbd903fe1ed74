"""Typed values from CBOR and back: what may stand in a field, with its bounds.

A dataclass is a map from small integers to values, so that a reader skips fields it does not know and a
writer leaves out those that have their default. Tags are refused before they are interpreted, indefinite
lengths and duplicate keys too; depth and sizes are bounded.
"""

import dataclasses
import enum
import uuid
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, Generic, Never, TypeVar

import cbor2

T = TypeVar("T")
E = TypeVar("E", bound=enum.IntEnum)

MAX_DEPTH: Final = 10
"""Containers within containers, the outermost included."""


class SchemaError(ValueError):
    """Bytes or values that do not fit the schema."""


class _NoTags(dict[int, Callable[[object, bool], object]]):
    """Stands where cbor2 looks up what a tag means: whatever the tag, it is refused unread."""

    def __missing__(self, tag: int) -> Never:
        raise SchemaError(f"CBOR tag {tag} is not allowed")


_NO_TAGS: Final = _NoTags()


def load(data: bytes, *, max_bytes: int) -> object:
    """The plain value in `data`: None, bool, int, float, str, bytes, list or dict. Raises `SchemaError`."""
    if len(data) > max_bytes:
        raise SchemaError(f"{len(data)} bytes, more than the {max_bytes} allowed")
    try:
        value: object = cbor2.loads(
            data,
            semantic_decoders=_NO_TAGS,
            max_depth=MAX_DEPTH,
            allow_indefinite=False,
            allow_duplicate_keys=False,
        )
    except (cbor2.CBORError, ValueError, TypeError, OverflowError, RecursionError) as error:
        raise SchemaError(f"not valid CBOR: {error}") from error
    return value


def dump(value: object) -> bytes:
    return cbor2.dumps(value)


@dataclass(frozen=True, slots=True)
class Kind(Generic[T]):
    """What may stand in a field: to CBOR, and from CBOR with `SchemaError` for anything else."""

    encode: Callable[[T], object]
    decode: Callable[[object], T]
    unless_null: Callable[[object], object] | None = None
    """Of an optional value: `decode` for what is not null, which spares a call per field."""


def _same(value: T) -> object:
    return value


def integer(*, bits: int = 32, low: int | None = None) -> Kind[int]:
    """A signed integer of `bits`, at least `low` where that is given."""
    least = -(1 << (bits - 1)) if low is None else low
    most = (1 << (bits - 1)) - 1

    def decode(raw: object) -> int:
        if type(raw) is not int:
            raise SchemaError(f"expected an integer, not {type(raw).__name__}")
        if not least <= raw <= most:
            raise SchemaError(f"{raw} is not within {least} and {most}")
        return raw

    return Kind(_same, decode)


def _decode_boolean(raw: object) -> bool:
    if raw is True or raw is False:
        return raw
    raise SchemaError(f"expected a boolean, not {type(raw).__name__}")


boolean: Kind[bool] = Kind(_same, _decode_boolean)


def text(*, most: int = 32767) -> Kind[str]:
    """A string of up to `most` characters."""

    def decode(raw: object) -> str:
        if type(raw) is not str:
            raise SchemaError(f"expected a string, not {type(raw).__name__}")
        if len(raw) > most:
            raise SchemaError(f"a string of {len(raw)} characters, more than the {most} allowed")
        return raw

    return Kind(_same, decode)


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


identifier: Kind[uuid.UUID] = Kind(_encode_identifier, _decode_identifier)
"""A UUID, 16 bytes in CBOR."""


def optional(kind: Kind[T]) -> Kind[T | None]:
    """A value that may be null."""

    def encode(value: T | None) -> object:
        return None if value is None else kind.encode(value)

    def decode(raw: object) -> T | None:
        return None if raw is None else kind.decode(raw)

    return Kind(encode, decode, kind.decode)


def sequence(kind: Kind[T], *, most: int) -> Kind[tuple[T, ...]]:
    """Up to `most` values of one kind."""
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
    least = -(1 << (bits - 1)) if low is None else low
    highest = (1 << (bits - 1)) - 1

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

    def encode(value: E) -> object:
        return int(value)

    def decode(raw: object) -> E:
        if type(raw) is not int or raw not in by_value:
            raise SchemaError(f"expected a {members.__name__}, not {raw!r:.40}")
        return by_value[raw]

    return Kind(encode, decode)


# A field's kind has the field's own type; a tuple of several can't say so.
@dataclass(frozen=True, slots=True)
class Field:
    """One field of a dataclass: its number on the wire, its name, what may stand in it."""

    key: int
    name: str
    encode: Callable[..., object]
    decode: Callable[[object], object]
    """Where `nullable`, of anything but null."""
    nullable: bool


def field(key: int, name: str, kind: Kind[T]) -> Field:
    if kind.unless_null is not None:
        return Field(key, name, kind.encode, kind.unless_null, True)
    return Field(key, name, kind.encode, kind.decode, False)


class Struct(Generic[T]):
    """A dataclass as a CBOR map. The dataclass's defaults are the fields' defaults."""

    __slots__ = ("_by_key", "_fields", "_required", "_type")

    def __init__(self, of: type[T], *fields: Field) -> None:
        if not dataclasses.is_dataclass(of):
            raise TypeError(f"{of.__name__} is not a dataclass")
        declared = {each.name: each.default for each in dataclasses.fields(of)}
        if sorted(declared) != sorted(each.name for each in fields):
            raise TypeError(f"the fields of {of.__name__} are {sorted(declared)}")
        self._type = of
        self._fields = tuple((each, declared[each.name]) for each in fields)
        self._by_key: Mapping[object, tuple[str, Callable[[object], object], bool]] = {
            each.key: (each.name, each.decode, each.nullable) for each in fields
        }
        self._required = frozenset(
            name for name, default in declared.items() if default is dataclasses.MISSING
        )

    @property
    def kind(self) -> Kind[T]:
        return Kind(self.encode, self.decode)

    def encode(self, value: T) -> object:
        body: dict[int, object] = {}
        for each, default in self._fields:
            held = getattr(value, each.name)
            if held != default:
                body[each.key] = each.encode(held)
        return body

    def decode(self, raw: object) -> T:
        if type(raw) is not dict:
            raise SchemaError(f"{self._type.__name__}: expected a map, not {type(raw).__name__}")
        values: dict[str, object] = {}
        by_key = self._by_key
        name = ""
        try:
            for key, held in raw.items():
                if key in by_key:
                    name, decode, nullable = by_key[key]
                    values[name] = None if held is None and nullable else decode(held)
        except SchemaError as error:
            raise SchemaError(f"{self._type.__name__}.{name}: {error}") from None
        try:
            return self._type(**values)
        except TypeError:
            missing = sorted(self._required - values.keys())
            raise SchemaError(f"{self._type.__name__}: missing {', '.join(missing)}") from None
