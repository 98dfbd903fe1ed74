"""Time. Durations and deadlines come from trio's own clock (`trio.current_time`, seconds), which is virtual
in simulation. It may stand still while the host is suspended; the steady clock below does not. The wall clock
is only for timestamps that people and clients read, and may jump."""

from collections.abc import Callable
from typing import Protocol

import trio


def loop_clock() -> Callable[[], float]:
    """Return a function with the value of `trio.current_time()`, in seconds, at half its cost. Other threads
    may call it. Raises `RuntimeError` outside of trio."""
    return trio.lowlevel.current_clock().current_time


class WallClock(Protocol):
    """A clock for timestamps that people and clients read. It may jump."""

    def now_ms(self) -> int:
        """Return the time in ms since the Unix epoch."""
        ...


class SteadyClock(Protocol):
    """A clock for leases. It never jumps or stops, not even while the process or the host is suspended."""

    def now_ms(self) -> int:
        """Return the time in ms since some moment of this boot, rounded down."""
        ...
