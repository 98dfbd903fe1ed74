"""An administrator's requests about the data on brokers, through quorate's own client."""

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import trio
from kio.schema.errors import ErrorCode

from quorate.broker.wire.api import APIS, ApiKey
from quorate.broker.wire.kafka_client import WireClient
from quorate.log.batches.records import build_batch
from tests.broker.server.client_requests import ask, create, produce_request
from tests.broker.server.conftest import MakeNodes


async def produce(
    client: WireClient, topic: str, *values: bytes, producer: int = -1, sequence: int = -1
) -> None:
    data = build_batch(
        base_offset=0,
        epoch=0,
        timestamp_ms=1000,
        values=values,
        producer_id=producer,
        producer_epoch=min(0, producer),
        base_sequence=sequence,
    )
    (answer,) = await client.produce(produce_request(topic, data))
    assert answer.partitions[0].error is ErrorCode.none


async def delete(
    client: WireClient, *asked: tuple[str, int, int], version: int = 2
) -> dict[tuple[str, int], Any]:
    """(topic, partition, offset) to ask for; the results by (topic, partition)."""
    topics = [
        {"name": topic, "partitions": [{"partition_index": partition, "offset": offset}]}
        for topic, partition, offset in asked
    ]
    response = await ask(client, ApiKey.DELETE_RECORDS, version, topics=topics, timeout=timedelta(seconds=5))
    return {
        (topic.name, part.partition_index): (part.error_code, part.low_watermark)
        for topic in response.topics
        for part in topic.partitions
    }


@pytest.mark.parametrize("version", (0, 1, 2))
async def test_records_below_an_offset_are_deleted_and_each_refusal_is_kafkas(
    client: WireClient, version: int
) -> None:
    await create(client, partitions=2)
    await create(client, "compacted", cleanup_policy="compact")
    await produce(client, "t", b"a", b"b", b"c")
    group: Any = await client.call(ApiKey.FIND_COORDINATOR, key_type=0, coordinator_keys=["g"])
    assert group.coordinators
    answers = await delete(
        client,
        ("t", 0, 2),
        ("t", 1, -1),
        ("t", 2, 0),
        ("nothing", 0, 0),
        ("__consumer_offsets", 0, 0),
        ("__cluster_metadata", 0, 0),
        ("compacted", 0, 0),
        version=version,
    )
    assert answers == {
        ("t", 0): (ErrorCode.none, 2),
        ("t", 1): (ErrorCode.none, 0),
        ("t", 2): (ErrorCode.unknown_topic_or_partition, -1),
        ("nothing", 0): (ErrorCode.unknown_topic_or_partition, -1),
        ("__consumer_offsets", 0): (ErrorCode.invalid_topic_exception, -1),
        ("__cluster_metadata", 0): (ErrorCode.unknown_topic_or_partition, -1),
        ("compacted", 0): (ErrorCode.policy_violation, -1),
    }
    assert await delete(client, ("t", 0, 4), version=version) == {
        ("t", 0): (ErrorCode.offset_out_of_range, -1)
    }
    # The last one of a partition named twice counts, and each has one result.
    assert await delete(client, ("t", 0, 4), ("t", 0, -1)) == {("t", 0): (ErrorCode.none, 3)}
    assert await delete(client) == {}


async def describe(client: WireClient, topics: object = None, version: int = 5) -> Any:
    return await ask(client, ApiKey.DESCRIBE_LOG_DIRS, version, topics=topics)


def replicas(response: Any) -> Iterator[tuple[str, str, int]]:
    for directory in response.results:
        for topic in directory.topics:
            for part in topic.partitions:
                yield directory.log_dir, topic.name, part.partition_index


async def test_each_directory_is_described_with_its_replicas(make_nodes: MakeNodes, tmp_path: Path) -> None:
    first, second = str(tmp_path / "node-1"), str(tmp_path / "second")
    nodes = await make_nodes(1, {"log.dirs": f"{first},{second}"})
    async with nodes.client(1) as client:
        await create(client, partitions=4)
        await produce(client, "t", b"x" * 1000)
        for version in range(1, 6):
            response = await describe(client, version=version)
            assert [each.log_dir for each in response.results] == [first, second]
            found = list(replicas(response))
            assert {(topic, index) for _, topic, index in found} == {("t", index) for index in range(4)}
            assert {path for path, _, _ in found} == {first, second}
        assert response.error_code is ErrorCode.none
        for directory in response.results:
            assert directory.error_code is ErrorCode.none
            assert directory.total_bytes >= directory.usable_bytes > 0
            for topic in directory.topics:
                for part in topic.partitions:
                    # A batch of one record, without the space that is reserved behind it.
                    assert part.partition_size == (1070 if part.partition_index == 0 else 0)
                    assert (part.offset_lag, part.is_future_key) == (0, False)
        some = await describe(
            client, [{"topic": "t", "partitions": [1, 9]}, {"topic": "no", "partitions": [0]}]
        )
        assert [(topic, index) for _, topic, index in replicas(some)] == [("t", 1)]
        none = await describe(client, [])
        assert [each.log_dir for each in none.results] == [first, second]
        assert not list(replicas(none))


async def test_a_directory_that_is_gone_says_so_and_has_nothing(
    make_nodes: MakeNodes, tmp_path: Path
) -> None:
    first, bad = str(tmp_path / "node-1"), tmp_path / "bad"
    bad.write_text("a file, and no folder")
    nodes = await make_nodes(1, {"log.dirs": f"{first},{bad}"})
    async with nodes.client(1) as client:
        await create(client)
        response = await describe(client)
    states = {each.log_dir: each for each in response.results}
    assert states[first].error_code is ErrorCode.none
    broken = states[str(bad)]
    assert broken.error_code is ErrorCode.kafka_storage_error
    assert (broken.total_bytes, broken.usable_bytes, broken.topics) == (-1, -1, ())


async def move(client: WireClient, *asked: tuple[str, str, int], version: int = 2) -> dict[Any, ErrorCode]:
    """(path, topic, partition) to ask for; the errors by (topic, partition)."""
    dirs = [{"path": path, "topics": [{"name": name, "partitions": [index]}]} for path, name, index in asked]
    response = await ask(client, ApiKey.ALTER_REPLICA_LOG_DIRS, version, dirs=dirs)
    return {
        (topic.topic_name, part.partition_index): part.error_code
        for topic in response.results
        for part in topic.partitions
    }


async def bound_copies(client: WireClient, rate: int | None) -> None:
    """Bound the copies between directories, in bytes per second."""
    config = {
        "name": "replica.alter.log.dirs.io.max.bytes.per.second",
        "config_operation": 1 if rate is None else 0,
        "value": None if rate is None else str(rate),
    }
    response: Any = await client.call(
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        resources=[{"resource_type": 4, "resource_name": "1", "configs": [config]}],
        validate_only=False,
    )
    assert response.responses[0].error_code is ErrorCode.none, response


@pytest.mark.slow
@pytest.mark.costly
@pytest.mark.parametrize("version", [1, 2])
async def test_a_replica_moves_to_another_directory_and_is_described_on_its_way(
    make_nodes: MakeNodes, tmp_path: Path, version: int
) -> None:
    first, second = str(tmp_path / "node-1"), str(tmp_path / "second")
    nodes = await make_nodes(1, {"log.dirs": f"{first},{second}"})
    async with nodes.client(1) as client:
        await create(client)
        await bound_copies(client, 1_000)
        for _ in range(4):
            await produce(client, "t", b"x" * 200_000)
        (source,) = (path for path, _, _ in replicas(await describe(client)))
        (target,) = {first, second} - {source}
        assert await move(client, (target, "t", 0), version=version) == {("t", 0): ErrorCode.none}
        await produce(client, "t", b"meanwhile")

        async def states() -> dict[str, tuple[bool, int]]:
            return {
                each.log_dir: (part.is_future_key, part.offset_lag)
                for each in (await describe(client)).results
                for topic in each.topics
                for part in topic.partitions
            }

        found = await states()
        assert found[source] == (False, 0)
        assert (found[target][0], found[target][1] > 1) == (True, True)
        await bound_copies(client, None)
        with trio.fail_after(30):
            while await states() != {target: (False, 0)}:  # noqa: ASYNC110
                await trio.sleep(0.05)
        await produce(client, "t", b"afterwards")


async def test_moves_that_can_not_be_are_refused_one_by_one(make_nodes: MakeNodes, tmp_path: Path) -> None:
    nodes = await make_nodes(2, {})
    home = str(tmp_path / "node-1")
    async with nodes.client(1) as client:
        await create(client, "here", assignments=[[1]])
        await create(client, "there", assignments=[[2]])
        assert await move(
            client,
            (home, "here", 0),
            (home, "here", 1),
            (home, "there", 0),
            (home, "nothing", 0),
            (f"{home}/elsewhere", "elsewhere", 0),
            (home, "l" * 230, 0),
        ) == {
            ("here", 0): ErrorCode.none,
            ("here", 1): ErrorCode.unknown_topic_or_partition,
            ("there", 0): ErrorCode.replica_not_available,
            ("nothing", 0): ErrorCode.unknown_topic_or_partition,
            ("elsewhere", 0): ErrorCode.log_dir_not_found,
            ("l" * 230, 0): ErrorCode.invalid_topic_exception,
        }
        # The last directory of a replica named twice counts.
        twice = await move(client, ("/nowhere", "here", 0), (home, "here", 0))
        assert twice == {("here", 0): ErrorCode.none}


async def producers(client: WireClient, topic: str, *partitions: int) -> dict[int, Any]:
    response: Any = await client.call(
        ApiKey.DESCRIBE_PRODUCERS, topics=[{"name": topic, "partition_indexes": partitions}]
    )
    assert [each.name for each in response.topics] == [topic]
    return {each.partition_index: each for each in response.topics[0].partitions}


async def test_the_idempotent_producers_of_a_replica_are_described(client: WireClient) -> None:
    await create(client, partitions=2)
    await produce(client, "t", b"a", b"b", producer=7, sequence=0)
    await produce(client, "t", b"c", producer=7, sequence=2)
    await produce(client, "t", b"d", producer=3, sequence=5)
    await produce(client, "t", b"e")
    found = await producers(client, "t", 0, 1, 2)
    assert [
        (each.producer_id, each.producer_epoch, each.last_sequence, each.current_txn_start_offset)
        for each in found[0].active_producers
    ] == [(7, 0, 2, -1), (3, 0, 5, -1)]
    assert all(each.last_timestamp > 1_600_000_000_000 for each in found[0].active_producers)
    assert (found[1].error_code, found[1].active_producers) == (ErrorCode.none, ())
    assert found[2].error_code is ErrorCode.unknown_topic_or_partition
    assert found[2].error_message
    assert (await producers(client, "nothing", 0))[0].error_code is ErrorCode.unknown_topic_or_partition
    assert (await producers(client, "a/b", 0))[0].error_code is ErrorCode.invalid_topic_exception


@pytest.mark.slow
async def test_a_broker_without_the_replica_describes_no_producers(make_nodes: MakeNodes) -> None:
    nodes = await make_nodes(3)
    async with nodes.client(1) as client:
        await create(client)
    answers = []
    for node in (1, 2, 3):
        async with nodes.client(node) as client:
            # CreateTopics waits for the leaders alone. Another broker may not know the topic yet.
            with trio.fail_after(30):
                answer = ErrorCode.unknown_topic_or_partition
                while answer is ErrorCode.unknown_topic_or_partition:
                    await trio.sleep(0.01)
                    answer = (await producers(client, "t", 0))[0].error_code
            answers.append(answer)
    assert sorted(answers) == [
        ErrorCode.none,
        ErrorCode.not_leader_or_follower,
        ErrorCode.not_leader_or_follower,
    ]


def test_every_version_that_kio_knows_is_served() -> None:
    assert {
        key: (APIS[key].min_version, APIS[key].max_version)
        for key in (
            ApiKey.DELETE_RECORDS,
            ApiKey.ALTER_REPLICA_LOG_DIRS,
            ApiKey.DESCRIBE_LOG_DIRS,
            ApiKey.DESCRIBE_PRODUCERS,
            ApiKey.ASSIGN_REPLICAS_TO_DIRS,
        )
    } == {
        ApiKey.ALTER_REPLICA_LOG_DIRS: (1, 2),
        ApiKey.ASSIGN_REPLICAS_TO_DIRS: (0, 0),
        ApiKey.DELETE_RECORDS: (0, 2),
        ApiKey.DESCRIBE_LOG_DIRS: (1, 5),
        ApiKey.DESCRIBE_PRODUCERS: (0, 0),
    }
