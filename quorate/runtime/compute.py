"""Work for a processor that would hold up the event loop: compression of what is large."""

from collections.abc import Callable
from typing import Protocol, TypeVar

Result = TypeVar("Result")


class Compute(Protocol):
    """Runs long computations, such as the compression of large batches, off the event loop."""

    async def run(self, function: Callable[[], Result]) -> Result:
        """Call `function` in another thread and return its result. The function must not touch state that the
        event loop may change, and must release the interpreter lock for most of its time. A cancellation
        waits for its end. Raises its exceptions."""
        ...
