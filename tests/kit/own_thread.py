"""Clients that go on asking while a test does something else, and the threads that are left behind."""

import threading
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import trio


def thread_count() -> int:
    """Return the number of threads, without those that trio keeps idle for ten seconds for its next work: how
    many these are is a matter of luck."""
    return sum(not each.name.startswith("Trio thread") for each in threading.enumerate())


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
