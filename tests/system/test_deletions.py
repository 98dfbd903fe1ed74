"""DeleteRecords and kill -9 of the leader right after the answer, real processes."""

import random
import time
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from quorate.cli.local_cluster import LocalCluster

pytestmark = pytest.mark.system

ROUNDS = 4
RECORDS = 100


def fill(cluster: LocalCluster, topic: str) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all", "linger.ms": 0})
    for number in range(RECORDS):
        producer.produce(topic, b"%d" % number, partition=0)
    assert producer.flush(60) == 0


def leader_of(cluster: LocalCluster, topic: str) -> int:
    partitions: Any = cluster.describe_topic(topic)["partitions"]
    return int(partitions[0]["leader"])


def range_of(cluster: LocalCluster, topic: str, *, seconds: float = 60) -> tuple[int, int]:
    """Log start and high watermark, as the leader of the moment answers them."""
    deadline = time.monotonic() + seconds
    while True:
        consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "none"})
        try:
            start, end = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=5)
            return int(start), int(end)
        except KafkaException:
            assert time.monotonic() < deadline
        finally:
            consumer.close()


def test_what_was_deleted_stays_deleted_when_the_leader_is_killed_after_the_answer(
    make_cluster: Callable[..., LocalCluster],
    topic_maker: Callable[..., None],
    in_sync: Callable[..., None],
) -> None:
    draw = random.Random(7)
    cluster = make_cluster(3, min_insync_replicas="2")
    topic_maker(cluster.bootstrap, "deleted")
    answered = 0
    for number in range(1, ROUNDS + 1):
        in_sync(cluster, "deleted")
        fill(cluster, "deleted")
        offset = draw.randint(answered, number * RECORDS)
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
        leader = leader_of(cluster, "deleted")
        (future,) = admin.delete_records([TopicPartition("deleted", 0, offset)]).values()
        answered = int(future.result(timeout=60).low_watermark)
        cluster.kill(leader)
        assert answered >= offset
        start, end = range_of(cluster, "deleted")
        assert leader_of(cluster, "deleted") != leader
        assert (start, end) == (answered, number * RECORDS), f"round {number}, node {leader} killed"
        cluster.start(leader)
        cluster.wait_ready(seconds=60)
    in_sync(cluster, "deleted")
    for node in (1, 2, 3):
        cluster.kill(node)
    cluster.start()
    cluster.wait_ready(seconds=60)
    in_sync(cluster, "deleted")
    assert range_of(cluster, "deleted") == (answered, ROUNDS * RECORDS)
