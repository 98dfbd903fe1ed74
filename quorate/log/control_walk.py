"""Control batches of a segment, found without a look at the others' records."""

import struct

from quorate.log.batches import HEADER_BYTES, LENGTH_END, MAGIC, Batch, read_header, voters_in
from quorate.log.log_errors import DamagedLogError, InvalidBatchError
from quorate.runtime import WORK, File, Slices
from quorate.types import VotersAt

_READ_BYTES = 64 * 1024
_LENGTH_TO_ATTRIBUTES = struct.Struct(">iibih")
"""From byte 8 of the header on."""
_CONTROL = 0x20


async def voter_sets_in(file: File, position: int, end: int) -> list[VotersAt]:
    """Of the batches in [position, end), one of which starts at `position`; in order. Lets others run in
    between. Raises `DamagedLogError`, `DiskError`."""
    found: list[VotersAt] = []
    slices = Slices()
    while position < end:
        chunk = await file.read(position, min(_READ_BYTES, end - position))
        at = 0
        while at + HEADER_BYTES <= len(chunk):
            length, _, magic, _, attributes = _LENGTH_TO_ATTRIBUTES.unpack_from(chunk, at + 8)
            size = length + LENGTH_END
            if magic != MAGIC or size < HEADER_BYTES:
                raise DamagedLogError(file.path, position + at, "no record batch")
            if attributes & _CONTROL:
                voters = await _voters_at(file, position + at, size)
                if voters is not None:
                    found.append(voters)
            at += size
            WORK.batches += 1
        if not at:
            raise DamagedLogError(file.path, position, f"{len(chunk)} bytes are too few for a header")
        position += at
        await slices.pause()
    return found


async def _voters_at(file: File, position: int, size: int) -> VotersAt | None:
    data = await file.read(position, size)
    try:
        header = read_header(data)
        return voters_in(Batch(header, memoryview(data)))
    except InvalidBatchError as error:
        raise DamagedLogError(file.path, position, error.problem) from error
