"""Memory that all connections share."""

from collections import deque

import trio


class MemoryBudget:
    """Bytes that may be in use at once; who asks for more waits in line, first come, first served."""

    __slots__ = ("_line", "available", "limit")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.available = limit
        self._line: deque[tuple[int, trio.Event]] = deque()

    async def draw(self, size: int) -> None:
        """Wait until `size` bytes are free and take them. More than there is at all counts as all of it.
        If cancelled, nothing was taken."""
        size = min(size, self.limit)
        if not self._line and size <= self.available:
            self.available -= size
            return
        place = (size, trio.Event())
        self._line.append(place)
        try:
            await place[1].wait()
        except BaseException:
            if place[1].is_set():
                self.put_back(size)
            else:
                self._line.remove(place)
                self._serve()
            raise

    def put_back(self, size: int) -> None:
        self.available += min(size, self.limit)
        self._serve()

    def _serve(self) -> None:
        while self._line and self._line[0][0] <= self.available:
            size, event = self._line.popleft()
            self.available -= size
            event.set()
