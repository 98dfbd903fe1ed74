"""Python's garbage collector in a process that keeps very much for very long.

A full collection looks at every object that might be part of a cycle: with 100,000 partitions that holds the
event loop for 50 to 100 ms. But objects that a collection found alive mostly stay alive, and most others die
without a cycle, which needs no collector. So the next collections skip the objects that one found alive.
"""

import gc
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, Literal

_THRESHOLDS: Final = (700, 10, 1)
"""Python's own, except the last: a full collection comes after some 15,000 new objects, in 3 ms. It does so
within the slice of whoever makes the last of them."""
_INCREMENTAL_SINCE: Final = (3, 14)
"""The first version of Python in which no collection looks at all objects at once."""
_UNSEEN_MIN: Final = 250_000
_MANY_FOR_S: Final = 10.0


class _Collections:
    """The collector's callback. Owns the count of the objects that are set aside (`gc.freeze`)."""

    def __init__(self) -> None:
        self._alive = gc.get_freeze_count()
        """The number of objects after the last collection that looked at all of them."""
        self._set_aside = self._alive
        """The most objects that are set aside now, including those that died meanwhile."""
        self._all_looked_at = False
        self._count_at: float | None = None
        """The time (`time.monotonic`, s) at which to count again; None while there aren't too many."""
        self._were_many = False
        """True if the last count found too many."""

    def __call__(self, phase: Literal["start", "stop"], info: dict[str, int]) -> None:
        if phase == "start" or info["generation"] < 2:
            return
        new = len(gc.get_objects())
        gc.freeze()
        if self._all_looked_at:
            self._all_looked_at = False
            self._alive = self._set_aside = new
            return
        self._set_aside += new
        # A cycle that was alive when it was set aside is found by none of the short collections. When there
        # may be as many of these as of the living, a collection looks at everything. Not in a rush: to count
        # takes milliseconds, to look at everything a tenth of a second, and what made so many is often a
        # request with a hundred thousand parts, which are gone in a second.
        if self._set_aside <= self._limit:
            return
        now = time.monotonic()
        if self._count_at is None:
            self._count_at = now + _MANY_FOR_S
        if now < self._count_at:
            return
        self._set_aside = gc.get_freeze_count()
        many = self._set_aside > self._limit
        if many and self._were_many:
            gc.unfreeze()
            self._all_looked_at = True
        self._were_many = many and not self._all_looked_at
        self._count_at = now + _MANY_FOR_S if self._were_many else None

    @property
    def _limit(self) -> int:
        return 2 * self._alive + _UNSEEN_MIN


@contextmanager
def short_collections() -> Iterator[None]:
    """Within the block a full collection looks at what is new since the last one, or since the block began
    with one. Cycles that die later are kept until they may have as many objects as there are living ones, and
    250,000, for twenty seconds; then one collection looks at everything.

    It changes the whole process: for a program that is one server, not for a library.
    """
    if sys.version_info[:2] >= _INCREMENTAL_SINCE:
        yield
        return
    thresholds = gc.get_threshold()
    gc.collect()
    gc.freeze()
    # The collector waits until there is a quarter more than it last found: it is to find nothing.
    gc.collect()
    collections = _Collections()
    gc.callbacks.append(collections)
    gc.set_threshold(*_THRESHOLDS)
    try:
        yield
    finally:
        gc.set_threshold(*thresholds)
        gc.callbacks.remove(collections)
        gc.unfreeze()
