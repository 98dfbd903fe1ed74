"""The metrics of brokers' partitions move by as much as clients do, in three real nodes."""

import time
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import Producer
from kafka import KafkaConsumer, TopicPartition

from quorate.broker.admin.topics import create_topic
from quorate.cli.console.connections import ask_cluster
from quorate.cli.node.local_cluster import LocalCluster

pytestmark = pytest.mark.system


def metrics(cluster: LocalCluster, node: int) -> dict[str, float]:
    lines = [line for line in cluster.metrics(node).splitlines() if line.startswith(("kafka_", "quorate_"))]
    return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines)}


def wait_for(read: Callable[[], object], expected: object) -> None:
    deadline = time.monotonic() + 20
    while (seen := read()) != expected:
        assert time.monotonic() < deadline, f"expected {expected}, saw {seen}"
        time.sleep(0.1)


@pytest.mark.slow
def test_bytes_and_replicas_are_counted_where_they_are(make_cluster: Callable[..., LocalCluster]) -> None:
    cluster = make_cluster(3)
    ask_cluster(cluster.bootstrap, lambda client: create_topic(client, "t", assignment=[[1, 2, 3]]))

    def shown(name: str) -> list[float]:
        return [metrics(cluster, node)[name] for node in cluster.running()]

    replicas, topics = "kafka_server_replicamanager", "kafka_server_brokertopicmetrics"
    wait_for(lambda: shown(f"{replicas}_partitioncount"), [1, 1, 1])
    assert shown(f"{replicas}_leadercount") == [1, 0, 0]
    assert shown(f"{replicas}_underreplicatedpartitions") == [0, 0, 0]

    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all"})
    for _ in range(100):
        producer.produce("t", bytes(1000), partition=0)
    assert producer.flush(30) == 0
    log = [cluster.node(node).folder / "data" / "t-0" / f"{0:020}.log" for node in (1, 2, 3)]
    size = log[0].stat().st_size
    assert size > 100_000
    assert shown(f"{topics}_bytesin_total") == [size, 0, 0]
    wait_for(lambda: shown(f"{topics}_replicationbytesin_total"), [0, size, size])
    assert shown(f"{topics}_replicationbytesout_total") == [2 * size, 0, 0]
    assert shown(f"{topics}_bytesout_total") == [0, 0, 0]

    # Broker 1 leads the only partition, and the two others fetch it in sessions.
    cache = "kafka_server_fetchsessioncache"
    wait_for(lambda: shown(f"{cache}_numincrementalfetchsessions"), [2, 0, 0])
    assert shown(f"{cache}_numincrementalfetchpartitionscached") == [2, 0, 0]
    assert shown(f"{cache}_incrementalfetchsessionevictions_total") == [0, 0, 0]

    # Without a group, whose offsets topic would add partitions.
    consumer = KafkaConsumer(bootstrap_servers=cluster.bootstrap.split(","), consumer_timeout_ms=20_000)
    place = TopicPartition("t", 0)
    consumer.assign([place])
    consumer.seek_to_beginning(place)
    received: list[Any] = []
    while len(received) < 100:
        received.append(next(consumer))
    consumer.close()
    assert shown(f"{topics}_bytesout_total") == [size, 0, 0], "each byte went out once"

    assert shown(f"{cache}_numincrementalfetchsessions") == [3, 0, 0], "a consumer has a session too"

    cluster.kill(3)
    wait_for(lambda: shown(f"{replicas}_underreplicatedpartitions"), [1, 0])
    assert shown(f"{replicas}_isrshrinks_total") == [1, 0]
    cluster.start(3)
    cluster.wait_ready()
    wait_for(lambda: shown(f"{replicas}_underreplicatedpartitions"), [0, 0, 0])
    assert shown(f"{replicas}_isrexpands_total") == [1, 0, 0]
