"""A connection whose first bytes were read, for another reader."""

from collections.abc import Sequence

from quorate.runtime import Buffer, Stream


class BegunStream:
    """A `Stream` with the bytes `began` before those of `stream`."""

    __slots__ = ("_began", "_stream")

    def __init__(self, stream: Stream, began: bytes) -> None:
        self._stream = stream
        self._began = began

    @property
    def peer(self) -> str:
        return self._stream.peer

    @property
    def identities(self) -> tuple[str, ...] | None:
        return self._stream.identities

    @property
    def subject(self) -> str | None:
        return self._stream.subject

    async def handshake(self) -> None:
        await self._stream.handshake()

    async def receive_some(self, max_bytes: int = 65536) -> bytes:
        if not self._began:
            return await self._stream.receive_some(max_bytes)
        given, self._began = self._began[:max_bytes], self._began[max_bytes:]
        return given

    async def receive_into(self, buffer: memoryview) -> int:
        if not self._began:
            return await self._stream.receive_into(buffer)
        given = await self.receive_some(len(buffer))
        buffer[: len(given)] = given
        return len(given)

    def send_nowait(self, buffers: Sequence[Buffer]) -> int:
        return self._stream.send_nowait(buffers)

    async def send(self, buffers: Sequence[Buffer]) -> None:
        await self._stream.send(buffers)

    def close(self) -> None:
        self._stream.close()
