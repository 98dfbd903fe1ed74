"""Virtual time: it stands still while anything can run, and then jumps to the next deadline."""

import math
from collections.abc import Callable

import trio


class VirtualClock(trio.abc.Clock):
    """A clock for one `trio.run`. Seconds, from 0.

    trio asks for the time to sleep only when nothing is runnable, so that is where time passes. If there is
    no deadline either, or none before `limit_seconds`, `stuck` is called with what is wrong; it must make
    something runnable.
    """

    __slots__ = ("_limit_seconds", "_next_due", "_spent", "_stuck", "now")

    def __init__(
        self,
        *,
        limit_seconds: float,
        stuck: Callable[[str], None],
        spent: Callable[[], float] = lambda: 0.0,
        next_due: Callable[[float], float] = lambda now: math.inf,
    ) -> None:
        """`spent`: by the step under way, which its own task sees as time that has passed. `next_due`: called
        of the time, makes what is due by then runnable, and says when the next is due."""
        self.now = 0.0
        """The time without the step under way."""
        self._spent = spent
        self._next_due = next_due
        self._limit_seconds = limit_seconds
        self._stuck = stuck

    def start_clock(self) -> None:
        pass

    def current_time(self) -> float:
        return self.now + self._spent()

    def deadline_to_sleep_time(self, deadline: float) -> float:
        due = self._next_due(self.now)
        if due < deadline:
            deadline = due
        if deadline > self._limit_seconds:
            if math.isinf(deadline):
                self._stuck("deadlock: every task waits for another one, for good")
            else:
                self._stuck(f"not finished after {self._limit_seconds:g} s of virtual time")
        elif deadline > self.now:
            self.now = deadline
            self._next_due(deadline)
        return 0.0
