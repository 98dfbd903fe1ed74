"""Waiting for real processes."""

import time
from collections.abc import Callable


def wait_until(reached: Callable[[], object], what: str, *, seconds: float = 30.0) -> None:
    deadline = time.monotonic() + seconds
    while not reached():
        assert time.monotonic() < deadline, f"not within {seconds} s: {what}"
        time.sleep(0.05)
