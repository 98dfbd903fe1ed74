"""Many batches of a log in one buffer, which take less to check and to read than one by one."""

from collections.abc import Iterator
from dataclasses import dataclass

from crc32c import crc32c

from quorate.log.batches.batch import (
    CRC_START,
    HEADER,
    HEADER_BYTES,
    LENGTH_END,
    MAGIC,
    Batch,
    read_header,
    stated_size,
)


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


def check_batch(buffer: bytes, view: memoryview, position: int) -> int:
    """Check the batch at `position`, and return its end offset. `view`: of the buffer. Raises
    `InvalidBatchError`, as `read_header`, which it spares for batches that are in order."""
    base, length, _, magic, crc, _, delta, _, _, _, _, _, count = HEADER.unpack_from(buffer, position)
    size: int = length + LENGTH_END
    if not (
        magic == MAGIC
        and HEADER_BYTES < size <= len(buffer) - position
        and base >= 0
        and 0 < count <= delta + 1
        and crc32c(view[position + CRC_START : position + size]) == crc
    ):
        read_header(buffer, position, dense=False)
    return int(base + delta + 1)


def whole_batches(buffer: bytes, *, start: int) -> Slab:
    """Return the batches in `buffer` that end above `start`; the last in it may be cut off. Raises
    `InvalidBatchError`."""
    view = memoryview(buffer)
    positions: list[int] = []
    at = 0
    while len(buffer) - at >= HEADER_BYTES and (size := stated_size(buffer, at)) <= len(buffer) - at:
        end_offset = check_batch(buffer, view, at)
        if end_offset > start:
            positions.append(at)
        at += size
    return Slab(buffer, positions)
