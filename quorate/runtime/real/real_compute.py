"""A thread for what is long to compute."""

from collections.abc import Callable

import trio

from quorate.runtime.compute import Result


class ThreadCompute:
    """`quorate.runtime.compute.Compute`, one call at a time: more would only take the processor, and memory,
    from everything else."""

    __slots__ = ("_one",)

    def __init__(self) -> None:
        self._one = trio.CapacityLimiter(1)

    async def run(self, function: Callable[[], Result]) -> Result:
        return await trio.to_thread.run_sync(function, limiter=self._one)
