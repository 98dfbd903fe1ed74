"""A torn append at the end of a log, as a killed process leaves it, told from a batch that is damaged."""

from quorate.log.batches.batch import HEADER, LENGTH_END, read_header, stated_size
from quorate.log.log_errors import InvalidBatchError
from quorate.log.segments.segment import Segment
from quorate.runtime import Slices

_LOOKED_AT_BYTES = 16 * 1024 * 1024
"""A damaged length is told from a torn batch by what follows it here."""


async def is_torn_append(segment: Segment, position: int) -> bool:
    """Return whether the segment ends inside the batch at `position`: an append writes a file from its end
    on, so that a kill may leave the beginning of a batch, and nothing behind it.

    A damaged length may claim as much of a batch that is whole. Then the batch fits with the length that it
    has in the file, or the batch behind it is there.
    """
    left = segment.size - position
    if left < HEADER.size:
        return True
    data = await segment.file.read(position, min(left, _LOOKED_AT_BYTES))
    if stated_size(data, 0) <= left:
        return False
    if len(data) == left and _is_batch(data[:8] + (left - LENGTH_END).to_bytes(4, "big") + data[LENGTH_END:]):
        return False
    base_offset, *_, last_offset_delta = HEADER.unpack_from(data)[:7]
    follows = (base_offset + last_offset_delta + 1) & (2**64 - 1)
    behind, slices = data.find(follows.to_bytes(8, "big"), HEADER.size), Slices()
    while behind >= 0:
        if _is_batch(memoryview(data)[behind:]):
            return False
        behind = data.find(follows.to_bytes(8, "big"), behind + 1)
        await slices.pause()
    return True


def _is_batch(data: bytes | memoryview) -> bool:
    try:
        read_header(data, dense=False)
    except InvalidBatchError:
        return False
    return True
