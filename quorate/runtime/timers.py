"""All deadlines of one owner in one heap, served by one task."""

import heapq
import math
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

import trio

from quorate.runtime.clock import loop_clock

Name = TypeVar("Name", bound=Hashable)


class Timers(Generic[Name]):
    """Named timers that fire once. Arming a timer again for a later time, as every commit does, costs one
    dictionary write."""

    __slots__ = ("_deadlines", "_fired", "_heap", "_next", "_now", "_queued", "_sequence", "_sleep")

    def __init__(self, fired: Callable[[Name], None]) -> None:
        self._fired = fired
        self._now = loop_clock()
        self._deadlines: dict[Name, float] = {}
        self._queued: dict[Name, float] = {}
        """The heap entry that counts for each name; others are leftovers."""
        self._heap: list[tuple[float, int, Name]] = []
        self._sequence = 0
        self._next = math.inf
        self._sleep = trio.CancelScope()

    def arm(self, name: Name, seconds: float) -> None:
        """Start or restart the timer `name`. It fires once, after `seconds`."""
        deadline = self._now() + seconds
        self._deadlines[name] = deadline
        if deadline < self._queued.get(name, math.inf):
            self._push(name, deadline)
            if deadline < self._next:
                # The sleep under way ends sooner: its task needn't be woken to be told so.
                self._next = self._sleep.deadline = deadline

    def cancel(self, name: Name) -> None:
        """Stop the timer `name`. No effect if it is not armed."""
        self._deadlines.pop(name, None)

    async def run(self) -> None:
        """Call `fired` for each timer at its deadline. Runs until it is cancelled."""
        while True:
            self._fire_due()
            self._next = self._heap[0][0] if self._heap else math.inf
            with trio.CancelScope(deadline=self._next) as self._sleep:
                await trio.sleep_forever()

    def _push(self, name: Name, deadline: float) -> None:
        self._sequence += 1
        self._queued[name] = deadline
        heapq.heappush(self._heap, (deadline, self._sequence, name))

    def _fire_due(self) -> None:
        now = self._now()
        while self._heap and self._heap[0][0] <= now:
            queued_for, _, name = heapq.heappop(self._heap)
            if self._queued.get(name) != queued_for:
                continue
            del self._queued[name]
            deadline = self._deadlines.get(name)
            if deadline is None:
                continue
            if deadline <= now:
                del self._deadlines[name]
                self._fired(name)
            else:
                self._push(name, deadline)
