"""librdkafka with a client.rack reads from the follower there, and from the leader when that is gone.

The settings of brokers and consumers are those of the how-to, each with its own rack.
"""

import json
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from quorate.cli.node.local_cluster import LocalCluster
from tests.kit.clusters import running_cluster

pytestmark = pytest.mark.clients
TOPIC = "racks"
HOW_TO = Path(__file__).parents[2] / "docs" / "how-to" / "closest-replica.md"
BROKERS, CONSUMERS = re.findall(r"```properties\n(.*?)```", HOW_TO.read_text(), re.S)


def settings(block: str, rack: str) -> dict[str, str]:
    """Return the settings of a block of the page, for another rack than zone-a."""
    lines = (line.split("=", 1) for line in block.split())
    found = {key: rack if value == "zone-a" else value for key, value in lines}
    assert rack in found.values()
    return found


@pytest.fixture
def cluster_in_racks(tmp_path: Path) -> Iterator[LocalCluster]:
    """Start a cluster in which node n is in rack r<n>."""

    def put_into_racks(cluster: LocalCluster) -> None:
        for node in cluster.nodes:
            with node.config_file.open("a") as file:
                for key, value in settings(BROKERS, f"r{node.node_id}").items():
                    file.write(f"\n{key}={value}\n")

    overrides = {"min.insync.replicas": "1"}
    with running_cluster(tmp_path / "cluster", overrides=overrides, before_start=put_into_racks) as cluster:
        yield cluster


class Reader:
    """A consumer in a rack, and the broker that it reads from by its own statistics."""

    def __init__(self, bootstrap: str, rack: str) -> None:
        self.read: list[bytes] = []
        self.broker = -1
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": rack,
                **settings(CONSUMERS, rack),
                "statistics.interval.ms": 100,
                "stats_cb": self._seen,
            }
        )
        self._consumer.assign([TopicPartition(TOPIC, 0, 0)])

    def _seen(self, text: str) -> None:
        partitions = json.loads(text)["topics"].get(TOPIC, {}).get("partitions", {})
        self.broker = partitions.get("0", {}).get("broker", -1)

    def until(self, condition: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + 30
        while not condition():
            assert time.monotonic() < deadline, (
                f"{what}: it reads from {self.broker}, {len(self.read)} records"
            )
            message = self._consumer.poll(0.1)
            if message is not None and message.error() is None:
                self.read.append(message.value() or b"")

    def close(self) -> None:
        self._consumer.close()


@pytest.mark.slow
def test_a_consumer_reads_from_its_rack_and_from_the_leader_when_that_replica_dies(
    cluster_in_racks: LocalCluster,
) -> None:
    cluster = cluster_in_racks
    bootstrap = cluster.bootstrap
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(TOPIC, 1, replica_assignment=[[1, 2, 3]])])[TOPIC].result(timeout=30)
    producer = Producer({"bootstrap.servers": bootstrap})
    sent: list[bytes] = []

    def send(count: int) -> None:
        for _ in range(count):
            sent.append(str(len(sent)).encode())
            producer.produce(TOPIC, sent[-1], partition=0)
        assert producer.flush(30) == 0

    readers = {rack: Reader(bootstrap, rack) for rack in ("r1", "r2", "elsewhere")}
    try:
        for rack, broker in (("r1", 1), ("r2", 2), ("elsewhere", 1)):
            reader = readers[rack]
            send(20)
            reader.until(lambda: reader.broker == broker, f"the rack {rack}")  # noqa: B023
            send(20)
            reader.until(lambda: len(reader.read) >= len(sent), "everything")  # noqa: B023
            assert (reader.read, reader.broker) == (sent, broker)
        cluster.kill(2)
        send(20)
        reader = readers["r2"]
        reader.until(lambda: len(reader.read) >= len(sent), "everything without the follower")
        reader.until(lambda: reader.broker == 1, "the leader")
        assert reader.read == sent
    finally:
        for each in readers.values():
            each.close()
