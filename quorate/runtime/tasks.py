"""Tasks that synchronous code starts."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from contextvars import copy_context

import trio


class Tasks:
    """Runs each task that is given to `start`, in the nursery of `running`.

    A task has the context variables of `running`, not those of the call that started it, which it outlives.
    """

    __slots__ = ("_early", "_start", "ended")

    def __init__(self) -> None:
        self._early: list[Callable[[], Awaitable[object]]] = []
        self._start: Callable[[Callable[[], Awaitable[object]]], None] = self._early.append
        self.ended = False
        """Nothing may be started any more."""

    def start(self, task: Callable[[], Awaitable[object]]) -> None:
        """Start a task now, or as soon as tasks run. Raises RuntimeError when they have ended."""
        self._start(task)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[trio.Nursery]:
        """Run tasks until the block ends and they have."""
        async with trio.open_nursery() as nursery:
            context = copy_context()

            def start(task: Callable[[], Awaitable[object]]) -> None:
                context.run(nursery.start_soon, task)

            self._start = start
            for task in self._early:
                nursery.start_soon(task)
            try:
                yield nursery
            finally:
                self.ended = True
