"""Dataclasses as CBOR arrays, a field after the other, each way a function made from the fields' types.

As in `dataclasses`, the source of the two functions is written and compiled once for each class. So they are
as fast as functions written by hand.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Generic, TypeVar, cast

from quorate.bounds import Bound
from quorate.cbor.kinds import Field, Kind, Kinds, same
from quorate.cbor.plain import SchemaError

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class Arrays(Kinds):
    """Kinds of fields, where a dataclass within another is a list within its list. Of the dataclasses in
    `flat` the fields stand in its place instead."""

    __slots__ = ("_arrays", "_flat")

    def __init__(self, bounds: Mapping[object, Bound], *, flat: Collection[type[object]] = ()) -> None:
        super().__init__(bounds)
        self._flat = frozenset(flat)
        self._arrays: dict[type[object], Array[object]] = {}

    def array(self, of: type[T], *given: str) -> "Array[T]":
        """The codec of a dataclass. The fields in `given` aren't in its array. Raises `TypeError`."""
        return Array(of, self, given)

    def place(self, field: Field) -> "Kind[object] | Array[object]":
        """The array of a field that is flat, else the field's kind."""
        if field.number is not None:
            raise TypeError(f"{field.name} has a number, but fields of arrays go by their place")
        of = field.type
        return self._array_within(of) if isinstance(of, type) and of in self._flat else field.kind

    def _nested(self, of: type[object], most: int | None) -> Kind[object]:
        return self._array_within(of).kind(most)

    def _array_within(self, of: type[object]) -> "Array[object]":
        # One for all fields of this type: to compile it takes as long as a hundred messages.
        if of not in self._arrays:
            self._arrays[of] = Array(of, self)
        return self._arrays[of]


class Array(Generic[T_co]):
    """A dataclass as an array of its fields in their order. Values after the last are of a later version, and
    are skipped.

    `encode` makes a list. `decode` takes one, and the values of the fields in `given`, which are not in the
    array. It raises `SchemaError`.
    """

    __slots__ = ("_fields", "decode", "encode", "of", "width")

    def __init__(self, of: type[T_co], kinds: Arrays, given: Sequence[str] = ()) -> None:
        self.of: type[object] = of
        fields = kinds.fields(of, given)
        self._fields = {each.name: kinds.place(each) for each in fields}
        names: dict[str, object] = {"SchemaError": SchemaError}
        items = ", ".join(self._items("value", names))
        read, width = self._construction(of.__name__, 0, names, given)
        places = ", ".join(f"f{place}" for place in range(width))
        self.width = width
        """The number of values in the array."""
        source = f"""
def encode(value):
    return [{items}]

def decode(fields, {", ".join(given)}):
    try:
        [{places}] = fields if len(fields) == {width} else fields[:{width}]
    except ValueError:
        raise SchemaError(f"{of.__name__}: {{len(fields)}} fields, not {width}") from None
    return {read}
"""
        exec(source, names)
        self.encode = cast("Callable[..., list[object]]", names["encode"])
        self.decode = cast("Callable[..., T_co]", names["decode"])

    def kind(self, most: int | None) -> Kind[T_co]:
        """An array within another, of up to `most` values."""

        def decode(raw: object) -> T_co:
            if type(raw) is not list or (most is not None and len(raw) > most):
                raise SchemaError(f"expected a list of no more than {most} values, not {raw!r:.50}")
            return self.decode(raw)

        return Kind(self.encode, decode)

    def _items(self, value: str, names: dict[str, object]) -> Iterator[str]:
        """The expressions of the fields of `value`, as they are written."""
        for name, kind in self._fields.items():
            field = f"{value}.{name}"
            if isinstance(kind, Array):
                yield from kind._items(field, names)
            elif kind.encode is same:
                yield field
            else:
                encoded = f"{_named_in(names, kind.encode)}({field})"
                yield f"None if {field} is None else {encoded}" if kind.nullable else encoded

    def _construction(
        self, path: str, place: int, names: dict[str, object], given: Sequence[str] = ()
    ) -> tuple[str, int]:
        """The expression that makes the dataclass, of variables from number `place` on, and the number of the
        first that it does not need."""
        arguments = [f"{name}={name}" for name in given]
        for name, kind in self._fields.items():
            if isinstance(kind, Array):
                value, place = kind._construction(f"{path}.{name}", place, names)
            else:
                slow = _named_in(names, _decode_of(f"{path}.{name}", kind))
                value = f"f{place} if {kind.check.format(f'f{place}')} else {slow}(f{place})"
                place += 1
            arguments.append(f"{name}={value}")
        return f"{_named_in(names, self.of)}({', '.join(arguments)})", place


def _decode_of(name: str, kind: Kind[object]) -> Callable[[object], object]:
    """`kind.decode`, with the field's name in its error."""

    def decode(raw: object) -> object:
        try:
            return kind.decode_any(raw)
        except SchemaError as error:
            raise SchemaError(f"{name}: {error}") from None

    return decode


def _named_in(names: dict[str, object], value: object) -> str:
    """A name for `value` among the global names of compiled source."""
    name = f"g{len(names)}"
    names[name] = value
    return name
