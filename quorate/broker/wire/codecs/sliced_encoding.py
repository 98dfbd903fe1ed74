"""kio's encoding of a large answer, a few milliseconds at a time."""

from collections.abc import AsyncIterable, Iterable, Iterator, Mapping
from dataclasses import fields, replace
from functools import cache
from types import NoneType, UnionType
from typing import Any, Final, TypeAlias, cast, get_args, get_origin

from kio.serial import entity_writer
from kio.static.protocol import Entity

from quorate.broker.wire.codecs.entities import build
from quorate.kafka_bytes.primitives import Pieces
from quorate.runtime import Buffer, Slices

Struct: TypeAlias = Mapping[str, object]
"""A struct's values by field name, as `build` takes them."""
Structs: TypeAlias = Iterable[Struct] | AsyncIterable[Struct]
"""An array's elements, which are asked for one after the other; others may run in between."""


async def encode_in_slices(entity: type[Entity], values: Struct) -> list[Buffer]:
    """Encode to the same bytes as `encode_entity(build(entity, **values))`, in slices (`runtime.slices`).

    Arrays of structs are `Structs`, in nested structs too: a generator is walked as the encoding goes on, so
    that the making of its elements is cut into slices too. Raises the generators' errors.
    """
    pieces = Pieces()
    await _write(entity, values, pieces, Slices())
    return pieces.finish()


async def _write(entity: type[Entity], values: Struct, pieces: Pieces, slices: Slices) -> None:
    plain = dict(values)
    arrays: dict[str, object] = {}
    for name, element in struct_arrays(entity).items():
        elements = plain.get(name)
        if elements is not None:
            plain[name] = ()
            arrays[name] = await _encoded(element, cast(Structs, elements), pieces, slices)
    message: Any = build(entity, **plain)
    entity_writer(entity)(pieces, replace(message, **arrays))  # type: ignore[arg-type]


async def _encoded(element: type[Entity], elements: Structs, into: Pieces, slices: Slices) -> "_Encoded":
    pieces = Pieces()
    count = 0
    nested = bool(struct_arrays(element))
    write = entity_writer(element)

    async def add(values: Struct) -> None:
        if nested:
            await _write(element, values, pieces, slices)
        else:
            write(pieces, build(element, **values))  # type: ignore[arg-type]
        await slices.pause()

    if isinstance(elements, AsyncIterable):
        async for values in elements:
            await add(values)
            count += 1
    else:
        for values in elements:
            await add(values)
            count += 1
    return _Encoded(count, pieces.finish(), into)


class _Encoded:
    """A stand-in for an array's elements. kio's writer asks for their number and writes it, then walks over
    them: then the encoded bytes are written, and nothing is left to write."""

    __slots__ = ("_count", "_into", "_parts")

    def __init__(self, count: int, parts: list[Buffer], into: Pieces) -> None:
        self._count = count
        self._parts: Final = parts
        self._into: Final = into

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Entity]:
        for part in self._parts:
            self._into.write(part)
        return iter(())


@cache
def struct_arrays(entity: type[Entity]) -> Mapping[str, type[Entity]]:
    """Return the fields that are arrays of structs, and the structs' types. Tagged ones are small."""
    found: dict[str, type[Entity]] = {}
    for item in fields(entity):
        kind: Any = item.type
        if get_origin(kind) is UnionType:
            kind = next(option for option in get_args(kind) if option is not NoneType)
        if get_origin(kind) is tuple and "kafka_type" not in item.metadata and "tag" not in item.metadata:
            found[item.name] = get_args(kind)[0]
    return found
