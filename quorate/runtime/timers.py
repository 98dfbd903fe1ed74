"""All deadlines of one owner in one heap, served by one task."""

import heapq
import math
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

import trio

from quorate.runtime.clock import loop_clock

Name = TypeVar("Name", bound=Hashable)

_SOON_SECONDS = 0.005


class Timers(Generic[Name]):
    """Named timers that fire once. Arming a timer again for a later time, as every commit does, costs one
    dictionary write, unless the task is about to wake up for it."""

    __slots__ = ("_deadlines", "_fired", "_heap", "_next", "_now", "_queued", "_sequence", "_sleep")

    def __init__(self, fired: Callable[[Name], None]) -> None:
        self._fired = fired
        self._now = loop_clock()
        self._deadlines: dict[Name, float] = {}
        self._queued: dict[Name, tuple[float, int, Name]] = {}
        """The heap entry that counts for each name; others are leftovers."""
        self._heap: list[tuple[float, int, Name]] = []
        self._sequence = 0
        self._next = math.inf
        self._sleep = trio.CancelScope()

    def arm(self, name: Name, seconds: float) -> None:
        """Start or restart the timer `name`. It fires once, after `seconds`."""
        now = self._now()
        deadline = now + seconds
        self._deadlines[name] = deadline
        queued = self._queued.get(name)
        if queued is None or deadline < queued[0]:
            self._push(name, deadline)
            if deadline < self._next:
                # The sleep under way ends sooner: its task needn't be woken to be told so.
                self._next = self._sleep.deadline = deadline
        elif queued is self._heap[0] and queued[0] - now < _SOON_SECONDS:
            # To sleep on costs a fraction of waking up in vain, as timers of a few ms would at each commit.
            self._drop_outdated()
            self._sleep.deadline = self._next

    def cancel(self, name: Name) -> None:
        """Stop the timer `name`. No effect if it is not armed."""
        self._deadlines.pop(name, None)

    async def run(self) -> None:
        """Call `fired` for each timer at its deadline. Runs until it is cancelled."""
        while True:
            self._fire_due()
            with trio.CancelScope(deadline=self._next) as self._sleep:
                await trio.sleep_forever()

    def _push(self, name: Name, deadline: float) -> None:
        self._sequence += 1
        self._queued[name] = entry = (deadline, self._sequence, name)
        heapq.heappush(self._heap, entry)

    def _drop_outdated(self) -> None:
        """Remove or move the first entries, until the first says when its timer fires."""
        heap, queued = self._heap, self._queued
        while heap:
            entry = heap[0]
            name = entry[2]
            if queued.get(name) is not entry:
                heapq.heappop(heap)
                continue
            deadline = self._deadlines.get(name)
            if deadline == entry[0]:
                break
            heapq.heappop(heap)
            if deadline is None:
                del queued[name]
            else:
                self._push(name, deadline)
        self._next = heap[0][0] if heap else math.inf

    def _fire_due(self) -> None:
        now = self._now()
        while True:
            self._drop_outdated()
            if self._next > now:
                return
            name = heapq.heappop(self._heap)[2]
            del self._queued[name], self._deadlines[name]
            self._fired(name)
