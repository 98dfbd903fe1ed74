"""The values of a plain state, by their types: each to plain values of JSON or CBOR, and back.

`quorate.cbor` makes messages, which are small, bounded, and mostly of simple values. A state has no bounds.
So it is written as tokens, between which the event loop turns. A token packs up to `BATCH` values of one
type, by column: those of a dataclass under the names of its fields. Values that are too long for a token are
written part by part.
"""

import dataclasses
import enum
import uuid
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Sequence
from decimal import Decimal
from itertools import chain, islice
from types import NoneType, TracebackType, UnionType
from typing import (
    Annotated,
    Final,
    Literal,
    NewType,
    TypeAlias,
    TypeVar,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)

from quorate.cbor import SchemaError

T = TypeVar("T")

BATCH: Final = 128
"""The maximum number of values in a token."""
_MAX_ITEMS: Final = 1024
"""The maximum number of values in the lists and dictionaries of a token."""
_MAX_LENGTH: Final = 64 * 1024
"""The maximum length of the texts of a token, if they are more than one. With these bounds a token takes less
than a millisecond of the event loop."""

Token: TypeAlias = tuple[int, object]
"""The number of values that are packed, and the plain value that holds them. Or 0, if their parts follow, and
the number of the values."""
Writing: TypeAlias = Generator[Token, None, None]
Reading: TypeAlias = Generator[None, Token, T]


class _TooLongError(Exception):
    """These values do not fit a token."""


class Kind:
    """The values of one type. All methods raise `SchemaError`."""

    def pack(self, values: Sequence[object]) -> object:
        """Return a plain value that holds these, and that never changes. Raises `_TooLongError`."""
        raise NotImplementedError

    def unpack(self, raw: object, count: int) -> Sequence[object]:
        """Return the `count` values that `pack` got."""
        raise NotImplementedError

    def shape(self, above: "list[Struct]") -> str:
        """Return the names and types that the bytes depend on. `above`: the dataclasses that were met."""
        raise NotImplementedError

    def write(self, value: object) -> Writing:
        """Yield the tokens of one value."""
        try:
            packed = self.pack([value])
        except _TooLongError:
            yield 0, 1
            yield from self._write_parts(value)
        else:
            yield 1, packed

    def read(self) -> Reading[object]:
        """Take the tokens of one value, and return it."""
        count, raw = yield
        return self.unpack(raw, 1)[0] if count else (yield from self._read_parts())

    def write_batch(self, values: Sequence[object]) -> Writing:
        """Yield the tokens of up to `BATCH` values."""
        try:
            packed = self.pack(values)
        except _TooLongError:
            yield 0, len(values)
            for value in values:
                yield from self.write(value)
        else:
            yield len(values), packed

    def read_batch(self) -> Reading[Sequence[object]]:
        """Take the tokens of `write_batch`, and return the values."""
        count, raw = yield
        if count:
            return self.unpack(raw, count)
        values: list[object] = []
        for _ in range(_integer(raw)):
            values.append((yield from self.read()))
        return values

    def _write_parts(self, value: object) -> Writing:
        raise NotImplementedError

    def _read_parts(self) -> Reading[object]:
        raise SchemaError("the snapshot has another type here")


class Scalar(Kind):
    """Values that the codec has itself."""

    def __init__(self, types: Iterable[type[object]]) -> None:
        self.types = frozenset(types)
        self._is_sized = self.types <= {str, bytes}

    def shape(self, above: "list[Struct]") -> str:
        return _names(self.types)

    def pack(self, values: Sequence[object]) -> object:
        _check_types(values, self.types)
        if (
            self._is_sized
            and len(values) > 1
            and sum(map(len, cast("Sequence[str | bytes]", values))) > _MAX_LENGTH
        ):
            raise _TooLongError
        return values

    def unpack(self, raw: object, count: int) -> Sequence[object]:
        values = _list(raw, count)
        _check_types(values, self.types)
        return values


class Text(Kind):
    """Values that are written as text."""

    def __init__(self, of: type[object], to: Callable[..., str], back: Callable[[str], object]) -> None:
        self._of, self._to, self._back = of, to, back

    def shape(self, above: "list[Struct]") -> str:
        return "text"

    def pack(self, values: Sequence[object]) -> object:
        _check_types(values, {self._of})
        return [self._to(value) for value in values]

    def unpack(self, raw: object, count: int) -> Sequence[object]:
        try:
            return [self._back(str(text)) for text in _list(raw, count)]
        except (ValueError, KeyError, ArithmeticError) as error:
            raise SchemaError(f"not a {self._of.__name__}: {error}") from error


class Nullable(Kind):
    """Values of another kind, or None."""

    def __init__(self, inner: Kind) -> None:
        self._inner = inner

    def shape(self, above: "list[Struct]") -> str:
        return f"{self._inner.shape(above)}?"

    def pack(self, values: Sequence[object]) -> object:
        present = [value is not None for value in values]
        return [present, self._inner.pack([value for value in values if value is not None])]

    def unpack(self, raw: object, count: int) -> Sequence[object]:
        flags, packed = _list(raw, 2)
        present = [flag is True for flag in _list(flags, count)]
        values = iter(self._inner.unpack(packed, sum(present)))
        return [next(values) if each else None for each in present]

    def _write_parts(self, value: object) -> Writing:
        return self._inner.write(value)  # None is never too long

    def _read_parts(self) -> Reading[object]:
        return self._inner.read()


class Row(Kind):
    """Tuples of one length."""

    def __init__(self, items: Sequence[Kind]) -> None:
        self._items = items

    def shape(self, above: "list[Struct]") -> str:
        return f"({', '.join(item.shape(above) for item in self._items)})"

    def pack(self, values: Sequence[object]) -> object:
        _check_types(values, {tuple})
        rows = cast("Sequence[tuple[object, ...]]", values)
        if any(len(row) != len(self._items) for row in rows):
            raise SchemaError(f"expected tuples of {len(self._items)}")
        return [item.pack([row[place] for row in rows]) for place, item in enumerate(self._items)]

    def unpack(self, raw: object, count: int) -> Sequence[object]:
        packed = zip(self._items, _list(raw, len(self._items)), strict=True)
        return list(zip(*[item.unpack(column, count) for item, column in packed], strict=True))

    def _write_parts(self, value: object) -> Writing:
        for item, held in zip(self._items, cast("tuple[object, ...]", value), strict=True):
            yield from item.write(held)

    def _read_parts(self) -> Reading[object]:
        values: list[object] = []
        for item in self._items:
            values.append((yield from item.read()))
        return tuple(values)


class Series(Kind):
    """A list, or a tuple of any length."""

    def __init__(self, of: type[list[object] | tuple[object, ...]], item: Kind) -> None:
        self._of, self._item = of, item

    def shape(self, above: "list[Struct]") -> str:
        return f"[{self._item.shape(above)}]"

    def pack(self, values: Sequence[object]) -> object:
        _check_types(values, {self._of})
        series = cast("Sequence[Sequence[object]]", values)
        return [_lengths(series), self._item.pack([*chain.from_iterable(series)])]

    def unpack(self, raw: object, count: int) -> Sequence[object]:
        lengths, packed = _list(raw, 2)
        sizes = [_integer(length) for length in _list(lengths, count)]
        values = iter(self._item.unpack(packed, sum(sizes)))
        return [self._of(islice(values, size)) for size in sizes]

    def _write_parts(self, value: object) -> Writing:
        values = cast("Sequence[object]", value)
        yield 0, len(values)
        for batch in _batches(iter(values)):
            yield from self._item.write_batch(batch)

    def _read_parts(self) -> Reading[object]:
        _, length = yield
        values: list[object] = []
        while len(values) < _integer(length):
            values += yield from self._item.read_batch()
        return values if self._of is list else tuple(values)


class Table(Kind):
    """A dictionary, in its order."""

    def __init__(self, key: Kind, value: Kind) -> None:
        self._key, self._value = key, value

    def shape(self, above: "list[Struct]") -> str:
        return f"{{{self._key.shape(above)}: {self._value.shape(above)}}}"

    def pack(self, values: Sequence[object]) -> object:
        _check_types(values, {dict})
        tables = cast("Sequence[dict[object, object]]", values)
        return [
            _lengths(tables),
            self._key.pack([*chain.from_iterable(tables)]),
            self._value.pack([*chain.from_iterable(table.values() for table in tables)]),
        ]

    def unpack(self, raw: object, count: int) -> Sequence[object]:
        lengths, keys, values = _list(raw, 3)
        sizes = [_integer(length) for length in _list(lengths, count)]
        items = zip(self._key.unpack(keys, sum(sizes)), self._value.unpack(values, sum(sizes)), strict=True)
        return [dict(islice(items, size)) for size in sizes]

    def _write_parts(self, value: object) -> Writing:
        table = cast("dict[object, object]", value)
        yield 0, len(table)
        values = iter(table.values())
        for keys in _batches(iter(table)):
            held = [*islice(values, len(keys))]
            yield from self._key.write_batch(keys)
            yield from self._value.write_batch(held)

    def _read_parts(self) -> Reading[object]:
        _, length = yield
        table: dict[object, object] = {}
        while len(table) < _integer(length):
            keys = yield from self._key.read_batch()
            values = yield from self._value.read_batch()
            if not keys or len(keys) != len(values):
                raise SchemaError(f"{len(keys)} keys with {len(values)} values")
            table.update(zip(keys, values, strict=True))
        return table


class Struct(Kind):
    """A dataclass. A field that the snapshot does not have gets its default."""

    def __init__(self, of: type[object]) -> None:
        self.of = of
        self.fields: dict[str, Kind] = {}
        self.defaults: dict[str, Callable[[], object]] = {}

    def shape(self, above: "list[Struct]") -> str:
        if self in above:
            return f"#{above.index(self)}"
        above.append(self)
        return f"<{', '.join(f'{name}: {kind.shape(above)}' for name, kind in self.fields.items())}>"

    def pack(self, values: Sequence[object]) -> object:
        _check_types(values, {self.of})
        packed: dict[str, object] = {}
        if not values:
            return packed  # here ends a type that holds itself
        for name, kind in self.fields.items():
            with _Naming(self.of, name):
                packed[name] = kind.pack([getattr(value, name) for value in values])
        return packed

    def unpack(self, raw: object, count: int) -> Sequence[object]:
        if not isinstance(raw, dict):
            raise SchemaError(f"expected fields, not {type(raw).__name__}")
        self._check_names(raw)
        if not count:
            return []
        values = [self.of.__new__(self.of) for _ in range(count)]
        for name, kind in self.fields.items():
            with _Naming(self.of, name):
                column = (
                    kind.unpack(raw[name], count) if name in raw else [self._default(name) for _ in values]
                )
            for value, held in zip(values, column, strict=True):
                object.__setattr__(value, name, held)
        return values

    def write_fields(self, value: object) -> Writing:
        """Yield the tokens of each field. Its present values are those that count."""
        _check_types([value], {self.of})
        held = [getattr(value, name) for name in self.fields]
        yield 0, [*self.fields]
        for (name, kind), each in zip(self.fields.items(), held, strict=True):
            with _Naming(self.of, name):
                yield from kind.write(each)

    def read_fields(self) -> Reading[dict[str, object]]:
        """Take the tokens of `write_fields`, and return the values of the fields."""
        _, names = yield
        written = [str(name) for name in _list(names)]
        self._check_names(written)
        values: dict[str, object] = {}
        for name in written:
            with _Naming(self.of, name):
                values[name] = yield from self.fields[name].read()
        for name in self.fields:
            if name not in values:
                with _Naming(self.of, name):
                    values[name] = self._default(name)
        return values

    def _write_parts(self, value: object) -> Writing:
        return self.write_fields(value)

    def _read_parts(self) -> Reading[object]:
        fields = yield from self.read_fields()
        value = self.of.__new__(self.of)
        for name, held in fields.items():
            object.__setattr__(value, name, held)
        return value

    def _check_names(self, names: Collection[object]) -> None:
        for name in names:
            if name not in self.fields:
                raise SchemaError(f"the snapshot has a field {self.of.__name__}.{name}; keep this field")

    def _default(self, name: str) -> object:
        if name not in self.defaults:
            raise SchemaError("the snapshot is from before this field; give it a default")
        return self.defaults[name]()


class _Naming:
    """Puts the name of a field before the errors of its block."""

    __slots__ = ("_name", "_of")

    def __init__(self, of: type[object], name: str) -> None:
        self._of, self._name = of, name

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, SchemaError):
            raise SchemaError(f"{self._of.__name__}.{self._name}: {error}") from error.__cause__


def _check_types(values: Iterable[object], types: Collection[type[object]]) -> None:
    if wrong := {*map(type, values)}.difference(types):
        raise SchemaError(f"expected {_names(types)}, not {_names(wrong)}")


def _names(types: Iterable[type[object]]) -> str:
    return " or ".join(sorted("None" if each is NoneType else each.__name__ for each in types))


def _list(raw: object, length: int | None = None) -> list[object]:
    if not isinstance(raw, list) or (length is not None and len(raw) != length):
        raise SchemaError(f"expected a list of {length}, not {raw!r:.50}")
    return raw


def _integer(raw: object) -> int:
    if type(raw) is not int or raw < 0:
        raise SchemaError(f"expected a length, not {raw!r:.50}")
    return raw


def _lengths(values: Iterable[Collection[object]]) -> list[int]:
    """The lengths of these lists or dictionaries. Raises `_TooLongError`."""
    lengths = [*map(len, values)]
    if sum(lengths) > _MAX_ITEMS:
        raise _TooLongError
    return lengths


def _batches(values: Iterator[object]) -> Iterator[list[object]]:
    while batch := list(islice(values, BATCH)):
        yield batch


_TEXTS: Final[dict[object, Kind]] = {
    uuid.UUID: Text(uuid.UUID, str, uuid.UUID),
    Decimal: Text(Decimal, str, Decimal),
}
_REMEDIES: Final[dict[object, str]] = {
    set: "its order differs between nodes; use dict[..., None]",
    frozenset: "its order differs between nodes; use a tuple",
    list: "name the type of its values, as in list[str]",
    dict: "name the types of its keys and values, as in dict[str, int]",
    tuple: "name the types of its values, as in tuple[str, ...]",
    bytes: "declare snapshot_codec = SnapshotCodec.CBOR in the class",
}


def kind_of(of: type[object], scalars: Collection[type[object]]) -> Struct:
    """Return the kind of a dataclass, for a codec that has these scalars. Raises `SchemaError` for a type
    that can't be written."""
    return _Kinds(scalars).struct(of)


class _Kinds:
    def __init__(self, scalars: Collection[type[object]]) -> None:
        self._scalars = scalars
        self._structs: dict[type[object], Struct] = {}

    def struct(self, of: type[object]) -> Struct:
        if of in self._structs:
            return self._structs[of]
        struct = self._structs[of] = Struct(of)
        try:
            hints = get_type_hints(of)
        except NameError as error:
            raise SchemaError(f"{of.__name__}: {error}; its fields need types of their module") from error
        for field in dataclasses.fields(of):  # type: ignore[arg-type]
            with _Naming(of, field.name):
                struct.fields[field.name] = self._kind(hints[field.name])
            if field.default_factory is not dataclasses.MISSING:
                struct.defaults[field.name] = field.default_factory
            elif field.default is not dataclasses.MISSING:
                struct.defaults[field.name] = _constant(field.default)
        return struct

    def _kind(self, hint: object) -> Kind:
        while isinstance(hint, NewType):
            hint = hint.__supertype__
        origin, arguments = get_origin(hint), get_args(hint)
        if origin is Annotated:
            return self._kind(arguments[0])
        if origin is Literal:
            return Scalar({*map(type, arguments)})
        if origin in (Union, UnionType):
            return self._union(hint, arguments)
        if origin is dict:
            key, value = map(self._kind, arguments)
            return Table(key, value)
        if origin is list or (origin is tuple and arguments[1:] == (...,)):
            return Series(list if origin is list else tuple, self._kind(arguments[0]))
        if origin is tuple and arguments:
            return Row([self._kind(each) for each in arguments])
        if hint in _TEXTS:
            return _TEXTS[hint]
        return self._class(hint) if isinstance(hint, type) else self._refuse(hint)

    def _class(self, of: type[object]) -> Kind:
        if of in self._scalars:
            # An int stands for a float, to type checkers and here.
            return Scalar({float, int} if of is float else {of})
        if issubclass(of, enum.Enum) and not issubclass(of, enum.Flag):
            return Text(of, lambda member: str(member.name), of.__getitem__)
        return self.struct(of) if dataclasses.is_dataclass(of) else self._refuse(of)

    def _union(self, hint: object, members: Sequence[object]) -> Kind:
        kinds = [self._kind(each) for each in members if each is not NoneType]
        types = [each for kind in kinds if isinstance(kind, Scalar) for each in kind.types]
        if all(isinstance(kind, Scalar) for kind in kinds):
            return Scalar([*types, NoneType] if NoneType in members else types)
        return Nullable(kinds[0]) if len(kinds) == 1 else self._refuse(hint)

    def _refuse(self, hint: object) -> Kind:
        remedy = _REMEDIES.get(get_origin(hint) or hint, "see PlainStateMachine for the types that have one")
        raise SchemaError(f"{_name(hint)} has no form in its snapshots; {remedy}")


def _constant(value: object) -> Callable[[], object]:
    return lambda: value


def _name(hint: object) -> str:
    return hint.__name__ if isinstance(hint, type) and get_origin(hint) is None else str(hint)
