"""An answer that is encoded in slices has the bytes of one that is encoded as a whole."""

import uuid
from collections.abc import AsyncIterator, Iterator
from dataclasses import fields
from typing import Any

import pytest
from kio_messages import BY_KIO, of_versions

from quorate.broker.wire.api import ApiKey
from quorate.broker.wire.codecs.entities import build, encode_entity, response_type
from quorate.broker.wire.codecs.sliced_encoding import encode_in_slices, struct_arrays


def values_of(entity: Any, size: int, inner: int) -> dict[str, Any]:
    """Arrays of `size` structs, and of `inner` in these; each field different from its default."""
    arrays = struct_arrays(entity)
    values: dict[str, Any] = {
        name: [values_of(element, inner, 2) for _ in range(size)] for name, element in arrays.items()
    }
    for item in fields(entity):
        match item.metadata.get("kafka_type"):
            case "string":
                is_array = "tuple" in str(item.type)
                values[item.name] = ("s",) * size if is_array else "s" * (1 + size * 30)
            case "int32" | "int64" | "int16" if "tuple" not in str(item.type):
                values[item.name] = size + 1
            case "uuid" if "tuple" not in str(item.type):
                values[item.name] = uuid.UUID(int=size + 1)
    return values


def lazy(values: Any, *, awaited: bool) -> Any:
    if isinstance(values, dict):
        return {name: lazy(value, awaited=awaited) for name, value in values.items()}
    if not isinstance(values, list):
        return values

    def one_by_one() -> Iterator[Any]:
        for value in values:
            yield lazy(value, awaited=awaited)

    async def one_by_one_awaited() -> AsyncIterator[Any]:
        for value in values:
            yield lazy(value, awaited=awaited)

    return one_by_one_awaited() if awaited else one_by_one()


@of_versions(BY_KIO)
async def test_the_sliced_bytes_equal_the_whole_ones(key: ApiKey, version: int) -> None:
    entity = response_type(key, version)
    for size, inner in ((0, 0), (1, 150), (150, 1)):
        values = values_of(entity, size, inner)
        whole = b"".join(encode_entity(build(entity, **values)))
        for awaited in (False, True):
            sliced = b"".join(await encode_in_slices(entity, lazy(values, awaited=awaited)))
            assert sliced == whole, f"{size} elements: {sliced[:200]!r}, not {whole[:200]!r}"


async def test_a_null_array_stays_null_and_one_that_is_not_given_empty() -> None:
    entity = response_type(ApiKey.CREATE_TOPICS, 7)
    for topics in ([{"name": "t", "configs": None}], [{"name": "t", "configs": []}], [{"name": "t"}]):
        assert b"".join(await encode_in_slices(entity, {"topics": topics})) == b"".join(
            encode_entity(build(entity, topics=topics))
        )


async def test_an_error_while_encoding_an_element_is_raised() -> None:
    def broken() -> Iterator[dict[str, object]]:
        yield {"name": "t"}
        raise LookupError("gone")

    with pytest.raises(LookupError, match="gone"):
        await encode_in_slices(response_type(ApiKey.METADATA, 9), {"topics": broken()})
