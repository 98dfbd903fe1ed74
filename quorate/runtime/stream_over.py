"""A stream that passes everything on to another one, for those that change a part of it."""

from collections.abc import Sequence

from quorate.runtime.disk import Buffer
from quorate.runtime.network import Stream


class StreamOver(Stream):
    """A stream (`quorate.runtime.network.Stream`) that passes each call on to another stream."""

    __slots__ = ("_stream",)

    def __init__(self, stream: Stream) -> None:
        self._stream = stream

    @property
    def peer(self) -> str:
        """That of the other stream: the address of the other end."""
        return self._stream.peer

    @property
    def identities(self) -> tuple[str, ...] | None:
        """Those of the other stream: the URIs in the certificate of the other end."""
        return self._stream.identities

    @property
    def subject(self) -> str | None:
        """That of the other stream: the name in the certificate of the other end."""
        return self._stream.subject

    @property
    def certificate_end_ms(self) -> int | None:
        """That of the other stream: the end of the certificate of the other end."""
        return self._stream.certificate_end_ms

    async def handshake(self) -> None:
        await self._stream.handshake()

    async def receive_some(self, max_bytes: int = 65536) -> bytes:
        return await self._stream.receive_some(max_bytes)

    async def receive_into(self, buffer: memoryview) -> int:
        return await self._stream.receive_into(buffer)

    def send_nowait(self, buffers: Sequence[Buffer]) -> int:
        return self._stream.send_nowait(buffers)

    async def send(self, buffers: Sequence[Buffer]) -> None:
        await self._stream.send(buffers)

    def close(self) -> None:
        self._stream.close()
