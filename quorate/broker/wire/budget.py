"""Memory that all connections share."""

from collections import deque
from typing import Final

import trio

SPARE_BYTES: Final = 1024 * 1024
"""The size of a spare buffer: a producer's batch fits, by the limit of most clients."""
_SPARES: Final = 8


class SpareBuffers:
    """Buffers that large frames have left, for the next ones.

    A new buffer has to be cleared, and the kernel maps each of its pages. That takes a tenth of the time of
    the records in it.
    """

    __slots__ = ("_buffers", "_count")

    def __init__(self, count: int = _SPARES) -> None:
        self._buffers: list[bytearray] = []
        self._count = count

    def take(self) -> bytearray:
        """Return `SPARE_BYTES` with anything in them, that nobody else refers to."""
        for number, buffer in enumerate(self._buffers):
            if _is_free(buffer):
                del self._buffers[number]
                return buffer
        return bytearray(SPARE_BYTES)

    def keep(self, buffer: bytearray) -> None:
        """Take a buffer back, which views may still refer to. Beyond the count of spares it is let go."""
        if len(buffer) == SPARE_BYTES and len(self._buffers) < self._count:
            self._buffers.append(buffer)


def _is_free(buffer: bytearray) -> bool:
    """True if no view refers to it: only then it can change its size."""
    try:
        del buffer[-1:]
    except BufferError:
        return False
    buffer.append(0)
    return True


class MemoryBudget:
    """Bytes that may be in use at once; who asks for more waits in line, first come, first served.

    Memory is drawn as it fills, so two frames can each hold half of it and wait for the rest. One account at
    a time may therefore overdraw, and finishes: at most one frame more than `limit` is in use.
    """

    __slots__ = ("_line", "_overdrawn_by", "available", "limit", "spares")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.spares = SpareBuffers()
        """Not counted as in use."""
        self.available = limit
        """The free bytes; negative while an account overdraws."""
        self._line: deque[_BudgetPlace] = deque()
        self._overdrawn_by: Account | None = None

    @property
    def wanted(self) -> int:
        """The bytes that the first in line needs beyond the free ones; 0 if nobody waits."""
        return self._line[0].size - self.available if self._line else 0

    async def _draw(self, account: "Account", size: int) -> None:
        if not self._line and size <= self.available:
            self.available -= size
            return
        place = _BudgetPlace(account, size)
        self._line.append(place)
        self._serve()
        if place.granted.is_set():
            return
        try:
            await place.granted.wait()
        except BaseException:
            if place.granted.is_set():
                self._put_back(account, size)
            else:
                self._line.remove(place)
                self._serve()
            raise

    def _put_back(self, account: "Account", size: int) -> None:
        self.available += size
        if self._overdrawn_by is account:
            self._overdrawn_by = None
        self._serve()

    def _serve(self) -> None:
        while self._line and self._line[0].size <= self.available:
            self._grant(self._line.popleft())
        over = self._overdrawn_by
        begun = next(
            (place for place in self._line if place.account.held and over in (None, place.account)), None
        )
        if begun is not None:
            self._overdrawn_by = begun.account
            self._line.remove(begun)
            self._grant(begun)

    def _grant(self, place: "_BudgetPlace") -> None:
        self.available -= place.size
        place.granted.set()


class _BudgetPlace:
    """A place in the line."""

    __slots__ = ("account", "granted", "size")

    def __init__(self, account: "Account", size: int) -> None:
        self.account = account
        self.size = size
        self.granted = trio.Event()


class Account:
    """The bytes that one connection has drawn. One task uses it."""

    __slots__ = ("_budget", "held")

    def __init__(self, budget: MemoryBudget) -> None:
        self._budget = budget
        self.held = 0

    async def draw(self, size: int) -> None:
        """Wait until `size` more bytes are free and take them. A first draw of more than the limit counts as
        all of it. If cancelled, nothing was taken."""
        size = min(size, self._budget.limit) if not self.held else size
        await self._budget._draw(self, size)
        self.held += size

    def release(self) -> None:
        """Put everything back. Idempotent."""
        held, self.held = self.held, 0
        if held:
            self._budget._put_back(self, held)


class ResponseBudget:
    """The limit of unsent bytes of answers over all connections. A connection with nothing unsent never
    waits, so it can always make progress by one answer."""

    __slots__ = ("limit", "used")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.used = 0

    @property
    def exhausted(self) -> bool:
        return self.used >= self.limit

    def take(self, size: int) -> None:
        self.used += size

    def put_back(self, size: int) -> None:
        self.used -= size
