"""Requests about the cluster as a whole: its brokers and its features."""

from datetime import timedelta
from typing import Any

import pytest
import trio
from kio.schema.errors import ErrorCode

from quorate.broker.wire.api import ApiKey
from quorate.broker.wire.kafka_client import WireClient
from tests.broker.server.client_requests import ask, create
from tests.broker.server.conftest import MakeNodes

BROKERS, CONTROLLERS = 1, 2


async def brokers(client: WireClient, **values: object) -> dict[int, bool]:
    """Whether each is fenced."""
    answer: Any = await client.call(ApiKey.DESCRIBE_CLUSTER, **values)
    return {each.broker_id: each.is_fenced for each in answer.brokers}


async def test_fenced_brokers_are_shown_to_who_asks_and_an_unregistered_one_to_nobody(
    make_nodes: MakeNodes,
) -> None:
    nodes = await make_nodes(3)
    async with nodes.client(1) as client:
        await nodes.stop(3)
        metadata = nodes.servers[1].metadata
        with trio.fail_after(10):
            await metadata.wait_until(lambda image: image.broker(3).fenced)
        assert await brokers(client, include_fenced_brokers=True) == {1: False, 2: False, 3: True}
        assert await brokers(client, include_fenced_brokers=False) == {1: False, 2: False}
        assert set(await brokers(client, endpoint_type=CONTROLLERS)) == {1, 2, 3}
        gone: Any = await client.call(ApiKey.UNREGISTER_BROKER, broker_id=3)
        assert gone.error_code is ErrorCode.none
        with trio.fail_after(10):
            await metadata.wait_until(lambda image: image.broker(3) is None)
        assert set(await brokers(client, include_fenced_brokers=True)) == {1, 2}
        again: Any = await client.call(ApiKey.UNREGISTER_BROKER, broker_id=3)
        assert again.error_code is ErrorCode.broker_id_not_registered
        assert again.error_message == "Broker ID 3 is not currently registered."


async def test_the_operations_on_the_cluster_are_named_to_who_asks(client: WireClient) -> None:
    for asked, bits in ((True, 8096), (False, -(1 << 31))):
        answer: Any = await client.call(ApiKey.DESCRIBE_CLUSTER, include_cluster_authorized_operations=asked)
        assert answer.cluster_authorized_operations == bits


def update(name: str, level: int, how: int = 1) -> dict[str, object]:
    return {"feature": name, "max_version_level": level, "upgrade_type": how}


async def features(client: WireClient, *updates: dict[str, object], **values: object) -> Any:
    return await client.call(
        ApiKey.UPDATE_FEATURES, feature_updates=updates, timeout=timedelta(seconds=10), **values
    )


async def test_the_quorums_voters_move_into_the_log_by_kraft_version(make_nodes: MakeNodes) -> None:
    nodes = await make_nodes(3)
    leader = nodes.servers[1].quorum.leader
    async with nodes.client(leader) as client:
        checked = await features(client, update("kraft.version", 1), validate_only=True)
        assert checked.error_code is ErrorCode.none
        assert not nodes.servers[leader].quorum.has_dynamic_voters
        assert (await features(client, update("kraft.version", 1))).error_code is ErrorCode.none
        assert nodes.servers[leader].quorum.has_dynamic_voters
        back = await features(client, update("kraft.version", 0, how=3))
        assert back.error_code is ErrorCode.invalid_update_version
        assert "can't leave the log again" in back.error_message


@pytest.mark.parametrize(
    ("refused", "why"),
    [
        (update("metadata.version", 99), "supports levels 1 to 1"),
        (update("group.version", 1), "supports levels 0 to 0"),
        (update("kraft.version", 2), "supports levels 0 to 1"),
        (update("kraft.version", 1, how=2), "takes an upgrade"),
        (update("metadata.version", 1, how=9), "upgrade type 9 is none of 1, 2 and 3"),
    ],
)
async def test_a_refused_feature_is_named_with_the_reason(
    client: WireClient, refused: dict[str, object], why: str
) -> None:
    answer = await features(client, refused)
    assert answer.error_code is ErrorCode.invalid_update_version
    assert why in answer.error_message


PREFERRED, UNCLEAN = 0, 1


async def elect(client: WireClient, election_type: int, *, version: int = 2, **topics: list[int]) -> Any:
    """Rows as {topic: {partition: error}}; of all partitions if no topic is named."""
    named = [{"topic": topic, "partitions": partitions} for topic, partitions in topics.items()]
    kind = {} if version == 0 else {"election_type": election_type}
    time = timedelta(seconds=10)
    answer = await ask(
        client, ApiKey.ELECT_LEADERS, version, topic_partitions=named or None, timeout=time, **kind
    )
    assert getattr(answer, "error_code", ErrorCode.none) is ErrorCode.none
    return {
        row.topic: {each.partition_id: each.error_code.name for each in row.partition_result}
        for row in answer.replica_election_results
    }


@pytest.mark.slow
async def test_a_broker_that_is_back_leads_again_when_it_is_asked_for(make_nodes: MakeNodes) -> None:
    nodes = await make_nodes(3)
    async with nodes.client(1) as client:
        await create(client, "moved", assignments=[[3, 1]], timeout_s=10)
        await create(client, "still", assignments=[[1, 3]], timeout_s=10)
        metadata = nodes.servers[1].metadata

        def moved() -> Any:
            return metadata.image.partitions(metadata.image.topic("moved").topic_id)[0]

        await nodes.stop(3)
        with trio.fail_after(20):
            await metadata.wait_until(lambda _: moved().leader == 1)
            assert await elect(client, PREFERRED, moved=[0]) == {
                "moved": {0: "preferred_leader_not_available"}
            }
            await nodes.start(3)
            await metadata.wait_until(lambda _: 3 in moved().isr)
        assert await elect(client, UNCLEAN, moved=[0, 1], gone=[0]) == {
            "moved": {0: "election_not_needed", 1: "unknown_topic_or_partition"},
            "gone": {0: "unknown_topic_or_partition"},
        }
        assert await elect(client, UNCLEAN) == {"moved": {}, "still": {}}
        assert moved().leader == 1
        assert await elect(client, PREFERRED) == {"moved": {0: "none"}, "still": {}}
        with trio.fail_after(10):
            await metadata.wait_until(lambda _: moved().leader == 3)
        assert await elect(client, PREFERRED, version=0, still=[0]) == {"still": {0: "election_not_needed"}}
        refused: Any = await client.call(
            ApiKey.ELECT_LEADERS,
            election_type=7,
            topic_partitions=[{"topic": "still", "partitions": [0]}],
            timeout=timedelta(seconds=10),
        )
        assert refused.error_code is ErrorCode.invalid_request
