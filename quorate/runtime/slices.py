"""Work that grows with data, done a few milliseconds at a time, so that others run on the event loop too.

Of all such work of an event loop, one slice runs before the loop looks at the outside world again. So short
work waits for one slice, even if there is much long work.
"""

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final, TypeAlias, TypeVar, overload

import trio

from quorate.runtime.clock import loop_clock

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
U = TypeVar("U")

Steps: TypeAlias = Generator[None, None, T]
"""A long piece of work that can stop at each `yield`; what it returns is the outcome."""

SLICE_SECONDS: Final = 0.005
"""The maximum time that a loop over batches, records or partitions may hold the event loop."""


_LET_GO_AT_ONCE: Final = 500


class _Turns:
    """The works whose slice is over. Each gets its next one in turn, one in a pass of the event loop."""

    __slots__ = ("_has_next", "_line")

    def __init__(self) -> None:
        self._line = trio.lowlevel.ParkingLot()
        self._has_next = False
        """True if a work is scheduled for the next pass."""

    async def wait(self) -> None:
        if self._has_next:
            await self._line.park()
            self._schedule_next()
            return
        self._has_next = True
        try:
            await trio.lowlevel.checkpoint()
        finally:
            self._schedule_next()

    def _schedule_next(self) -> None:
        self._has_next = bool(self._line)
        self._line.unpark()


_turns: trio.lowlevel.RunVar[_Turns] = trio.lowlevel.RunVar("slices' turns")
_own_turns: ContextVar[_Turns | None] = ContextVar("quorate_own_turns", default=None)


@contextmanager
def own_turns() -> Iterator[None]:
    """Tasks that are started in this block take turns among themselves, as if they had an event loop of their
    own. For simulated processes: one that is stopped holds up no other."""
    token = _own_turns.set(_Turns())
    try:
        yield
    finally:
        _own_turns.reset(token)


def _turns_of_this_loop() -> _Turns:
    own = _own_turns.get()
    if own is not None:
        return own
    try:
        return _turns.get()
    except LookupError:
        turns = _Turns()
        _turns.set(turns)
        return turns


class Slices:
    """Lets other tasks run after each slice of a long loop.

    Other tasks may change any state that they can reach while `pause` waits, and it may raise
    `trio.Cancelled`. So the caller must check that state again, and leave no half-done change that others can
    see.
    """

    __slots__ = ("_end", "_now")

    def __init__(self) -> None:
        self._now = loop_clock()
        self._end = self._now() + SLICE_SECONDS

    @property
    def over(self) -> bool:
        """True if the slice is over, so that `pause` would let other tasks run."""
        return self._now() >= self._end

    async def pause(self) -> None:
        """Let other tasks run if the slice is over. Otherwise return without a checkpoint. Call it after each
        item."""
        if self._now() >= self._end:
            await _turns_of_this_loop().wait()
            self._end = self._now() + SLICE_SECONDS


async def in_slices(steps: Steps[T]) -> T:
    """Run a piece of work to its end, and let other tasks run after each slice. A step between two yields
    should take less than 1 ms. Returns its result, and raises its errors."""
    try:
        next(steps)
        slices = Slices()
        while True:
            await slices.pause()
            next(steps)
    except StopIteration as end:
        outcome: T = end.value
        return outcome
    finally:
        steps.close()


def at_once(steps: Steps[T]) -> T:
    """Run a short piece of work to its end without letting other tasks run."""
    try:
        while True:
            next(steps)
    except StopIteration as end:
        outcome: T = end.value
        return outcome


def let_go(*lists: list[T]) -> Steps[None]:
    """Empty long lists, a part at a time. Freeing a hundred thousand objects with the last reference to their
    list would take tens of milliseconds."""
    for each in lists:
        while each:
            del each[-_LET_GO_AT_ONCE:]
            yield


class Mapped(Sequence[T_co]):
    """A view of a sequence that applies a function to an item at each access."""

    __slots__ = ("_items", "_make")

    def __init__(self, items: Sequence[U], make: Callable[[U], T_co]) -> None:
        self._items: Sequence[Any] = items
        self._make: Callable[[Any], T_co] = make

    def __len__(self) -> int:
        return len(self._items)

    @overload
    def __getitem__(self, index: int) -> T_co: ...

    @overload
    def __getitem__(self, index: slice) -> "Mapped[T_co]": ...

    def __getitem__(self, index: int | slice) -> "T_co | Mapped[T_co]":
        if isinstance(index, slice):
            return Mapped(self._items[index], self._make)
        return self._make(self._items[index])
