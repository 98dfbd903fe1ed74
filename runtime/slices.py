"""Work that grows with data, done a few milliseconds at a time, so that others run on the event loop too."""

from typing import Final

import trio

from quorate.runtime.clock import loop_clock

SLICE_SECONDS: Final = 0.005
"""How long a walk over batches, records or partitions may hold the event loop."""


class Slices:
    """Lets others run after each slice of a long piece of work.

    Whatever others can change may have changed when `pause` returns, and it may raise `trio.Cancelled`: the
    caller looks again at what it depends on, and leaves nothing half done that others can see.
    """

    __slots__ = ("_end", "_now")

    def __init__(self) -> None:
        self._now = loop_clock()
        self._end = self._now() + SLICE_SECONDS

    @property
    def over(self) -> bool:
        """Whether `pause` would let others run."""
        return self._now() >= self._end

    async def pause(self) -> None:
        """Let others run if the slice is over; no checkpoint if it is not. Call it after each item."""
        if self._now() >= self._end:
            await trio.lowlevel.checkpoint()
            self._end = self._now() + SLICE_SECONDS
