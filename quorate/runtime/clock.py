"""Time. Durations and deadlines come from trio's own clock (`trio.current_time`, seconds), which is virtual
in simulation; the wall clock below is only for timestamps that people and clients read, and may jump."""

from collections.abc import Callable
from typing import Protocol

import trio


def loop_clock() -> Callable[[], float]:
    """The clock of this run of the event loop, for what reads it several times in a step: what
    `trio.current_time()` says, in seconds, at half its cost. Other threads may call it. Raises `RuntimeError`
    outside of trio."""
    return trio.lowlevel.current_clock().current_time


class WallClock(Protocol):
    def now_ms(self) -> int:
        """Milliseconds since the Unix epoch."""
        ...
