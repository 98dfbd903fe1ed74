"""Arrow columns of dataclasses: a field of a record is declared once, where the record is.

Every field is a column that may be null. Ids are in Kafka's text form, members of enums are their names, and
a dataclass within another is a struct.
"""

import dataclasses
import enum
import uuid
from collections.abc import Sequence
from functools import cache
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Annotated, Final, NewType, Union, get_args, get_origin, get_type_hints

import pyarrow as pa

from quorate.bounds import Integer
from quorate.runtime import uuid_text
from quorate.types import HIDDEN, SecretBytes

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

TIMESTAMP: Final = pa.timestamp("us", tz="UTC")
_LONG_BITS: Final = 64
_PRIMITIVES: Final = {
    bool: pa.bool_(),
    float: pa.float64(),
    str: pa.string(),
    uuid.UUID: pa.string(),
    SecretBytes: pa.string(),
}


def list_of(inner: pa.DataType) -> pa.DataType:
    """The type of a list, as Spark writes it."""
    return pa.list_(pa.field("element", inner, nullable=False))


def struct_of(of: "type[DataclassInstance]", *, without: Sequence[str] = ()) -> pa.DataType:
    """The type of a dataclass."""
    return pa.struct(fields_of(of, without=without))


def fields_of(of: "type[DataclassInstance]", *, without: Sequence[str] = ()) -> list[pa.Field]:
    """The columns of a dataclass, in its order. Raises `TypeError` for a type that has none."""
    hints = get_type_hints(of, include_extras=True)
    return [
        pa.field(each.name, _type_of(hints[each.name]))
        for each in dataclasses.fields(of)
        if each.name not in without
    ]


def _type_of(hint: object, bits: int = 32) -> pa.DataType:
    origin, inner = get_origin(hint), get_args(hint)
    if origin is Annotated:
        written = next((each.bits for each in inner[1:] if isinstance(each, Integer)), bits)
        return _type_of(inner[0], written)
    if origin in (Union, UnionType):
        (only,) = (each for each in inner if each is not NoneType)
        return _type_of(only, bits)
    if isinstance(hint, NewType):
        return _type_of(hint.__supertype__, bits)
    if origin is tuple:
        return list_of(_type_of(inner[0]))
    if hint is int:
        return pa.int64() if bits == _LONG_BITS else pa.int32()
    if hint in _PRIMITIVES:
        return _PRIMITIVES[hint]
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return pa.string()
    if isinstance(hint, type) and dataclasses.is_dataclass(hint):
        return struct_of(hint)
    raise TypeError(f"{hint} is no type of a column")


@cache
def _names(of: "type[DataclassInstance]") -> tuple[str, ...]:
    return tuple(each.name for each in dataclasses.fields(of))


def plain(value: object) -> object:
    """The value of a field, as Arrow takes it."""
    match value:
        case enum.Enum():
            return value.name
        case uuid.UUID():
            return uuid_text(value)
        case SecretBytes():
            return HIDDEN
        case tuple():
            return [plain(each) for each in value]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {name: plain(getattr(value, name)) for name in _names(type(value))}
    return value


def column(values: Sequence[object], of: pa.DataType) -> pa.Array:
    """The values of a column."""
    inner = of.value_type if pa.types.is_list(of) else of
    if pa.types.is_integer(inner) or pa.types.is_boolean(inner):
        return pa.array(values, type=of)
    return pa.array([plain(each) for each in values], type=of)


def columns(values: "Sequence[DataclassInstance]", fields: Sequence[pa.Field]) -> list[pa.Array]:
    """A column for each of the fields, which are some of the values' own."""
    return [column([getattr(each, field.name) for each in values], field.type) for field in fields]


def struct_array(arrays: Sequence[pa.Array], of: pa.DataType) -> pa.Array:
    """A column of structs without nulls, from those of their fields."""
    return pa.StructArray.from_arrays(arrays, fields=list(of))


def nulls(count: int, of: pa.DataType) -> pa.Array:
    """A column without a value. All of a type share one memory: there are many such columns in each batch."""
    held = _nulls.get(of)
    if held is None or len(held) < count:
        held = _nulls[of] = pa.nulls(count, of)
    return held.slice(0, count)


_nulls: Final[dict[pa.DataType, pa.Array]] = {}
