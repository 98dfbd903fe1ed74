"""Which brokers a cluster tells its clients about."""

from kio.schema.metadata.v9.request import MetadataRequest
from kio.schema.metadata.v9.response import MetadataResponse

from quorate.broker.wire.client import WireClient


async def live_brokers(client: WireClient) -> set[int]:
    """Ids of the brokers that are registered and not fenced."""
    request = MetadataRequest(
        topics=(),
        allow_auto_topic_creation=False,
        include_cluster_authorized_operations=False,
        include_topic_authorized_operations=False,
    )
    response = await client.send(request, MetadataResponse)
    return {int(broker.node_id) for broker in response.brokers}
