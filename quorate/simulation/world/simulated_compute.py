"""Work for a processor, done at once."""

from collections.abc import Callable

import trio

from quorate.runtime import Result


class InlineCompute:
    """Computes on the loop: virtual time stands still meanwhile."""

    __slots__ = ()

    async def run(self, function: Callable[[], Result]) -> Result:
        await trio.lowlevel.checkpoint()
        return function()
