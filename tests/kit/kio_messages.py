"""Messages of the APIs that we serve, as kio writes them, and damaged."""

import io
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import strategies as st
from kio.serial import entity_writer

from quorate.broker.wire.api import APIS, ApiKey

SERVED = [
    (api.key, version) for api in APIS.values() for version in range(api.min_version, api.max_version + 1)
]
"""The key of every API, with each of its versions. kio's classes of all of them take a second to load: by the
tests that need them, rather than by all workers while they collect."""
BY_KIO = [each for each in SERVED if each[0] not in (ApiKey.PRODUCE, ApiKey.FETCH)]
"""Those that no codec of ours reads and writes."""
_PIECES = (
    b"\xff\xff\xff\xff\x0f",
    b"\xff\xff\xff\xff\x07",
    b"\x7f\xff\xff\xff",
    b"\x80",
    b"\0",
    b"\x01",
    b"\x02",
)
"""Sizes and counts that are too large, overlong or wrong."""


def of_versions(served: Iterable[tuple[ApiKey, int]]) -> pytest.MarkDecorator:
    """Parameters `key` and `version` of a test. Of each API the oldest and the newest version are of
    `make test`: those between are slow ones."""
    return pytest.mark.parametrize(
        ("key", "version"),
        [
            pytest.param(
                key,
                version,
                marks=[pytest.mark.slow] * (APIS[key].min_version < version < APIS[key].max_version),
                id=f"{key.name}-{version}",
            )
            for key, version in served
        ],
    )


def encoded(message: Any) -> bytes:
    buffer = io.BytesIO()
    entity_writer(type(message))(buffer, message)
    return buffer.getvalue()


def mutated(data: st.DataObject, raw: bytes) -> memoryview:
    """Replace up to four short pieces."""
    changed = bytearray(raw)
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(changed)))
        piece = data.draw(st.sampled_from(_PIECES) | st.binary(max_size=6))
        changed[at : at + data.draw(st.integers(0, 6))] = piece
    return memoryview(bytes(changed))
