"""Kafka's clients on the controller listener (KIP-919)."""

import uuid
from typing import Any

import pytest
import trio
from kio.schema.errors import ErrorCode

from quorate.broker.apis.api_table import CONTROLLER_APIS
from quorate.broker.metadata.image import MetadataImage
from quorate.broker.settings.authorizer_settings import STANDARD
from quorate.broker.wire.api import CONNECTION_APIS, ApiKey
from quorate.log.batches.batch import read_batches
from quorate.runtime.real import RealNetwork
from tests.broker.server.client_requests import create, fetch
from tests.broker.server.conftest import MakeNodes, Nodes

BROKERS, CONTROLLERS = 1, 2


async def test_every_controller_describes_the_controllers_and_the_quorum(make_nodes: MakeNodes) -> None:
    nodes = await make_nodes(3)
    leader = nodes.servers[1].quorum.leader
    for number in (1, 2, 3):
        async with nodes.controller_client(number) as client:
            cluster: Any = await client.call(ApiKey.DESCRIBE_CLUSTER, endpoint_type=CONTROLLERS)
            assert cluster.error_code is ErrorCode.none
            assert cluster.cluster_id == nodes.servers[1].cluster_id
            assert {each.broker_id: each.port for each in cluster.brokers} == {
                each: nodes.controller_address(each).port for each in (1, 2, 3)
            }
            assert cluster.controller_id == leader
            asked = [{"topic_name": "__cluster_metadata", "partitions": [{"partition_index": 0}]}]
            quorum: Any = await client.call(ApiKey.DESCRIBE_QUORUM, topics=asked)
            (partition,) = quorum.topics[0].partitions
            assert partition.leader_id == leader
            assert {each.replica_id for each in partition.current_voters} == {1, 2, 3}


async def test_a_question_about_brokers_is_refused_there(nodes: Nodes) -> None:
    async with nodes.controller_client(1) as client:
        answer: Any = await client.call(ApiKey.DESCRIBE_CLUSTER, endpoint_type=BROKERS)
        assert answer.error_code is ErrorCode.mismatched_endpoint_type
        assert "bootstrap.servers" in answer.error_message
        answer = await client.call(ApiKey.DESCRIBE_CLUSTER, endpoint_type=7)
        assert answer.error_code is ErrorCode.unsupported_endpoint_type


async def test_only_what_controllers_have_is_offered_and_the_rest_closes_the_connection(nodes: Nodes) -> None:
    async with nodes.controller_client(1) as client:
        versions: Any = await client.call(ApiKey.API_VERSIONS)
        assert {each.api_key for each in versions.api_keys} == {
            *(api.key for api in CONNECTION_APIS),
            *CONTROLLER_APIS,
        }
        assert {each.name for each in versions.supported_features} >= {"metadata.version", "kraft.version"}
    stream = await RealNetwork().connect(nodes.controller_address(1))
    with trio.fail_after(5):
        # Metadata 12 with the client id "c", of no topics.
        body = b"\x00\x03\x00\x0c\x00\x00\x00\x01\x00\x01c\x00\x01\x00\x00\x00"
        await stream.send([len(body).to_bytes(4, "big") + body])
        assert await stream.receive_some() == b"", "Metadata is the brokers'"
    stream.close()
    # The quorum's own connections are as they were.
    async with nodes.controller_client(1) as client:
        assert await client.call(ApiKey.API_VERSIONS)


async def test_every_controller_serves_the_metadata_log_and_no_other(make_nodes: MakeNodes) -> None:
    nodes = await make_nodes(2)
    async with nodes.client(1) as client:
        await create(client)
    for number in (1, 2):
        async with nodes.controller_client(number) as client:
            part = await fetch(client, "__cluster_metadata", 0)
            assert part.error is ErrorCode.none
            batches = read_batches(b"".join(part.records))
            assert next(iter(batches)).header.base_offset == 0
            other = await fetch(client, "t", 0)
            assert other.error is ErrorCode.unknown_topic_or_partition and not other.records
            asked = [
                {
                    "name": name,
                    "partitions": [{"partition_index": 0, "current_leader_epoch": -1, "timestamp": -1}],
                }
                for name in ("__cluster_metadata", "t")
            ]
            listed: Any = await client.call(ApiKey.LIST_OFFSETS, topics=asked)
            own, none = (topic.partitions[0] for topic in listed.topics)
            assert own.error_code is ErrorCode.none and own.offset >= part.high_watermark > 0
            assert (none.error_code, none.offset) == (ErrorCode.unknown_topic_or_partition, -1)
            epochs = [
                {
                    "topic": name,
                    "partitions": [{"partition": 0, "current_leader_epoch": -1, "leader_epoch": 10_000}],
                }
                for name in ("__cluster_metadata", "t")
            ]
            ends: Any = await client.call(ApiKey.OFFSET_FOR_LEADER_EPOCH, topics=epochs)
            own, none = (topic.partitions[0] for topic in ends.topics)
            assert own.error_code is ErrorCode.none
            assert (none.error_code, none.end_offset) == (ErrorCode.unknown_topic_or_partition, -1)


async def test_an_administrators_request_to_any_controller_is_carried_out(make_nodes: MakeNodes) -> None:
    nodes = await make_nodes(3)
    await nodes.stop(3)
    follower = next(each for each in (1, 2) if each != nodes.servers[1].quorum.leader)
    async with nodes.controller_client(follower) as client:
        gone: Any = await client.call(ApiKey.UNREGISTER_BROKER, broker_id=3)
    assert gone.error_code is ErrorCode.none
    with trio.fail_after(10):
        await nodes.servers[1].metadata.wait_until(lambda image: image.broker(3) is None)


async def test_a_broker_assigns_its_replicas_to_directories(nodes: Nodes) -> None:
    async with nodes.client(1) as client:
        topic_id = (await create(client, partitions=2)).topic_id
    broker = nodes.servers[1].metadata.image.broker(1)
    (home,) = broker.log_dirs
    elsewhere = uuid.UUID(int=1 << 90)

    async def assign(
        *asked: tuple[uuid.UUID, uuid.UUID, list[int]], broker_id: int = 1, epoch: int | None = None
    ) -> tuple[ErrorCode, list[ErrorCode]]:
        answer: Any = await client.call(
            ApiKey.ASSIGN_REPLICAS_TO_DIRS,
            broker_id=broker_id,
            broker_epoch=broker.epoch if epoch is None else epoch,
            directories=[
                {
                    "id_": directory,
                    "topics": [
                        {
                            "topic_id": topic,
                            "partitions": [{"partition_index": each} for each in partitions],
                        }
                    ],
                }
                for directory, topic, partitions in asked
            ],
        )
        assert [each.id_ for each in answer.directories] in ([], [each for each, _, _ in asked])
        errors = [
            part.error_code
            for directory in answer.directories
            for topic in directory.topics
            for part in topic.partitions
        ]
        return answer.error_code, errors

    async with nodes.controller_client(1) as client:
        assert await assign((home, topic_id, [0])) == (ErrorCode.none, [ErrorCode.none])
        assert (await assign((home, topic_id, [0]), epoch=7))[0] is ErrorCode.stale_broker_epoch
        assert (await assign((home, topic_id, [0]), broker_id=9))[0] is ErrorCode.broker_id_not_registered
        assert (await assign((home, topic_id, list(range(2251)))))[0] is ErrorCode.invalid_request
        assert await assign((home, uuid.UUID(int=9), [0]), (home, topic_id, [0, 0, 7])) == (
            ErrorCode.none,
            [
                ErrorCode.unknown_topic_id,
                ErrorCode.none,
                ErrorCode.invalid_request,
                ErrorCode.unknown_topic_or_partition,
            ],
        )
        # One that isn't online: the replica there can't lead. The broker knows better, and says so.
        metadata = nodes.servers[1].metadata
        before = metadata.image.partition(topic_id, 1).partition_epoch
        assert await assign((elsewhere, topic_id, [1])) == (ErrorCode.none, [ErrorCode.none])

    def corrected(image: MetadataImage) -> bool:
        state = image.partition(topic_id, 1)
        return state.partition_epoch >= before + 2 and state.directory_of(1) == home

    with trio.fail_after(10):
        await metadata.wait_until(corrected)


async def test_bytes_of_neither_protocol_are_closed_at_once(nodes: Nodes) -> None:
    for data in (
        b"GET / HTTP/1.1\r\n\r\n",
        b"\x16\x03\x01\x02\x00",
        b"\x00\x00\x00\x08\xff\xff\xff\xff" + b"\xff" * 4,
    ):
        stream = await RealNetwork().connect(nodes.controller_address(1))
        with trio.fail_after(5):
            await stream.send([data])
            assert await stream.receive_some() == b""
        stream.close()


@pytest.mark.slow
@pytest.mark.bug("etcd issue 14355")
async def test_a_controller_that_has_not_caught_up_lets_nobody_ask_what_needs_a_right(
    make_nodes: MakeNodes,
) -> None:
    nodes = await make_nodes(2, {"authorizer.class.name": STANDARD, "allow.everyone.if.no.acl.found": "true"})
    for number in (1, 2):
        await nodes.crash(number)
    await nodes.start(1)
    async with nodes.controller_client(1) as client:

        async def told() -> Any:
            answer: Any = await client.call(ApiKey.DESCRIBE_QUORUM, topics=[])
            return answer.error_code

        assert await told() is ErrorCode.cluster_authorization_failed
        await nodes.start(2)
        for _ in range(200):
            if await told() is not ErrorCode.cluster_authorization_failed:
                return
            await trio.sleep(0.05)
        pytest.fail("nobody may ask for anything")
