"""A reader of a segment, batch by batch, each whole and checked."""

from quorate.log.batches.batch import HEADER, BatchHeader, read_header, stated_size
from quorate.log.log_errors import InvalidBatchError
from quorate.log.segments.segment import Segment
from quorate.runtime import Slices

_CHUNK_BYTES = 1024 * 1024


class BatchReader:
    """Reads the batches of a segment between two positions."""

    def __init__(self, segment: Segment, start: int, end: int) -> None:
        self._segment = segment
        self._next = start
        self._end = end
        self._chunk = b""
        self._chunk_start = start
        self._slices = Slices()
        self.position = start
        """The position of the batch of the last `next`, even of a bad one."""

    async def next(self) -> BatchHeader | str | None:
        """Return the next header, None at the end, or the problem of the batch there. Lets others run every
        few milliseconds."""
        await self._slices.pause()
        self.position = self._next
        left = self._end - self._next
        if not left:
            return None
        if left < HEADER.size:
            return f"{left} bytes are too few for a header"
        await self._fill_chunk(HEADER.size)
        size = stated_size(self._chunk, self._chunk_position)
        if size > left:
            return f"a batch of {size} bytes is cut off after {left}"
        await self._fill_chunk(max(size, HEADER.size))
        try:
            header = read_header(self._chunk, self._chunk_position, dense=False)
        except InvalidBatchError as error:
            return error.problem
        self._next += header.size
        return header

    @property
    def batch(self) -> memoryview:
        """The bytes of the batch that `next` returned, until its next call."""
        start = self.position - self._chunk_start
        return memoryview(self._chunk)[start : self._chunk_position]

    @property
    def end(self) -> int:
        """The position after the last batch that was returned."""
        return self._next

    @property
    def _chunk_position(self) -> int:
        return self._next - self._chunk_start

    async def _fill_chunk(self, size: int) -> None:
        if self._chunk_position + size > len(self._chunk):
            wanted = min(max(size, _CHUNK_BYTES), self._end - self._next)
            self._chunk = await self._segment.file.read(self._next, wanted)
            self._chunk_start = self._next
