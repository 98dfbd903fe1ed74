"""The operations that a client may do, where it asks for them (KIP-430): all that Kafka's brokers without an
authorizer name."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from quorate.broker.wire.api import ApiKey
from quorate.broker.wire.codecs import build, request_type, response_type

MakeNodes = Callable[..., Any]
ON_TOPICS, ON_CLUSTER = 3576, 8096
"""As a broker of Kafka 4.3 answers them."""
NOT_ASKED = -(1 << 31)


@pytest.fixture
async def node(make_nodes: MakeNodes) -> Any:
    nodes = await make_nodes(1)
    async with nodes.client(1) as client:
        await client.call(
            ApiKey.CREATE_TOPICS,
            topics=[{"name": "t", "num_partitions": 1, "replication_factor": 1}],
            timeout=timedelta(seconds=10),
        )
    return nodes


@pytest.mark.parametrize(("asked", "answered"), [(True, ON_TOPICS), (False, NOT_ASKED)])
async def test_metadata_has_those_on_topics_if_asked(node: Any, asked: bool, answered: int) -> None:
    async with node.client(1) as client:
        found = await client.call(
            ApiKey.METADATA, topics=[{"name": "t"}], include_topic_authorized_operations=asked
        )
    assert [topic.topic_authorized_operations for topic in found.topics] == [answered]


async def test_metadata_of_older_versions_has_those_on_the_cluster(node: Any) -> None:
    async with node.client(1) as client:
        request = build(
            request_type(ApiKey.METADATA, 10), topics=[], include_cluster_authorized_operations=True
        )
        found: Any = await client.send(request, response_type(ApiKey.METADATA, 10))
    assert found.cluster_authorized_operations == ON_CLUSTER


async def test_describe_topic_partitions_always_has_them(node: Any) -> None:
    async with node.client(1) as client:
        found = await client.call(ApiKey.DESCRIBE_TOPIC_PARTITIONS, topics=[{"name": "t"}])
    assert [topic.topic_authorized_operations for topic in found.topics] == [ON_TOPICS]
