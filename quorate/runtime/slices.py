"""Work that grows with data, done a few milliseconds at a time, so that others run on the event loop too."""

from collections.abc import Callable, Generator, Sequence
from typing import Any, Final, TypeAlias, TypeVar, overload

import trio

from quorate.runtime.clock import loop_clock

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
U = TypeVar("U")

Steps: TypeAlias = Generator[None, None, T]
"""A long piece of work that can stop at each `yield`; what it returns is the outcome."""

SLICE_SECONDS: Final = 0.005
"""How long a walk over batches, records or partitions may hold the event loop."""


_LET_GO_AT_ONCE: Final = 500


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


async def in_slices(steps: Steps[T]) -> T:
    """Do all of it, and let others run after each slice. A step between two yields should take less than a
    millisecond. Raises what the steps raise."""
    slices = Slices()
    try:
        while True:
            next(steps)
            await slices.pause()
    except StopIteration as end:
        outcome: T = end.value
        return outcome
    finally:
        steps.close()


def at_once(steps: Steps[T]) -> T:
    """Do all of it in one piece, because there is little."""
    try:
        while True:
            next(steps)
    except StopIteration as end:
        outcome: T = end.value
        return outcome


def let_go(*lists: list[T]) -> Steps[None]:
    """Empty long lists from their ends. To free a hundred thousand objects with the last reference to their
    list takes tens of milliseconds."""
    for each in lists:
        while each:
            del each[-_LET_GO_AT_ONCE:]
            yield


class Mapped(Sequence[T_co]):
    """A sequence of what is made of each item, when it is asked for and each time."""

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
