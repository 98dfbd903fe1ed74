"""Dataclasses as CBOR maps from small integers to values: a reader skips fields that it does not know, and a
writer leaves out those that have their default."""

from collections.abc import Callable, Mapping
from dataclasses import MISSING
from typing import Generic, TypeVar

from quorate.bounds import Bound
from quorate.cbor.kinds import Kind, Kinds
from quorate.cbor.plain import SchemaError, dump, load

T = TypeVar("T")


class _Maps(Kinds):
    """Kinds of fields, where a dataclass within another is a map too."""

    __slots__ = ("_structs",)

    def __init__(self, bounds: Mapping[object, Bound]) -> None:
        super().__init__(bounds)
        self._structs: dict[type[object], Kind[object]] = {}

    def _nested(self, of: type[object], most: int | None) -> Kind[object]:
        if most is not None:
            raise TypeError(f"a {of.__name__} within another message has no bound of its own")
        if of not in self._structs:
            struct = Struct(of, self)
            self._structs[of] = Kind(struct.encode, struct.decode)
        return self._structs[of]


class Struct(Generic[T]):
    """A dataclass as a CBOR map. The number of a field is one above that of the field before: new ones come
    last, and `Numbered` leaves numbers out. The dataclass's defaults are the fields' defaults."""

    __slots__ = ("_by_key", "_fields", "_required", "of")

    def __init__(self, of: type[T], kinds: _Maps) -> None:
        self.of = of
        self._required = set[str]()
        self._fields: list[tuple[int, str, Callable[..., object], object]] = []
        self._by_key: dict[object, tuple[str, Callable[[object], object], bool]] = {}
        key = -1
        for field in kinds.fields(of):
            if field.number is not None and field.number <= key:
                raise TypeError(f"{of.__name__}.{field.name}: the number {field.number} is taken")
            key = key + 1 if field.number is None else field.number
            self._fields.append((key, field.name, field.kind.encode, field.default))
            self._by_key[key] = field.name, field.kind.decode, field.kind.nullable
            if field.default is MISSING:
                self._required.add(field.name)

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


class Messages(Generic[T]):
    """The CBOR array [number, version, fields] for each type of a table. Its rows are a number for ever, the
    version that is written, and the type.

    Fields that a reader does not know are skipped, a number or a version that it does not know is refused.
    """

    __slots__ = ("_by_number", "_by_type", "_error", "_max_bytes", "_what", "types")

    def __init__(
        self,
        what: str,
        *rows: tuple[int, int, type[T]],
        error: type[ValueError],
        max_bytes: int,
        bounds: Mapping[object, Bound] | None = None,
    ) -> None:
        """`bounds`: of fields of these types that have none written on them."""
        self._what = what
        kinds = _Maps(bounds or {})
        self.types = {number: of for number, _, of in rows}
        structs = {of: Struct(of, kinds) for _, _, of in rows}
        self._by_type = {of: (number, version, structs[of]) for number, version, of in rows}
        self._by_number = {number: (version, structs[of].decode) for number, version, of in rows}
        self._error = error
        self._max_bytes = max_bytes

    def type_of(self, number: int, version: int) -> type[T] | None:
        """Return the type with this number. None: it, or this version of it, is not known."""
        known = self._by_number.get(number)
        return None if known is None or not 0 <= version <= known[0] else self.types[number]

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
