"""A connection whose first bytes were read, for another reader."""

from quorate.runtime import Stream, StreamOver


class BegunStream(StreamOver):
    """A `Stream` with the bytes `began` before those of `stream`."""

    __slots__ = ("_began",)

    def __init__(self, stream: Stream, began: bytes) -> None:
        super().__init__(stream)
        self._began = began

    async def receive_some(self, max_bytes: int = 65536) -> bytes:
        if not self._began:
            return await super().receive_some(max_bytes)
        given, self._began = self._began[:max_bytes], self._began[max_bytes:]
        return given

    async def receive_into(self, buffer: memoryview) -> int:
        if not self._began:
            return await super().receive_into(buffer)
        given = await self.receive_some(len(buffer))
        buffer[: len(given)] = given
        return len(given)
