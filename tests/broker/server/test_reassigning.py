"""Reassignment over the wire: replicas move between real nodes, with their records."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import trio
from kio.schema.errors import ErrorCode

from quorate.broker.wire.api import ApiKey
from quorate.broker.wire.kafka_client import WireClient
from quorate.broker.wire.newest_version import BY_NAME
from tests.broker.server.client_requests import create
from tests.broker.server.conftest import MakeNodes


async def alter(
    client: WireClient,
    replicas: tuple[int, ...] | None,
    *,
    topic: str = "t",
    partition: int = 0,
    **values: object,
) -> tuple[Any, str]:
    """The error and message of the partition."""
    answer: Any = await client.call(
        ApiKey.ALTER_PARTITION_REASSIGNMENTS,
        topics=[{"name": topic, "partitions": [{"partition_index": partition, "replicas": replicas}]}],
        timeout=timedelta(seconds=10),
        **values,
    )
    assert answer.error_code is ErrorCode.none
    (part,) = answer.responses[0].partitions
    return part.error_code, part.error_message


async def listed(client: WireClient, topics: object = None) -> dict[tuple[str, int], tuple[Any, ...]]:
    answer: Any = await client.call(
        ApiKey.LIST_PARTITION_REASSIGNMENTS, topics=topics, timeout=timedelta(seconds=10)
    )
    assert answer.error_code is ErrorCode.none
    return {
        (topic.name, part.partition_index): (part.replicas, part.adding_replicas, part.removing_replicas)
        for topic in answer.topics
        for part in topic.partitions
    }


async def ended(nodes: Any, node: int, replicas: tuple[int, ...]) -> Any:
    """The partition's state on that node when it has the replicas and all are in sync."""

    def has(image: Any) -> bool:
        topic = image.topic("t")
        if topic is None:
            return False
        state = image.partition(topic.topic_id, 0)
        return (
            state.replicas == replicas and not state.is_reassigning and sorted(state.isr) == sorted(replicas)
        )

    with trio.fail_after(20):
        await nodes.servers[node].metadata.wait_until(has)
    image = nodes.servers[node].metadata.image
    return image.partition(image.topic("t").topic_id, 0)


async def folders(tmp_path: Path, holders: set[int], count: int = 3) -> None:
    """Return when these nodes have a folder of the partition, and no others."""
    with trio.fail_after(10):
        while {n for n in range(1, count + 1) if (tmp_path / f"node-{n}" / "t-0").exists()} != holders:  # noqa: ASYNC110  a task that nobody waits for removes it
            await trio.sleep(0.02)  # the folder is removed by a task that nobody waits for


async def test_a_partition_moves_with_its_records_and_leaves_nothing_behind(
    make_nodes: MakeNodes, tmp_path: Path
) -> None:
    nodes = await make_nodes(3)
    async with nodes.client(1) as client:
        await create(client, assignments=[[1, 2]])
        image = nodes.servers[1].metadata.image
        before = image.partition(image.topic("t").topic_id, 0)
        assert await listed(client) == {}
        assert await alter(client, (3,)) == (ErrorCode.none, None)
        state = await ended(nodes, 1, (3,))
        assert (state.leader, state.leader_epoch > before.leader_epoch) == (3, True)
        await folders(tmp_path, {3})
        assert await listed(client) == {}
        # And back, to more than before.
        assert await alter(client, (1, 2, 3)) == (ErrorCode.none, None)
        await ended(nodes, 1, (1, 2, 3))
        await folders(tmp_path, {1, 2, 3})


@pytest.mark.slow
async def test_a_move_to_a_broker_that_is_away_is_listed_shown_and_cancelled(
    make_nodes: MakeNodes, tmp_path: Path
) -> None:
    nodes = await make_nodes(3)
    async with nodes.client(1) as client:
        await create(client, assignments=[[1, 2]])
        await nodes.stop(3)
        assert await alter(client, (3, 2)) == (ErrorCode.none, None)
        assert await listed(client) == {("t", 0): ((3, 2, 1), (3,), (1,))}
        assert await listed(client, [{"name": "t", "partition_indexes": [0, 7]}]) == await listed(client)
        assert await listed(client, []) == {}
        assert await listed(client, [{"name": "no", "partition_indexes": [0]}]) == {}
        described: Any = await client.call(ApiKey.DESCRIBE_TOPIC_PARTITIONS, topics=[{"name": "t"}])
        assert described.topics[0].partitions[0].replica_nodes == (3, 2, 1)
        metadata: Any = await client.call(ApiKey.METADATA, topics=[{"name": "t", "topic_id": None}])
        assert metadata.topics[0].partitions[0].replica_nodes == (3, 2, 1)
        assert await alter(client, None) == (ErrorCode.none, None)
        assert await listed(client) == {}
        error, message = await alter(client, None)
        assert (error, "in progress" in message) == (ErrorCode.no_reassignment_in_progress, True)
        error, _ = await alter(client, (1,), allow_replication_factor_change=False)
        assert error is ErrorCode.invalid_replication_factor
        error, message = await alter(client, (1, 9))
        assert (error, "not registered" in message) == (ErrorCode.invalid_replica_assignment, True)


@pytest.mark.slow
@pytest.mark.bug("KAFKA-4214")
async def test_a_move_outlives_its_controller_and_its_receiver_together(make_nodes: MakeNodes) -> None:
    nodes = await make_nodes(3)
    leader = nodes.servers[1].quorum.leader
    receiver = next(each for each in (1, 2, 3) if each != leader)
    asked = next(each for each in (1, 2, 3) if each not in (leader, receiver))
    async with nodes.client(asked) as client:
        await create(client, assignments=[[asked]])
        await nodes.crash(receiver)
        assert await alter(client, (asked, receiver)) == (ErrorCode.none, None)
        await nodes.crash(leader)
        await nodes.start(leader)
        with trio.fail_after(20):
            while nodes.servers[asked].quorum.leader is None:  # noqa: ASYNC110  nothing tells it
                await trio.sleep(0.02)  # no event says who leads a quorum
        assert await listed(client) == {("t", 0): ((asked, receiver), (receiver,), ())}
        await nodes.start(receiver)
        await ended(nodes, asked, (asked, receiver))


@pytest.mark.slow
@pytest.mark.bug("KAFKA-13972")
async def test_a_cancelled_move_leaves_no_stray_replica(make_nodes: MakeNodes, tmp_path: Path) -> None:
    nodes = await make_nodes(3)
    async with nodes.client(1) as client:
        await create(client, assignments=[[1]])
        await folders(tmp_path, {1})
        # With the one that leads away, the receiver can't catch up, but it has its folder.
        await nodes.crash(1)
        async with nodes.client(2) as other:
            assert (await alter(other, (2, 3)))[0] is ErrorCode.none
            await folders(tmp_path, {1, 2, 3})
            assert (await alter(other, None))[0] is ErrorCode.none
            await folders(tmp_path, {1})
        await nodes.start(1)
        await ended(nodes, 2, (1,))


@pytest.mark.slow
@pytest.mark.bug("KAFKA-16892")
async def test_a_broker_that_was_away_deletes_what_was_moved_from_it(
    make_nodes: MakeNodes, tmp_path: Path
) -> None:
    nodes = await make_nodes(3)
    async with nodes.client(1) as client:
        await create(client, assignments=[[1, 2]])
        await folders(tmp_path, {1, 2})
        await nodes.crash(2)
        assert await alter(client, (1, 3)) == (ErrorCode.none, None)
        await ended(nodes, 1, (1, 3))
        await folders(tmp_path, {1, 2, 3})
        await nodes.start(2)
        await folders(tmp_path, {1, 3})


async def commit(client: WireClient) -> Any:
    part = {
        "partition_index": 0,
        "committed_offset": 7,
        "committed_leader_epoch": -1,
        "committed_metadata": "",
    }
    answer: Any = await client.call(
        ApiKey.OFFSET_COMMIT,
        at_most=BY_NAME[ApiKey.OFFSET_COMMIT],
        group_id="g",
        generation_id_or_member_epoch=-1,
        member_id="",
        group_instance_id=None,
        topics=[{"name": "t", "partitions": [part]}],
    )
    return answer.topics[0].partitions[0].error_code


async def committed(client: WireClient) -> None:
    """Return when the broker has taken a commit of the group."""
    with trio.fail_after(10):
        while await commit(client) is not ErrorCode.none:  # noqa: ASYNC110  it loads its groups
            await trio.sleep(0.02)


@pytest.mark.bug("KAFKA-13198")
async def test_a_coordinator_whose_partition_moves_away_gives_its_groups_up(
    make_nodes: MakeNodes, tmp_path: Path
) -> None:
    nodes = await make_nodes(
        2, {"offsets.topic.num.partitions": "1", "offsets.topic.replication.factor": "1"}
    )
    async with nodes.client(1) as one, nodes.client(2) as two:
        clients = {1: one, 2: two}
        await create(one, assignments=[[1]])
        found: Any = await one.call(ApiKey.FIND_COORDINATOR, key_type=0, coordinator_keys=["g"])
        with trio.fail_after(10):
            while found.coordinators[0].error_code is not ErrorCode.none:
                await trio.sleep(0.02)
                found = await one.call(ApiKey.FIND_COORDINATOR, key_type=0, coordinator_keys=["g"])
        old = found.coordinators[0].node_id
        new = 3 - old
        await committed(clients[old])
        assert (await alter(one, (new,), topic="__consumer_offsets"))[0] is ErrorCode.none
        await committed(clients[new])
        assert await commit(clients[old]) is ErrorCode.not_coordinator
        folder = tmp_path / f"node-{old}" / "__consumer_offsets-0"
        with trio.fail_after(10):
            while folder.exists():  # noqa: ASYNC110  a task that nobody waits for removes it
                await trio.sleep(0.02)
