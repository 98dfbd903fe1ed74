"""Requests that a broker forwards to the active controller are answered as by the controller's own node."""

from datetime import timedelta
from typing import Any

import pytest
import trio
from kio.schema.errors import ErrorCode

from quorate.broker.wire.api import ApiKey
from tests.broker.server.client_requests import ask
from tests.broker.server.conftest import MakeNodes

LONG = "x" * 32_767
TIME = timedelta(seconds=30)
"""Ample for an election that a busy machine causes."""


def topic(name: str, *, replicas: list[int] | None = None, configs: object = ()) -> dict[str, object]:
    assignments = () if replicas is None else ({"partition_index": 0, "broker_ids": replicas},)
    count = 1 if replicas is None else -1
    values = {"name": name, "num_partitions": count, "replication_factor": count}
    return values | {"assignments": assignments, "configs": configs}


CREATE, GROW, MOVE, ELECT = (
    ApiKey.CREATE_TOPICS,
    ApiKey.CREATE_PARTITIONS,
    ApiKey.ALTER_PARTITION_REASSIGNMENTS,
    ApiKey.ELECT_LEADERS,
)
NO_TIMEOUT = {ApiKey.UNREGISTER_BROKER, ApiKey.INCREMENTAL_ALTER_CONFIGS}
MANY = [{"name": f"key.{number}", "value": "1"} for number in range(1100)]
REQUESTS: list[tuple[str, ApiKey, int, dict[str, object]]] = [
    ("a replica on broker -1", CREATE, 7, {"topics": [topic("t", replicas=[-1])]}),
    ("3,000 replicas", CREATE, 7, {"topics": [topic("t", replicas=list(range(3000)))]}),
    ("1,100 settings", CREATE, 7, {"topics": [topic("t", configs=MANY)]}),
    ("a long name", CREATE, 4, {"topics": [topic(LONG)]}),
    (
        "a new partition on broker -1",
        GROW,
        3,
        {"topics": [{"name": "there", "count": 2, "assignments": [{"broker_ids": [-1]}]}]},
    ),
    ("more of a long name", GROW, 0, {"topics": [{"name": LONG, "count": 2, "assignments": None}]}),
    (
        "a move to broker -1",
        MOVE,
        0,
        {"topics": [{"name": "there", "partitions": [{"partition_index": 0, "replicas": [-1]}]}]},
    ),
    (
        "a move to 30,000 brokers",
        MOVE,
        0,
        {"topics": [{"name": "there", "partitions": [{"partition_index": 0, "replicas": range(30_000)}]}]},
    ),
    (
        "an election in a long name",
        ELECT,
        1,
        {"election_type": 0, "topic_partitions": [{"topic": LONG, "partitions": [0]}]},
    ),
    ("broker -1 unregistered", ApiKey.UNREGISTER_BROKER, 0, {"broker_id": -1}),
    (
        "a feature of a long name",
        ApiKey.UPDATE_FEATURES,
        1,
        {"feature_updates": [{"feature": "f" * 300, "max_version_level": 1, "upgrade_type": 1}]},
    ),
    (
        "a setting of a group of a long name",
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        1,
        {
            "resources": [
                {
                    "resource_type": 32,
                    "resource_name": "g" * 300,
                    "configs": [
                        {"name": "consumer.session.timeout.ms", "config_operation": 0, "value": "46000"}
                    ],
                }
            ]
        },
    ),
    (
        "a setting of a long name",
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        0,
        {
            "resources": [
                {
                    "resource_type": 2,
                    "resource_name": "there",
                    "configs": [{"name": LONG, "config_operation": 0, "value": "1"}],
                }
            ]
        },
    ),
]


@pytest.mark.slow
async def test_a_wrong_request_is_answered_by_each_broker_alike(make_nodes: MakeNodes) -> None:
    """A broker that is not the active controller took the controller's refusal for a lost answer: it asked
    again until the request's time was up."""
    nodes = await make_nodes(2)
    leader = next(node for node, server in nodes.servers.items() if server.quorum.is_leader)
    (other,) = set(nodes.servers) - {leader}
    async with nodes.client(leader) as its_client, nodes.client(other) as client:
        await its_client.call(CREATE, topics=[topic("there")], timeout=TIME)
        for what, api, version, values in REQUESTS:
            fields = values | ({} if api in NO_TIMEOUT else {"timeout": TIME})
            answers: list[Any] = []
            for each in (its_client, client):
                with trio.fail_after(20):
                    answers.append(await ask(each, api, version, **fields))
            assert answers[0] == answers[1], what
            told = repr(answers[0])
            assert ErrorCode.unknown_server_error.name not in told, what
            assert ErrorCode.request_timed_out.name not in told, what
