"""Work for a processor that would hold up the event loop: compression of what is large."""

from collections.abc import Callable
from typing import Protocol, TypeVar

Result = TypeVar("Result")


class Compute(Protocol):
    async def run(self, function: Callable[[], Result]) -> Result:
        """Call `function` off the event loop. It must touch nothing that the loop may change meanwhile, and
        let go of the interpreter lock for most of its time. Cancellation waits for it; an exception of its is
        raised here."""
        ...
