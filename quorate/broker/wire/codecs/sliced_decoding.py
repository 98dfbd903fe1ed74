"""kio's decoding of a large request, a few milliseconds at a time.

The schema's walk (`guard`) cuts the bytes up: each element of an array of structs or strings is checked and
read by itself, and put into the rest of its struct, which kio reads with empty arrays.
"""

from dataclasses import replace
from functools import cache
from typing import Any, Final, TypeVar

from kio.serial import entity_reader
from kio.static.protocol import Entity

from quorate.broker.wire.codecs import guard
from quorate.broker.wire.codecs.guard import ArrayField
from quorate.kafka_bytes.primitives import MAX_ELEMENTS, Cursor
from quorate.kafka_bytes.varints import MalformedError
from quorate.runtime import WORK, Steps

E = TypeVar("E", bound=Entity)

_PER_STEP: Final = 32
"""Elements between two yields: 0.1 ms, or 1 ms where each is a struct with an array of its own."""
_EMPTY: Final = {True: b"\x01", False: bytes(4)}
"""An array's length, in flexible versions and in others."""


def decode_entity_steps(entity: type[E], body: memoryview) -> Steps[E]:
    """Decode in steps, as `decode_entity`: the same message, or `MalformedError` and nothing else."""
    state = guard.State(MAX_ELEMENTS)
    try:
        message, position = yield from _read(entity, body, 0, state)
    except IndexError:
        raise guard.cut_off(entity, len(body)) from None
    except MalformedError:
        raise
    except Exception as error:  # kio raises SerialError, ValueError and more for bad input
        raise MalformedError(f"{entity.__name__}: {error!r}") from error
    guard.check_end(entity, position, len(body))
    return message


def _read(entity: type[E], data: memoryview, position: int, state: guard.State) -> Steps[tuple[E, int]]:
    """Read the struct at `position`, and return it with the position behind it. Leaves no edits in
    `state`."""
    end = len(data)
    spans: list[bytes | memoryview] = []
    arrays: dict[str, object] = {}

    def keep(start: int, stop: int) -> None:
        if stop > end:
            raise guard.cut_off(entity, end)
        edits, state.edits = state.edits, []
        spans.append(guard.edited(data, start, stop, edits) if edits else data[start:stop])

    start = position
    for part in guard.parts(entity):
        if not isinstance(part, ArrayField):
            position = part(data, position, end, state)
            continue
        keep(start, position)
        start = position
        count, position = part.head(data, position, end, state)
        if count:
            spans.append(_EMPTY[entity.__flexible__])
            arrays[part.name], position = yield from _elements(
                part, count, data, position, state, flexible=entity.__flexible__
            )
            start = position
    keep(start, position)
    safe = memoryview(b"".join(spans) if len(spans) > 1 else spans[0])
    message, size = _reader(entity)(safe, 0)
    if size != len(safe):
        raise MalformedError(f"{len(safe) - size} bytes after {entity.__name__}")
    return (replace(message, **arrays) if arrays else message), position


def _elements(
    part: ArrayField, count: int, data: memoryview, position: int, state: guard.State, *, flexible: bool
) -> Steps[tuple[tuple[object, ...], int]]:
    found: list[object] = []
    end = len(data)
    struct = part.entity
    nested = struct is not None and len(guard.parts(struct)) > 1
    for number in range(count):
        element: object
        if struct is not None and nested:
            element, position = yield from _read(struct, data, position, state)
        else:
            stop = part.walk(data, position, end, state)
            if stop > end:
                raise IndexError
            if struct is None:
                element = Cursor(data, flexible=flexible, position=position).string()
            else:
                element = _leaf(struct, data, position, stop, state)
            position = stop
        found.append(element)
        if number % _PER_STEP == _PER_STEP - 1:
            WORK.records += _PER_STEP
            yield
    return tuple(found), position


def _leaf(struct: type[Entity], data: memoryview, position: int, stop: int, state: guard.State) -> Entity:
    """Decode a struct that a walk has checked."""
    element: Entity
    if state.edits:
        edits, state.edits = state.edits, []
        data, position = memoryview(guard.edited(data, position, stop, edits)), 0
        stop = len(data)
    element, size = _reader(struct)(data, position)
    if position + size != stop:
        raise MalformedError(f"{struct.__name__} of {size} bytes, where {stop - position} were checked")
    return element


@cache
def _reader(entity: type[Entity]) -> Any:
    return entity_reader(entity)
