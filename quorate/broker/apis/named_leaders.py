"""Leaders that an answer names: their endpoints, and the wait for those that may just have died."""

from collections.abc import Callable, Iterable

import trio

from quorate.broker.apis.context import Broker
from quorate.broker.metadata.image import MetadataImage
from quorate.broker.wire.codecs.produce_codec import NodeEndpoint
from quorate.broker.wire.exchanges import RequestContext


def leader_endpoints(broker: Broker, context: RequestContext, leaders: Iterable[int]) -> list[NodeEndpoint]:
    """Return each leader's endpoint once, without leaders that are not alive."""
    found: list[NodeEndpoint] = []
    for broker_id in dict.fromkeys(leaders):
        endpoint = broker.endpoint(broker_id, context.connection.listener)
        if endpoint is not None:
            found.append(NodeEndpoint(broker_id, endpoint.host, endpoint.port))
    return found


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
