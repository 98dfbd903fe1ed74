"""Waits that end: for a condition, or for a block of code that must come to its end in time."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import trio

from quorate.simulation.violations import LivenessViolation


async def holds_within(within_s: float, condition: Callable[[], bool], *, every_s: float = 0.1) -> bool:
    """Wait until the condition holds, and look every so often. Return whether it did in time."""
    with trio.move_on_after(within_s):
        while not condition():  # noqa: ASYNC110
            await trio.sleep(every_s)
        return True
    return False


@contextmanager
def must_end(within_s: float, otherwise: str) -> Iterator[None]:
    """Cancel the block if it takes longer, and raise `LivenessViolation` then."""
    with trio.move_on_after(within_s) as patience:
        yield
    if patience.cancelled_caught:
        raise LivenessViolation(otherwise)
