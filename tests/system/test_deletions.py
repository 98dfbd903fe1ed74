"""DeleteRecords, DeleteGroups and OffsetDelete, and kill -9 of the node that answered right after that."""

import random
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import pytest
import trio
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from kio.schema.errors import ErrorCode

from quorate.broker.admin.admin_client import open_admin
from quorate.broker.wire.api import ApiKey
from quorate.broker.wire.kafka_client import WireClient, open_client
from quorate.broker.wire.wire_errors import KafkaError
from quorate.cli.console.connections import parse_addresses
from quorate.runtime.network import Address, NetworkError
from quorate.runtime.real import RealNetwork
from quorate.testing import KafkaCluster, StartKafkaCluster

pytestmark = pytest.mark.system

ROUNDS = 4
RECORDS = 100
OFFSETS_PARTITIONS = 3
SAFE = {"min.insync.replicas": "2"}


def wait_offsets_in_sync(cluster: KafkaCluster) -> None:
    for partition in range(OFFSETS_PARTITIONS):
        cluster.wait_isr("__consumer_offsets", partition, seconds=60)


def fill(cluster: KafkaCluster, topic: str) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "acks": "all", "linger.ms": 0})
    for number in range(RECORDS):
        producer.produce(topic, b"%d" % number, partition=0)
    assert producer.flush(60) == 0


def range_of(cluster: KafkaCluster, topic: str, *, seconds: float = 60) -> tuple[int, int]:
    """Return the log start and the high watermark, as the leader of the moment answers them."""
    deadline = time.monotonic() + seconds
    while True:
        consumer = Consumer({"bootstrap.servers": cluster.bootstrap_servers, "group.id": "none"})
        try:
            start, end = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=5)
            return int(start), int(end)
        except KafkaException:
            assert time.monotonic() < deadline
        finally:
            consumer.close()


@pytest.mark.slow
def test_deleted_records_stay_deleted_when_the_leader_is_killed_after_the_answer(
    kafka_cluster: StartKafkaCluster,
) -> None:
    draw = random.Random(7)
    cluster = kafka_cluster(3, config=SAFE)
    cluster.create_topic("deleted")
    answered = 0
    for number in range(1, ROUNDS + 1):
        cluster.wait_isr("deleted")
        fill(cluster, "deleted")
        offset = draw.randint(answered, number * RECORDS)
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
        leader = cluster.leader("deleted")
        (future,) = admin.delete_records([TopicPartition("deleted", 0, offset)]).values()
        answered = int(future.result(timeout=60).low_watermark)
        cluster.kill(leader)
        assert answered >= offset
        start, end = range_of(cluster, "deleted")
        cluster.leader("deleted", seconds=1)  # raises while the killed one is said to lead
        assert (start, end) == (answered, number * RECORDS), f"round {number}, node {leader} killed"
        cluster.restart(leader)
    cluster.wait_isr("deleted")
    cluster.kill(*cluster.nodes)
    cluster.restart(*cluster.nodes)
    cluster.wait_isr("deleted")
    assert range_of(cluster, "deleted") == (answered, ROUNDS * RECORDS)


GROUPS = 12


@pytest.mark.slow
def test_deleted_groups_and_offsets_stay_deleted_when_the_coordinator_is_killed_after_the_answer(
    kafka_cluster: StartKafkaCluster,
) -> None:
    """One round uses DeleteGroups, the next OffsetDelete. Half of the groups are left alone."""
    cluster = kafka_cluster(3, config=SAFE | {"offsets.topic.num.partitions": str(OFFSETS_PARTITIONS)})
    cluster.create_topic("t")
    cluster.wait_isr("t")
    for number, delete in enumerate((delete_group, delete_offset)):
        names = [f"{delete.__name__}-{each}" for each in range(GROUPS)]
        for name in names:
            at_coordinator(cluster, name, commit)
        wait_offsets_in_sync(cluster)
        victim = coordinator_of(cluster, names[0])
        gone = [name for name in names[::2] if coordinator_of(cluster, name) == victim]
        assert gone
        for name in gone:
            at_coordinator(cluster, name, delete)
        cluster.kill(victim)
        for name in names:
            held = at_coordinator(cluster, name, committed)
            assert held == (-1 if name in gone else 7), f"round {number}, node {victim} killed: {name}"
        cluster.restart(victim)
        wait_offsets_in_sync(cluster)


Asked = Callable[[WireClient, str], Awaitable[tuple[ErrorCode, int]]]


async def commit(client: WireClient, group: str) -> tuple[ErrorCode, int]:
    part = {"partition_index": 0, "committed_offset": 7, "committed_metadata": ""}
    topics = [{"name": "t", "partitions": [part]}]
    answer: Any = await client.call(
        ApiKey.OFFSET_COMMIT, at_most=8, group_id=group, member_id="", topics=topics
    )
    return answer.topics[0].partitions[0].error_code, 7


async def committed(client: WireClient, group: str) -> tuple[ErrorCode, int]:
    topics = [{"name": "t", "partition_indexes": (0,)}]
    answer: Any = await client.call(
        ApiKey.OFFSET_FETCH, at_most=7, group_id=group, topics=topics, require_stable=False
    )
    if answer.error_code is not ErrorCode.none:
        return answer.error_code, -1
    return ErrorCode.none, int(answer.topics[0].partitions[0].committed_offset)


async def delete_group(client: WireClient, group: str) -> tuple[ErrorCode, int]:
    answer: Any = await client.call(ApiKey.DELETE_GROUPS, groups_names=(group,))
    return answer.results[0].error_code, -1


async def delete_offset(client: WireClient, group: str) -> tuple[ErrorCode, int]:
    topics = [{"name": "t", "partitions": [{"partition_index": 0}]}]
    answer: Any = await client.call(ApiKey.OFFSET_DELETE, group_id=group, topics=topics)
    return answer.error_code, -1


def coordinator_of(cluster: KafkaCluster, group: str) -> int:
    return trio.run(_find, cluster, group)[0]


def at_coordinator(cluster: KafkaCluster, group: str, ask: Asked) -> int:
    """Return the answer of the group's coordinator, once one has it."""

    async def main() -> int:
        while True:
            with suppress(NetworkError, KafkaError):
                _, address = await _find(cluster, group)
                async with open_client(RealNetwork(), address, timeout_s=5) as client:
                    error, answer = await ask(client, group)
                if error is ErrorCode.none:
                    return answer
            await trio.sleep(0.05)

    async def limited() -> int:
        with trio.fail_after(60):
            return await main()

    return trio.run(limited)


async def _find(cluster: KafkaCluster, group: str) -> tuple[int, Address]:
    with trio.fail_after(60):
        while True:
            with suppress(NetworkError, KafkaError):
                async with open_admin(RealNetwork(), parse_addresses(cluster.bootstrap_servers)) as admin:
                    found: Any = await admin.call(ApiKey.FIND_COORDINATOR, coordinator_keys=(group,))
                (one,) = found.coordinators
                if one.error_code is ErrorCode.none:
                    return int(one.node_id), Address(one.host, one.port)
            await trio.sleep(0.05)
