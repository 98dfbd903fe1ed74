"""kio's messages: loaded when first needed, decoded behind the guard, built by field name."""

import datetime
from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, fields
from functools import cache
from types import NoneType, UnionType
from typing import Any, Final, TypeVar, cast, get_args, get_origin

import kio.index
from kio.schema.errors import ErrorCode
from kio.serial import entity_reader, entity_writer
from kio.static.protocol import Entity, Payload, RequestPayload, ResponsePayload

from quorate.broker.wire.api import APIS, Api
from quorate.broker.wire.codecs import guard
from quorate.kafka_bytes.primitives import Pieces
from quorate.kafka_bytes.varints import MalformedError
from quorate.runtime import Buffer

E = TypeVar("E", bound=Entity)

_ZERO: Final[Mapping[str, object]] = {
    "string": "",
    "bytes": b"",
    "records": b"",
    "bool": False,
    "float64": 0.0,
    "error_code": ErrorCode.none,
    "timedelta_i32": datetime.timedelta(0),
    "timedelta_i64": datetime.timedelta(0),
}


@cache
def request_type(api: Api | int, version: int) -> type[RequestPayload]:
    """Return the class for a request of an API, which is given by its form or key. Raises
    `kio.index.KioIndexError` if there is none."""
    form = api if isinstance(api, Api) else APIS.get(api)
    if form is not None and form.request is not None:
        return form.request
    return kio.index.load_request_schema(api if isinstance(api, int) else api.key, version)


@cache
def response_type(api: Api | int, version: int) -> type[ResponsePayload]:
    """Return the class for an answer, as `request_type` does for a request."""
    form = api if isinstance(api, Api) else APIS.get(api)
    if form is not None and form.response is not None:
        return form.response
    return kio.index.load_response_schema(api if isinstance(api, int) else api.key, version)


@cache
def _reader(entity: type[E]) -> Callable[[Buffer, int], tuple[E, int]]:
    return entity_reader(entity)


def decode_entity(entity: type[E], body: memoryview) -> E:
    """Decode a message that is exactly `body` (read-only). Raises `MalformedError` and nothing else."""
    safe = guard.check(entity, body)
    read: Callable[[Buffer, int], tuple[E, int]] = _reader(entity)
    try:
        message, size = read(safe, 0)
    except Exception as error:  # kio raises SerialError, ValueError and more for bad input
        raise MalformedError(f"{entity.__name__}: {error!r}") from error
    if size != len(safe):
        raise MalformedError(f"{len(safe) - size} bytes after {entity.__name__}")
    return message


def encode_entity(message: Entity) -> list[Buffer]:
    """Encode the body as pieces; large byte fields are passed on by identity."""
    pieces = Pieces()
    entity_writer(type(message))(pieces, message)  # type: ignore[arg-type]
    return pieces.finish()


def build(entity: type[E], /, **values: object) -> E:
    """An entity of any version of a message from values by field name.

    Values of fields that this version lacks are dropped, fields that are not given take their default, else
    zero, empty or null. Nested structs are given as dicts or as entities, arrays as any iterable of these.
    Raises `TypeError` for a name that is no field of the newest version that we serve, where it is built.
    """
    out: dict[str, object] = {}
    known = 0
    for name, (fallback, nested) in _fields_of(entity).items():
        if name not in values:
            if fallback is not MISSING:
                out[name] = fallback
            continue
        known += 1
        value = values[name]
        out[name] = value if nested is None or value is None else nested(value)
    if known < len(values) and _is_newest(entity):
        raise TypeError(f"{entity.__name__} has no field {sorted(values.keys() - _fields_of(entity).keys())}")
    entity_class: Callable[..., E] = entity
    return entity_class(**out)


def _is_newest(entity: type[Entity]) -> bool:
    api = APIS.get(cast(type[Payload], entity).__api_key__)
    return api is not None and api.max_version == entity.__version__


@cache
def _fields_of(entity: type[Entity]) -> dict[str, tuple[object, Callable[[Any], object] | None]]:
    return {item.name: (_fallback(item), _nested(item)) for item in fields(entity)}


def _fallback(item: "Field[Any]") -> object:
    """Return the value of a field that is not given: MISSING lets the dataclass' own default stand."""
    if item.default is not MISSING:
        return MISSING
    kind = item.type
    if get_origin(kind) is UnionType and NoneType in get_args(kind):
        return None
    if get_origin(kind) is tuple:
        return ()
    kafka_type = item.metadata.get("kafka_type")
    if kafka_type is None:
        return build(kind)  # type: ignore[arg-type]
    return _ZERO.get(kafka_type, 0)


MOST_MESSAGE_CHARACTERS: Final = 1000
"""The greatest length of an error message, which may quote a client. A string has `MAX_STRING_BYTES` at
most."""


def cut_message(message: str | None) -> str | None:
    """Return an error message that an answer has room for."""
    if message is None or len(message) <= MOST_MESSAGE_CHARACTERS:
        return message
    return message[: MOST_MESSAGE_CHARACTERS - 3] + "..."


def _nested(item: "Field[Any]") -> Callable[[Any], object] | None:
    kind: Any = item.type
    if item.name == "error_message":
        return cut_message
    if get_origin(kind) is UnionType:
        kind = next(option for option in get_args(kind) if option is not NoneType)
    if get_origin(kind) is tuple:
        element: Any = get_args(kind)[0]
        if "kafka_type" in item.metadata:
            return tuple
        return lambda values: tuple(
            build(element, **value) if isinstance(value, Mapping) else value for value in values
        )
    if "kafka_type" in item.metadata:
        return None
    return lambda value: build(kind, **value) if isinstance(value, Mapping) else value
