"""Checks a message against its schema before kio decodes it.

kio's native decoder reserves memory for as many elements as an array claims: a count near 2^32 aborts the
process and can't be caught. It also raises `KeyError` on tagged fields that it does not know, which KIP-482
says to skip. So the schema of an entity is compiled once into a chain of closures that walks the bytes:
every array must be possible for the bytes left, all elements together are bounded, lengths lie within the
data, and unknown tagged fields are cut out. Nesting is bounded by the schemas, none of which is recursive.
"""

from collections.abc import Callable
from dataclasses import Field, dataclass, fields, is_dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Any, Final, get_args, get_origin

from kio.static.protocol import Entity

from quorate.kafka_bytes.primitives import MAX_ELEMENTS, MAX_STRING_BYTES, MAX_TAGS
from quorate.kafka_bytes.varints import MalformedError, read_uvarint, uvarint
from quorate.runtime import Buffer

_FIXED: Final = {
    "int8": 1, "uint8": 1, "bool": 1, "int16": 2, "uint16": 2, "error_code": 2, "int32": 4, "uint32": 4,
    "timedelta_i32": 4, "int64": 8, "uint64": 8, "float64": 8, "timedelta_i64": 8, "datetime_i64": 8,
    "uuid": 16,
}  # fmt: skip


class State:
    """The results of one walk: elements still allowed, and replacements (start, end, bytes) in order."""

    __slots__ = ("edits", "elements_left")

    def __init__(self, elements_left: int) -> None:
        self.elements_left = elements_left
        self.edits: list[tuple[int, int, bytes]] = []

    def spend(self, elements: int) -> None:
        self.elements_left -= elements
        if self.elements_left < 0:
            raise MalformedError("more array elements than a message may have")


Walk = Callable[[memoryview, int, int, State], int]
"""(data, position, end, state) → position behind the value. May run past `end`, never far: every loop is
bounded by a count that was checked against `end`, and the caller compares."""

Head = Callable[[memoryview, int, int, State], tuple[int, int]]
"""(data, position, end, state) → an array's length, checked, and the position of its first element."""


def check(entity: type[Entity], data: memoryview, *, max_elements: int = MAX_ELEMENTS) -> memoryview:
    """Return the same bytes if kio can safely decode an `entity` from exactly them, or a copy without unknown
    tagged fields. Raises `MalformedError`, also for bytes left over."""
    state = State(max_elements)
    end = len(data)
    try:
        position = _entity(entity)[1](data, 0, end, state)
    except IndexError:
        raise cut_off(entity, end) from None
    check_end(entity, position, end)
    return memoryview(edited(data, 0, end, state.edits)) if state.edits else data


def cut_off(entity: type[Entity], size: int) -> MalformedError:
    return MalformedError(f"{entity.__name__} cut off after {size} bytes")


def check_end(entity: type[Entity], position: int, end: int) -> None:
    """Check that a walk over all `end` bytes ended there. Raises `MalformedError`."""
    if position > end:
        raise cut_off(entity, end)
    if position < end:
        raise MalformedError(f"{entity.__name__} ends {end - position} bytes before the end of {end} bytes")


def edited(data: memoryview, start: int, end: int, edits: list[tuple[int, int, bytes]]) -> bytes:
    parts: list[Buffer] = []
    for edit_start, edit_end, replacement in edits:
        parts += (data[start:edit_start], replacement)
        start = edit_end
    parts.append(data[start:end])
    return b"".join(parts)


@dataclass(frozen=True, slots=True)
class ArrayField:
    """A field whose elements may be looked at one by one: structs, or strings. `walk` is an element's."""

    name: str
    head: Head
    walk: Walk
    entity: type[Entity] | None
    """The type of the elements; None for strings."""


@cache
def parts(entity: type[Entity]) -> tuple[Walk | ArrayField, ...]:
    """Return an entity's encoding from first byte to last: the arrays whose elements may be looked at one by
    one, and the walks over the parts between. Just one walk if it has none. Arrays of numbers are walked at
    one step, tagged fields are small."""
    found: list[Walk | ArrayField] = []
    tagged: dict[int, Walk] = {}
    for item in fields(entity):
        _, step = _field(item, flexible=entity.__flexible__)
        if (tag := item.metadata.get("tag")) is not None:
            tagged[tag] = _as_walk(step)
        else:
            found.append(_array_field(item, flexible=entity.__flexible__) or _as_walk(step))
    if entity.__flexible__:
        found.append(_tag_section(tagged))
    if any(isinstance(each, ArrayField) for each in found):
        return tuple(found)
    return (_entity(entity)[1],)


def _array_field(item: "Field[Any]", *, flexible: bool) -> ArrayField | None:
    kind, nullable = _unwrap(item.type)
    if get_origin(kind) is not tuple:
        return None
    element, optional = _unwrap(get_args(kind)[0])
    least, walk = _value(element, item, flexible=flexible, nullable=False)
    head = _array_head(least, flexible=flexible, nullable=nullable)
    if is_dataclass(element):
        struct: type[Entity] = element  # type: ignore[assignment]
        return ArrayField(item.name, head, _as_walk(walk), struct)
    if item.metadata["kafka_type"] != "string" or optional:
        return None
    return ArrayField(item.name, head, _as_walk(walk), None)


@cache
def _entity(entity: type[Entity]) -> tuple[int, Walk]:
    """Return the least encoded size in bytes and the walk of an entity type."""
    steps: list[tuple[int, Walk | int]] = []
    tagged: dict[int, Walk] = {}
    for item in fields(entity):
        tag = item.metadata.get("tag")
        size, step = _field(item, flexible=entity.__flexible__)
        if tag is not None:
            tagged[tag] = _as_walk(step)
        elif isinstance(step, int) and steps and isinstance(steps[-1][1], int):
            steps[-1] = (steps[-1][0] + size, steps[-1][1] + step)
        else:
            steps.append((size, step))
    least = sum(size for size, _ in steps) + (1 if entity.__flexible__ else 0)
    walks = [_as_walk(step) for _, step in steps]
    if entity.__flexible__:
        walks.append(_tag_section(tagged))
    if len(walks) == 1:
        return least, walks[0]
    if len(walks) == 2 and isinstance(steps[0][1], int) and entity.__flexible__:
        return least, _fixed_then_tags(steps[0][1], walks[1])

    def walk(data: memoryview, position: int, end: int, state: State) -> int:
        for step in walks:
            position = step(data, position, end, state)
        return position

    return least, walk


def _as_walk(step: Walk | int) -> Walk:
    if not isinstance(step, int):
        return step
    size = step

    def walk(data: memoryview, position: int, end: int, state: State) -> int:
        return position + size

    return walk


def _fixed_then_tags(size: int, tags: Walk) -> Walk:
    def walk(data: memoryview, position: int, end: int, state: State) -> int:
        position += size
        return position + 1 if data[position] == 0 else tags(data, position, end, state)

    return walk


def _field(item: "Field[Any]", *, flexible: bool) -> tuple[int, Walk | int]:
    """Return the least size and the walk of a field; a plain number of bytes where the size is fixed."""
    kind, nullable = _unwrap(item.type)
    if get_origin(kind) is tuple:
        element, _ = _unwrap(get_args(kind)[0])
        size, step = _value(element, item, flexible=flexible, nullable=False)
        return (1 if flexible else 4), _array(_array_head(size, flexible=flexible, nullable=nullable), step)
    return _value(kind, item, flexible=flexible, nullable=nullable)


def _unwrap(kind: Any) -> tuple[Any, bool]:
    if get_origin(kind) is UnionType:
        options = [option for option in get_args(kind) if option is not NoneType]
        return options[0], len(options) < len(get_args(kind))
    return kind, False


def _value(kind: Any, item: "Field[Any]", *, flexible: bool, nullable: bool) -> tuple[int, Walk | int]:
    if is_dataclass(kind):
        size, walk = _entity(kind)  # type: ignore[arg-type]
        return (1, _nullable_entity(walk)) if nullable and "tag" not in item.metadata else (size, walk)
    kafka_type = item.metadata["kafka_type"]
    if kafka_type in _FIXED:
        return _FIXED[kafka_type], _FIXED[kafka_type]
    if kafka_type == "string":
        return (1, _compact_string) if flexible else (2, _legacy_string)
    return (1, _compact_bytes) if flexible else (4, _legacy_bytes)


def _compact_string(data: memoryview, position: int, end: int, state: State) -> int:
    size = data[position]
    if size < 0x80:
        return position + size if size else position + 1
    size, position = read_uvarint(data, position)
    if size > MAX_STRING_BYTES + 1:
        raise MalformedError(f"string of {size - 1} bytes, above {MAX_STRING_BYTES}")
    return position + size - 1


def _compact_bytes(data: memoryview, position: int, end: int, state: State) -> int:
    size = data[position]
    if size < 0x80:
        return position + size if size else position + 1
    size, position = read_uvarint(data, position)
    return position + size - 1


def _legacy_string(data: memoryview, position: int, end: int, state: State) -> int:
    size = data[position] << 8 | data[position + 1]
    if size >= 0x8000:
        if size != 0xFFFF:
            raise MalformedError("string of negative length")
        return position + 2
    return position + 2 + size


def _legacy_bytes(data: memoryview, position: int, end: int, state: State) -> int:
    size = _int32(data, position)
    if size < -1:
        raise MalformedError("bytes of negative length")
    return position + 4 + max(size, 0)


def _int32(data: memoryview, position: int) -> int:
    if position + 4 > len(data):
        raise IndexError
    return int.from_bytes(data[position : position + 4], "big", signed=True)


def _nullable_entity(walk: Walk) -> Walk:
    def nullable(data: memoryview, position: int, end: int, state: State) -> int:
        marker = data[position]
        if marker == 0xFF:
            return position + 1
        if marker != 1:
            raise MalformedError(f"struct marker {marker}")
        return walk(data, position + 1, end, state)

    return nullable


def _array_head(least: int, *, flexible: bool, nullable: bool) -> Head:
    def head(data: memoryview, position: int, end: int, state: State) -> tuple[int, int]:
        if flexible:
            count = data[position] - 1
            if count < 0x7F:
                position += 1
            else:
                count, position = read_uvarint(data, position)
                count -= 1
        else:
            count = _int32(data, position)
            position += 4
        if count <= 0:
            if count < -1 or (count == -1 and not nullable):
                raise MalformedError(f"array of {count} elements")
            return 0, position
        if count * least > end - position:
            raise MalformedError(f"array of {count} elements in {end - position} bytes")
        state.spend(count)
        return count, position

    return head


def _array(head: Head, step: Walk | int) -> Walk:
    def walk(data: memoryview, position: int, end: int, state: State) -> int:
        count, position = head(data, position, end, state)
        if isinstance(step, int):
            return position + count * step
        for _ in range(count):
            position = step(data, position, end, state)
        return position

    return walk


def _tag_section(known: dict[int, Walk]) -> Walk:
    def walk(data: memoryview, position: int, end: int, state: State) -> int:
        section = position
        count = data[position]
        if count == 0:
            return position + 1
        count, position = read_uvarint(data, position)
        if count * 2 > end - position or count > MAX_TAGS:
            raise MalformedError(f"{count} tagged fields in {end - position} bytes")
        state.spend(count)
        kept: list[bytes] = []
        changed = False
        last = -1
        outer = state.edits
        for _ in range(count):
            tag, position = read_uvarint(data, position)
            size, position = read_uvarint(data, position)
            if tag <= last or size > end - position:
                raise MalformedError(f"tag {tag} of {size} bytes after tag {last}")
            last = tag
            stop = position + size
            value_walk = known.get(tag)
            if value_walk is None:
                changed = True
            else:
                state.edits = []
                if value_walk(data, position, stop, state) != stop:
                    raise MalformedError(f"tag {tag} does not have the {size} bytes it claims")
                changed = changed or bool(state.edits)
                value = edited(data, position, stop, state.edits)
                kept.append(uvarint(tag) + uvarint(len(value)) + value)
            position = stop
        state.edits = outer
        if changed:
            outer.append((section, position, uvarint(len(kept)) + b"".join(kept)))
        return position

    return walk
