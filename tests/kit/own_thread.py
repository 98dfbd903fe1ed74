"""Clients that go on asking while a test does something else."""

import threading
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import trio


@contextmanager
def running(main: Callable[[threading.Event], Awaitable[None]]) -> Iterator[None]:
    """Run `main` in a thread of its own, until the block ends: then its event is set, and what it raises is
    raised here."""
    stop = threading.Event()
    with ThreadPoolExecutor(1) as pool:
        end = pool.submit(trio.run, main, stop)
        try:
            yield
        finally:
            stop.set()
            end.result()
