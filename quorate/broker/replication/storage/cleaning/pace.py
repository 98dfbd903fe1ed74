"""The rate of a broker's compactions (`log.cleaner.io.max.bytes.per.second`)."""

import math
from typing import Final

import trio

from quorate.broker.replication.replica import CompactionPass
from quorate.runtime import TokenBucket

_BURST_S: Final = 0.3
_PAUSE_MIN_S: Final = 0.001
"""A rest of a rounding error is no time at all, and would be waited for again and again."""
_PAUSE_MAX_S: Final = 1.0
"""The longest pause until the rate is looked at again: it may have been raised."""
_NO_BOUND: Final = 1e300


class CleaningThrottle:
    """The bytes that all passes of a broker read and write, and their bound (bytes per second)."""

    __slots__ = ("_bound", "_bucket")

    def __init__(self, bound: float) -> None:
        self._bucket = TokenBucket(burst_s=_BURST_S)
        self._bound = math.inf
        self.configure(bound)

    def configure(self, bound: float) -> None:
        """Apply another bound from now on."""
        self._bound = bound if bound < _NO_BOUND else math.inf

    async def used(self, size: int, under_way: CompactionPass) -> None:
        """Count `size` bytes and wait until the rate is back at the bound, or the pass should end. Raises
        `CompactionStoppedError`."""
        under_way.check()
        if not math.isinf(self._bound):
            self._bucket.use(size, self._bound, now=trio.current_time())
        while not math.isinf(self._bound):
            wait_s = self._bucket.wait_s(self._bound, now=trio.current_time())
            if wait_s <= 0:
                return
            with trio.move_on_after(min(max(wait_s, _PAUSE_MIN_S), _PAUSE_MAX_S)):
                await under_way.stopped.wait()
            under_way.check()


class PassPace:
    """The pace of one pass."""

    __slots__ = ("_pass", "_throttle")

    def __init__(self, throttle: CleaningThrottle, under_way: CompactionPass) -> None:
        self._throttle = throttle
        self._pass = under_way

    async def moved(self, bytes_read: int, bytes_written: int) -> None:
        """Count what the pass has read and written. Raises `CompactionStoppedError` if it should end."""
        await self._throttle.used(bytes_read + bytes_written, self._pass)
