"""Work on many partitions, in the order in which it came, a piece of it in each pass of the event loop."""

from collections import deque
from collections.abc import Iterator
from typing import Final

import trio

LOOKED_AT: Final = 1
"""The cost of seeing that a partition needs nothing: less than a microsecond."""
CHANGED: Final = 16
"""The cost of giving a partition another role: tens of microseconds."""
_PIECE: Final = 1024
"""64 changes, or a few milliseconds."""


class Backlog:
    """Works in order. Each is an iterator that does a little and yields its cost."""

    __slots__ = ("_wake", "_works")

    def __init__(self) -> None:
        self._works: deque[Iterator[int]] = deque()
        self._wake = trio.Event()

    @property
    def empty(self) -> bool:
        return not self._works

    def add(self, work: Iterator[int]) -> None:
        """Begin at once if nothing waits, so a small work is done when this returns. Raises the work's
        errors."""
        idle = not self._works
        self._works.append(work)
        if idle:
            self._do_piece()
        if self._works:
            self._wake.set()

    async def run(self) -> None:
        """Do the waiting works. Runs until cancelled."""
        while True:
            await self._wake.wait()
            self._wake = trio.Event()
            while self._works:
                await trio.lowlevel.checkpoint()
                self._do_piece()

    def _do_piece(self) -> None:
        left = _PIECE
        while left > 0 and self._works:
            cost = next(self._works[0], None)
            if cost is None:
                self._works.popleft()
            else:
                left -= cost
