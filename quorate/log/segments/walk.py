"""Batches of a file by their headers alone.

A walk is a generator that asks for bytes, so the caller chooses how they are read: by `read_now`, which may
hold up the event loop and is for a few reads, or by `read_cold` (`cold_reads`), which lets others run every
few milliseconds. So a walk does only a little between two reads.
"""

import struct
from collections.abc import Generator
from typing import NamedTuple, TypeVar

from quorate.log.batches.batch import HEADER, HEADER_BYTES, LENGTH_END, MAGIC, first_timestamp_of, is_control
from quorate.log.log_errors import DamagedLogError
from quorate.runtime import WORK, ReadableFile
from quorate.value import value

_CHUNK_BYTES = 8192
_HEAD = struct.Struct(">qiibIhiqq")
"""The header as far as the timestamps."""
_Result = TypeVar("_Result")


class ReadRequest(NamedTuple):
    file: ReadableFile
    position: int
    size: int


Steps = Generator[ReadRequest, bytes, _Result]
"""A generator that asks for bytes until it has its result."""


def read_now(steps: Steps[_Result]) -> _Result:
    """Run `steps` with plain reads."""
    try:
        file, position, size = next(steps)
        while True:
            file, position, size = steps.send(file.read_at(position, size))
    except StopIteration as done:
        result: _Result = done.value
        return result


@value(frozen=True, slots=True)
class Spot:
    """The position of a batch in a segment's file."""

    position: int
    size: int
    base_offset: int
    end_offset: int
    epoch: int
    first_timestamp: int
    max_timestamp: int
    count: int
    is_control: bool


class HeaderWalk:
    """A walk over the batches of `file` from `position`, where one starts, to `end`."""

    __slots__ = ("_chunk", "_chunk_start", "_file", "_position", "end")

    def __init__(self, file: ReadableFile, position: int, end: int) -> None:
        self._file = file
        self._position = self._chunk_start = position
        self._chunk = b""
        self.end = end

    @property
    def position(self) -> int:
        """The position at which the next batch starts."""
        return self._position

    def next(self) -> Steps[Spot | None]:
        """Return the next batch. None: the end. Raises `DamagedLogError`."""
        position = self._position
        if position >= self.end:
            return None
        at = position - self._chunk_start
        if at + HEADER_BYTES > len(self._chunk):
            self._chunk = yield ReadRequest(self._file, position, _CHUNK_BYTES)
            self._chunk_start, at = position, 0
            if len(self._chunk) < HEADER_BYTES:
                raise DamagedLogError(
                    self._file.path, position, f"{len(self._chunk)} bytes are too few for a header"
                )
        base, length, epoch, magic, _, attributes, delta, base_timestamp, newest, _, _, _, count = (
            HEADER.unpack_from(self._chunk, at)
        )
        size = length + LENGTH_END
        if magic != MAGIC or size < HEADER_BYTES or delta < 0 or position + size > self.end:
            raise DamagedLogError(self._file.path, position, "no record batch")
        WORK.batches += 1
        self._position = position + size
        first = first_timestamp_of(attributes, base_timestamp, newest)
        return Spot(
            position, size, base, base + delta + 1, epoch, first, newest, count, is_control(attributes)
        )


def is_batch(file: ReadableFile, position: int, *, last_offset: int) -> Steps[bool]:
    """Return whether a batch that ends with `last_offset` (inclusive) seems to start there."""
    data = yield ReadRequest(file, position, _HEAD.size)
    if len(data) < _HEAD.size:
        return False
    base, length, _, magic, _, _, delta, _, _ = _HEAD.unpack(data)
    return bool(magic == MAGIC and length >= HEADER_BYTES - LENGTH_END and base + delta == last_offset)
