"""The endpoints of the leaders that an error names (KIP-951), so that a client needs no Metadata first."""

from collections.abc import Iterable

from quorate.broker.apis.context import Broker
from quorate.broker.wire import RequestContext
from quorate.broker.wire.codecs import NodeEndpoint


def leader_endpoints(broker: Broker, context: RequestContext, leaders: Iterable[int]) -> list[NodeEndpoint]:
    """Return each leader's endpoint once, without leaders that are not alive."""
    found: list[NodeEndpoint] = []
    for broker_id in dict.fromkeys(leaders):
        endpoint = broker.endpoint(broker_id, context.connection.listener)
        if endpoint is not None:
            found.append(NodeEndpoint(broker_id, endpoint.host, endpoint.port))
    return found
