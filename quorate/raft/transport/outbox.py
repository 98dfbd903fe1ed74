"""The sending half of a connection: frames queue up, one flush sends them."""

from collections.abc import Sequence

import trio

from quorate.runtime import Buffer, NetworkError, Stream

_MAX_QUEUED_BYTES = 64 * 1024 * 1024
_CROWDED_BYTES = 1024 * 1024


class Outbox:
    """Queues buffers. A flush sends as much as the socket takes at once, a task sends the rest.

    The commit path pays one system call per flush and no task switch. A peer that takes nothing for so long
    that the queue is full is disconnected.
    """

    __slots__ = ("_drained", "_queue", "_queued_bytes", "_waiting", "_wake", "closed", "stream")

    def __init__(self, stream: Stream) -> None:
        self.stream = stream
        self._queue: list[Buffer] = []
        self._queued_bytes = 0
        self._waiting = False
        """The socket is full and `run` is to send the queue."""
        self._wake = trio.Event()
        self._drained = trio.Event()
        self.closed = False

    @property
    def peer(self) -> str:
        return self.stream.peer

    def push(self, buffers: Sequence[Buffer]) -> None:
        """Queue buffers for the next flush."""
        if self.closed:
            return
        self._queue.extend(buffers)
        self._queued_bytes += sum(map(len, buffers))
        if self._queued_bytes > _MAX_QUEUED_BYTES:
            self.close()

    def flush(self) -> None:
        """Send as much as goes without waiting. The reader notices a broken connection."""
        if self._waiting or self.closed or not self._queue:
            return
        try:
            sent = self.stream.send_nowait(self._queue)
        except NetworkError:
            self.close()
            return
        if sent == self._queued_bytes:
            self._queue.clear()
            self._queued_bytes = 0
            return
        self._drop(sent)
        self._waiting = True
        self._wake.set()

    async def wait_room(self) -> None:
        """Return when little is queued, or the connection is closed. A server stops reading requests until
        earlier answers are being sent. No checkpoint if there is room."""
        self.flush()
        while self._queued_bytes > _CROWDED_BYTES and not self.closed:
            self._drained = trio.Event()
            await self._drained.wait()

    def _drop(self, sent: int) -> None:
        self._queued_bytes -= sent
        first = 0
        while sent >= len(self._queue[first]):
            sent -= len(self._queue[first])
            first += 1
        del self._queue[:first]
        if sent:
            self._queue[0] = memoryview(self._queue[0])[sent:]

    async def run(self) -> None:
        """Send what flushes left over, until the connection breaks or is closed."""
        while not self.closed:
            await self._wake.wait()
            self._wake = trio.Event()
            while self._queue and not self.closed:
                buffers, self._queue = self._queue, []
                size = self._queued_bytes
                try:
                    await self.stream.send(buffers)
                except NetworkError:
                    self.close()
                else:
                    # What is being sent counts until it is gone.
                    self._queued_bytes -= size
                    self._drained.set()
            self._waiting = False

    def close(self) -> None:
        """Close the connection; its reader and `run` end."""
        self.closed = True
        self._queue.clear()
        self._queued_bytes = 0
        self.stream.close()
        self._wake.set()
        self._drained.set()
