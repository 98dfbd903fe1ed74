"""Commands that serve until they are told to stop."""

import signal
from collections.abc import Awaitable, Callable

import trio


async def until_signal(serve: Callable[[], Awaitable[None]]) -> None:
    """Run `serve` until SIGINT or SIGTERM, which end it without an error."""
    with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(serve)
            async for _ in signals:
                nursery.cancel_scope.cancel()
