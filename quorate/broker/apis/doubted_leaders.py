"""Leaders that may just have died: who would be told of them waits until that is settled."""

from collections.abc import Callable, Iterable

import trio

from quorate.broker.apis.context import Broker
from quorate.broker.metadata import MetadataImage


async def wait_settled(
    broker: Broker, leaders: Iterable[int], replaced: Callable[[MetadataImage, int], bool]
) -> None:
    """Return when each of them is found alive, or is `replaced` in this node's metadata; a second after it
    was lost at the latest."""
    for leader in leaders:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_wait_replaced, broker, leader, replaced, nursery.cancel_scope)
            await broker.replicas.lost_leaders.wait_found(leader)
            nursery.cancel_scope.cancel()


async def _wait_replaced(
    broker: Broker, leader: int, replaced: Callable[[MetadataImage, int], bool], scope: trio.CancelScope
) -> None:
    await broker.metadata.wait_until(lambda image: replaced(image, leader))
    scope.cancel()
