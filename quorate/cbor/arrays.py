"""Dataclasses as CBOR arrays, a field after the other, each way a function made from one table.

As in `dataclasses`, the source of the two functions is written and compiled when the table is read. So they
are as fast as functions written by hand.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Generic, TypeVar, cast

from quorate.cbor.kinds import Kind, same
from quorate.cbor.maps import defaults_of
from quorate.cbor.plain import SchemaError

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class Array(Generic[T_co]):
    """A dataclass as an array of its `fields` in this order. The fields of a field that is an array stand in
    its place. Values after the last are of a later version, and are skipped.

    `encode` makes a list. `decode` takes one, and the values of the fields in `given`, which are not in the
    array. It raises `SchemaError`.
    """

    __slots__ = ("_fields", "decode", "encode", "of")

    def __init__(
        self,
        of: type[T_co],
        given: Sequence[str] = (),
        /,
        **fields: "Kind[object] | Array[object]",
    ) -> None:
        defaults_of(of, [*fields, *given])
        self.of: type[object] = of
        self._fields: Mapping[str, Kind[object] | Array[object]] = fields
        names: dict[str, object] = {"SchemaError": SchemaError}
        items = ", ".join(self._items("value", names))
        read, width = self._construction(of.__name__, 0, names, given)
        places = ", ".join(f"f{place}" for place in range(width))
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

    def kind(self, *, most: int | None = None) -> Kind[T_co]:
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
