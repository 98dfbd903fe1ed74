"""Many batches of a log in one buffer, which take less to check and to read than one by one."""

from collections.abc import Iterator
from dataclasses import dataclass
from struct import Struct
from typing import Final

from crc32c import crc32c

from quorate.log.batches.batch import CRC_START, HEADER_BYTES, LENGTH_END, MAGIC, Batch, read_header

_HEAD: Final = Struct(">qi4xbI2xi30xi")
"""Of the header: base offset, length, magic, checksum, last offset delta, and the number of records."""


@dataclass(frozen=True, slots=True)
class Slab:
    """Whole, undamaged batches."""

    data: bytes
    positions: list[int]
    """Where each begins, in order."""

    def batch(self, number: int) -> Batch:
        """Return one of the batches, by its place in `positions`."""
        header = read_header(self.data, self.positions[number], check_crc=False, dense=False)
        return Batch(header, memoryview(self.data)[header.position : header.position + header.size])

    def batches(self) -> Iterator[Batch]:
        """Yield the batches in order."""
        return map(self.batch, range(len(self.positions)))


def whole_batches(buffer: bytes, *, start: int, end: int | None = None) -> tuple[Slab, int]:
    """Return the batches in `buffer` that end above `start` and begin below `end`, and where the first begins
    that is not whole, or not below `end`: a node may be writing it. Raises `InvalidBatchError`."""
    view = memoryview(buffer)
    positions: list[int] = []
    at, size_of_all = 0, len(buffer)
    unpack = _HEAD.unpack_from
    while size_of_all - at >= HEADER_BYTES:
        base, length, magic, crc, delta, count = unpack(buffer, at)
        size = length + LENGTH_END
        if size > size_of_all - at or (end is not None and base >= end):
            break
        if not length and not any(view[at : at + HEADER_BYTES]):
            break  # space that a running node has reserved
        if not (
            size > HEADER_BYTES
            and magic == MAGIC
            and base >= 0
            and 0 < count <= delta + 1
            and crc32c(view[at + CRC_START : at + size]) == crc
        ):
            read_header(buffer, at, dense=False)
        if base + delta >= start:
            positions.append(at)
        at += size
    return Slab(buffer, positions), at
