"""What a broker has not heard of yet is denied too: by the controller, or because the broker waits."""

from datetime import timedelta
from typing import Any

import pytest
import trio
from kio.schema.errors import ErrorCode

from quorate.broker import broker_node
from quorate.broker.access.standard_authorizer import configured_authorizer
from quorate.broker.metadata.acl_index import AclIndex
from quorate.broker.metadata.acls import AclOperation, AclPermission, PatternType, ResourceType
from quorate.broker.settings.authorizer_settings import STANDARD
from quorate.broker.wire.api import ApiKey
from tests.broker.server.client_requests import create
from tests.broker.server.conftest import MakeNodes

BEFORE = AclIndex()
SETTINGS = {"authorizer.class.name": STANDARD, "allow.everyone.if.no.acl.found": "true"}


async def deny(client: Any, operation: AclOperation, resources: list[tuple[ResourceType, str]]) -> None:
    """Add ACLs that deny the operation to everybody who has not logged in."""
    answer: Any = await client.call(
        ApiKey.CREATE_ACLS,
        creations=[
            {
                "resource_type": int(kind),
                "resource_name": name,
                "resource_pattern_type": int(PatternType.LITERAL),
                "principal": "User:ANONYMOUS",
                "host": "*",
                "operation": int(operation),
                "permission_type": int(AclPermission.DENY),
            }
            for kind, name in resources
        ],
    )
    assert {each.error_code for each in answer.results} == {ErrorCode.none}


@pytest.mark.slow
@pytest.mark.bug("etcd issue 14355")
async def test_the_first_answer_after_all_nodes_were_killed_knows_what_is_denied(
    make_nodes: MakeNodes,
) -> None:
    nodes = await make_nodes(2, SETTINGS)
    async with nodes.client(1) as client:
        assert (await create(client, "orders")).error_code is ErrorCode.none
        await deny(client, AclOperation.DESCRIBE, [(ResourceType.TOPIC, "orders")])
    for number in (1, 2):
        await nodes.crash(number)
    await nodes.start(1)
    first: list[ErrorCode] = []

    async def ask() -> None:
        async with nodes.client(1) as client:
            metadata: Any = await client.call(
                ApiKey.METADATA, topics=[{"name": "orders"}], allow_auto_topic_creation=False
            )
            first.extend(each.error_code for each in metadata.topics)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(ask)
        await trio.sleep(0.5)
        assert not first, "without a majority nobody knows what is denied"
        await nodes.start(2)
    assert first == [ErrorCode.topic_authorization_failed]


async def test_a_change_by_way_of_a_stale_broker_is_refused(
    make_nodes: MakeNodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Brokers decide by the ACLs of the beginning: there are none, so that everybody may do everything.
    monkeypatch.setattr(
        broker_node,
        "configured_authorizer",
        lambda settings, _: configured_authorizer(settings, lambda: BEFORE),
    )
    nodes = await make_nodes(2, SETTINGS)
    async with nodes.client(1) as one, nodes.client(2) as two:
        for name, client in (("one", one), ("two", two)):
            assert (await create(client, name)).error_code is ErrorCode.none
        denied = [(ResourceType.CLUSTER, "kafka-cluster"), (ResourceType.TOPIC, "*")]
        await deny(one, AclOperation.CREATE, denied)
        # One of them is the controller's own node, the other sends the request on.
        for client in (one, two):
            topic = {"name": "late", "num_partitions": 1, "replication_factor": 1}
            answer = await client.call(ApiKey.CREATE_TOPICS, topics=[topic], timeout=timedelta(seconds=5))
            assert [each.error_code for each in answer.topics] == [ErrorCode.topic_authorization_failed]
        metadata: Any = await two.call(
            ApiKey.METADATA, topics=[{"name": "automatic"}], allow_auto_topic_creation=True
        )
        assert [each.error_code for each in metadata.topics] == [ErrorCode.topic_authorization_failed]
