"""A broker that has not heard of a revocation passes a request on, and the controller refuses it."""

from datetime import timedelta
from typing import Any

import pytest
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


async def test_a_change_by_way_of_a_stale_broker_is_refused(
    make_nodes: MakeNodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Brokers decide by the ACLs of the beginning: there are none, so that everybody may do everything.
    monkeypatch.setattr(
        broker_node,
        "configured_authorizer",
        lambda settings, _: configured_authorizer(settings, lambda: BEFORE),
    )
    nodes = await make_nodes(2, {"authorizer.class.name": STANDARD, "allow.everyone.if.no.acl.found": "true"})
    async with nodes.client(1) as one, nodes.client(2) as two:
        for name, client in (("one", one), ("two", two)):
            assert (await create(client, name)).error_code is ErrorCode.none
        denied = [(ResourceType.CLUSTER, "kafka-cluster"), (ResourceType.TOPIC, "*")]
        answer: Any = await one.call(
            ApiKey.CREATE_ACLS,
            creations=[
                {
                    "resource_type": int(kind),
                    "resource_name": name,
                    "resource_pattern_type": int(PatternType.LITERAL),
                    "principal": "User:ANONYMOUS",
                    "host": "*",
                    "operation": int(AclOperation.CREATE),
                    "permission_type": int(AclPermission.DENY),
                }
                for kind, name in denied
            ],
        )
        assert {each.error_code for each in answer.results} == {ErrorCode.none}
        # One of them is the controller's own node, the other sends the request on.
        for client in (one, two):
            topic = {"name": "late", "num_partitions": 1, "replication_factor": 1}
            answer = await client.call(ApiKey.CREATE_TOPICS, topics=[topic], timeout=timedelta(seconds=5))
            assert [each.error_code for each in answer.topics] == [ErrorCode.topic_authorization_failed]
        metadata: Any = await two.call(
            ApiKey.METADATA, topics=[{"name": "automatic"}], allow_auto_topic_creation=True
        )
        assert [each.error_code for each in metadata.topics] == [ErrorCode.topic_authorization_failed]
