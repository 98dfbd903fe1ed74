"""Messages of every API we serve, drawn at random."""

import dataclasses
import datetime
import uuid
from typing import Any

import pytest
from hypothesis import strategies as st
from kio.schema.errors import ErrorCode
from kio.serial._introspect import (
    EntityField,
    EntityTupleField,
    PrimitiveTupleField,
    classify_field,
    is_optional,
)

_INTEGERS = {
    "int8": 7, "int16": 15, "int32": 31, "int64": 63,
}  # fmt: skip
_UNSIGNED = {"uint8": 8, "uint16": 16, "uint32": 32, "uint64": 64}
_TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)


def _primitive(kafka_type: str, *, nullable: bool) -> st.SearchStrategy[Any]:
    if kafka_type in _INTEGERS:
        limit = 2 ** _INTEGERS[kafka_type]
        return st.integers(-limit, limit - 1)
    if kafka_type in _UNSIGNED:
        return st.integers(0, 2 ** _UNSIGNED[kafka_type] - 1)
    made: st.SearchStrategy[Any]
    match kafka_type:
        case "string":
            made = _TEXT
        case "bytes" | "records":
            made = st.binary(max_size=20)
        case "bool":
            return st.booleans()
        case "float64":
            return st.floats(allow_nan=False)
        case "error_code":
            return st.sampled_from(list(ErrorCode))
        case "uuid":
            return st.none() | st.integers(1, 2**128 - 1).map(lambda value: uuid.UUID(int=value))
        case "timedelta_i32" | "timedelta_i64":
            return st.integers(-(2**31), 2**31 - 1).map(lambda ms: datetime.timedelta(milliseconds=ms))
        case "datetime_i64":
            made = st.integers(0, 2**40).map(
                lambda ms: (
                    datetime.datetime.fromtimestamp(0, datetime.UTC) + datetime.timedelta(milliseconds=ms)
                )
            )
        case _:
            raise NotImplementedError(kafka_type)
    return st.none() | made if nullable else made


def _entities(entity: type[Any]) -> st.SearchStrategy[Any]:
    values: dict[str, st.SearchStrategy[Any]] = {}
    for item in dataclasses.fields(entity):
        nullable = is_optional(item)
        tagged = "tag" in item.metadata
        field = classify_field(item)
        if isinstance(field, EntityField):
            made = _entities(field.type_)
            values[item.name] = st.none() | made if nullable else made
        elif isinstance(field, EntityTupleField):
            arrays = st.lists(_entities(field.type_), max_size=3).map(tuple)
            values[item.name] = st.none() | arrays if nullable and not tagged else arrays
        else:
            kind = item.metadata["kafka_type"]
            if isinstance(field, PrimitiveTupleField):
                arrays = st.lists(_primitive(kind, nullable=False), max_size=4).map(tuple)
                values[item.name] = st.none() | arrays if nullable and kind != "uuid" else arrays
            elif nullable and tagged:
                values[item.name] = _primitive(kind, nullable=False)
            else:
                values[item.name] = _primitive(kind, nullable=nullable)
    return st.fixed_dictionaries(values).map(lambda drawn: entity(**drawn))


@pytest.fixture(scope="session")
def entities() -> Any:
    """A function from a kio entity type to a strategy of its instances."""
    return _entities
