"""Waiting for real processes."""

import time
from collections.abc import Callable


def wait_until(
    reached: Callable[[], object], what: str | Callable[[], str], *, seconds: float = 30.0
) -> None:
    """Return when the condition holds. `what`: it, in words, which a function finds when the time is up."""
    deadline = time.monotonic() + seconds
    while not reached():
        if time.monotonic() >= deadline:
            raise AssertionError(f"not within {seconds} s: {what if isinstance(what, str) else what()}")
        time.sleep(0.05)
