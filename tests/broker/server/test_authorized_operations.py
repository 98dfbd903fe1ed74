"""The operations that a client may do, where it asks for them (KIP-430): all that Kafka's brokers without an
authorizer name."""

from typing import Any

import pytest

from quorate.broker.wire.api import ApiKey
from quorate.broker.wire.kafka_client import WireClient
from tests.broker.server.client_requests import ask, create

ON_TOPICS, ON_CLUSTER = 3576, 8096
"""The bits that a broker of Kafka 4.3 answers."""
NOT_ASKED = -(1 << 31)


@pytest.mark.parametrize(("asked", "answered"), [(True, ON_TOPICS), (False, NOT_ASKED)])
async def test_metadata_has_those_on_topics_if_asked(client: WireClient, asked: bool, answered: int) -> None:
    await create(client)
    found: Any = await client.call(
        ApiKey.METADATA, topics=[{"name": "t"}], include_topic_authorized_operations=asked
    )
    assert [topic.topic_authorized_operations for topic in found.topics] == [answered]


async def test_metadata_of_older_versions_has_those_on_the_cluster(client: WireClient) -> None:
    found = await ask(client, ApiKey.METADATA, 10, topics=[], include_cluster_authorized_operations=True)
    assert found.cluster_authorized_operations == ON_CLUSTER


async def test_describe_topic_partitions_always_has_them(client: WireClient) -> None:
    await create(client)
    found: Any = await client.call(ApiKey.DESCRIBE_TOPIC_PARTITIONS, topics=[{"name": "t"}])
    assert [topic.topic_authorized_operations for topic in found.topics] == [ON_TOPICS]
