"""Dataclasses as CBOR maps from small integers to values: a reader skips fields that it does not know, and a
writer leaves out those that have their default."""

import dataclasses
from collections.abc import Callable, Collection, Mapping
from typing import Final, Generic, TypeVar, cast

from quorate.cbor.kinds import Kind
from quorate.cbor.plain import SchemaError, dump, load

T = TypeVar("T")

RETIRED: Final = None
"""Stands for a field that there is no more: its number is not used again."""


def defaults_of(of: type[object], names: Collection[str]) -> dict[str, object]:
    """By field of the dataclass, which has exactly those of `names`."""
    if not dataclasses.is_dataclass(of):
        raise TypeError(f"{of.__name__} is not a dataclass")
    declared: dict[str, object] = {each.name: each.default for each in dataclasses.fields(of)}
    if declared.keys() != {*names}:
        raise TypeError(f"the fields of {of.__name__} are {sorted(declared)}")
    return declared


class Struct(Generic[T]):
    """A dataclass as a CBOR map. A field's number is its place among `fields`, so that new ones come last.
    The dataclass's defaults are the fields' defaults."""

    __slots__ = ("_by_key", "_fields", "_required", "of")

    def __init__(self, of: type[T], /, **fields: Kind[object] | None) -> None:
        kinds = [(key, name, kind) for key, (name, kind) in enumerate(fields.items()) if kind is not None]
        defaults = defaults_of(of, [name for _, name, _ in kinds])
        self.of = of
        self._fields = tuple((key, name, kind.encode, defaults[name]) for key, name, kind in kinds)
        self._by_key: Mapping[object, tuple[str, Callable[[object], object], bool]] = {
            key: (name, kind.decode, kind.nullable) for key, name, kind in kinds
        }
        self._required = {name for name, default in defaults.items() if default is dataclasses.MISSING}

    @property
    def kind(self) -> Kind[T]:
        return Kind(self.encode, self.decode)

    def encode(self, value: T) -> object:
        body: dict[int, object] = {}
        for key, name, encode, default in self._fields:
            held = getattr(value, name)
            if held != default:
                body[key] = None if held is None else encode(held)
        return body

    def decode(self, raw: object) -> T:
        if type(raw) is not dict:
            raise SchemaError(f"{self.of.__name__}: expected a map, not {type(raw).__name__}")
        values: dict[str, object] = {}
        by_key = self._by_key
        name = ""
        try:
            for key, held in raw.items():
                if key in by_key:
                    name, decode, nullable = by_key[key]
                    values[name] = None if held is None and nullable else decode(held)
        except SchemaError as error:
            raise SchemaError(f"{self.of.__name__}.{name}: {error}") from None
        try:
            return self.of(**values)
        except TypeError:
            missing = sorted(self._required - values.keys())
            raise SchemaError(f"{self.of.__name__}: missing {', '.join(missing)}") from None


Row = tuple[int, int, Struct[object]]


def row(number: int, version: int, of: type[object], /, **fields: Kind[object] | None) -> Row:
    """Of a table of messages: a type, its number for ever, the version that is written, and its fields."""
    return number, version, Struct(of, **fields)


class Messages(Generic[T]):
    """The CBOR array [number, version, fields] for each type of a table.

    Fields that a reader does not know are skipped, a number or a version that it does not know is refused.
    """

    __slots__ = ("_by_number", "_by_type", "_error", "_max_bytes", "_what")

    def __init__(self, what: str, *rows: Row, error: type[ValueError], max_bytes: int) -> None:
        self._what = what
        self._by_type = {struct.of: (number, version, struct) for number, version, struct in rows}
        self._by_number = {
            number: (version, cast("Struct[T]", struct).decode) for number, version, struct in rows
        }
        self._error = error
        self._max_bytes = max_bytes

    @property
    def types(self) -> dict[int, type[object]]:
        """By number."""
        return {number: of for of, (number, _, _) in self._by_type.items()}

    def version_of(self, message: T) -> int:
        """The version that `encode` writes."""
        return self._by_type[type(message)][1]

    def encode(self, message: T) -> bytes:
        number, version, struct = self._by_type[type(message)]
        return dump([number, version, struct.encode(message)])

    def decode(self, data: bytes) -> T:
        """The message in `data`, every field checked. Raises `error`, and nothing else, for bytes that are
        none; without a cause for a number or a version that is not known."""
        try:
            raw = load(data, max_bytes=self._max_bytes)
            if type(raw) is not list or len(raw) != 3:
                raise SchemaError("expected [number, version, fields]")
            number, version, body = raw
            if type(number) is not int or type(version) is not int:
                raise SchemaError("the number and the version are integers")
            known = self._by_number.get(number)
            if known is None or not 0 <= version <= known[0]:
                raise self._error(
                    f"{self._what} {number} version {version} is not known to this version of quorate: "
                    "upgrade this node before the cluster's features"
                )
            return known[1](body)
        except SchemaError as error:
            raise self._error(f"not a {self._what}: {error}") from error
