"""Real brokers under each fault that a test can ask for."""

import time

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource
from kafka import KafkaConsumer

from quorate.testing import ClusterError, ClusterPool, KafkaCluster, StartKafkaCluster

pytestmark = pytest.mark.system

SEGMENT_BYTES = ConfigEntry("log.segment.bytes", "1048576", incremental_operation=AlterConfigOpType.SET)


def produce(cluster: KafkaCluster, topic: str, value: bytes, *, seconds: float = 60.0) -> None:
    """Send a record with acks=all, and check that it was acknowledged."""
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "acks": "all"})
    errors: list[object] = []
    producer.produce(topic, value, on_delivery=lambda error, _: errors.append(error))
    producer.flush(seconds)
    assert errors == [None], f"not acknowledged: {errors}"


def consume(cluster: KafkaCluster, topic: str, count: int, *, group: str = "readers") -> list[bytes]:
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "group.id": group,
            "auto.offset.reset": "earliest",
        }
    )
    consumer.subscribe([topic])
    try:
        received = consumer.consume(count, timeout=60)
    finally:
        consumer.close()
    return [each.value() for each in received]


@pytest.mark.slow
def test_a_killed_leader_is_replaced_and_comes_back_with_its_data(kafka_cluster: StartKafkaCluster) -> None:
    cluster = kafka_cluster(3)
    cluster.create_topic("orders")
    produce(cluster, "orders", b"before")
    leader = cluster.leader("orders")
    cluster.kill(leader)
    assert cluster.leader("orders") != leader
    produce(cluster, "orders", b"after")
    assert f"node {leader} at {cluster.address(leader)}: ended with code -9" in cluster.describe()
    cluster.restart(leader)
    cluster.wait_isr("orders", 0, {1, 2, 3})
    assert consume(cluster, "orders", 2) == [b"before", b"after"]


@pytest.mark.slow
def test_a_leader_on_the_small_side_is_replaced_and_clients_reach_both_sides(
    kafka_cluster: StartKafkaCluster,
) -> None:
    cluster = kafka_cluster(3)
    cluster.create_topic("orders")
    leader = cluster.leader("orders")
    others = {1, 2, 3} - {leader}
    cluster.partition({leader}, others)
    successor = cluster.leader("orders")
    assert successor in others
    assert cluster.active_controller() in others
    cluster.wait_isr("orders", 0, others)
    assert f"node {leader} at {cluster.address(leader)}: runs; cut off from" in cluster.describe()
    assert f"leader {successor}" not in cluster.describe_as(leader), "it can't know its successor"
    produce(cluster, "orders", b"during")
    cluster.heal()
    cluster.wait_isr("orders")
    assert f"leader {successor}" in cluster.describe_as(leader)
    assert consume(cluster, "orders", 1) == [b"during"]


@pytest.mark.slow
def test_a_paused_node_leaves_the_isr_and_returns_when_it_is_resumed(
    kafka_cluster: StartKafkaCluster,
) -> None:
    cluster = kafka_cluster(3, config={"replica.lag.time.max.ms": "1000"})
    cluster.create_topic("orders")
    cluster.pause(2)
    assert "paused" in cluster.describe()
    cluster.wait_isr("orders", 0, {1, 3})
    cluster.partition({2}, {1, 3})
    cluster.resume(2)
    with pytest.raises(ClusterError, match=r"not within 0\.5 s: .*orders-0 has the ISR \[1, 3\]"):
        cluster.wait_isr("orders", seconds=0.5)
    cluster.heal()
    cluster.wait_isr("orders")


@pytest.mark.slow
def test_slow_disks_delay_what_must_be_durable(kafka_cluster: StartKafkaCluster) -> None:
    """A topic is created when a majority of the quorum has synced its record."""
    cluster = kafka_cluster(3)
    cluster.slow_disk(1, 2, 3, sync_ms=700)
    started = time.monotonic()
    cluster.create_topic("slow")
    assert time.monotonic() - started >= 0.7
    assert "syncs take 700 ms" in cluster.describe()


@pytest.mark.slow
def test_a_broker_with_a_full_disk_leaves_the_isr_and_returns_after_heal_and_restart(
    kafka_cluster: StartKafkaCluster,
) -> None:
    cluster = kafka_cluster(3)
    cluster.create_topic("orders")
    full = next(node for node in (1, 2, 3) if node != cluster.leader("orders"))
    cluster.fill_disk(full)
    produce(cluster, "orders", b"large enough to need room")
    cluster.wait_isr("orders", 0, {1, 2, 3} - {full})
    assert "no space left on the device" in cluster.log(full)
    cluster.heal()
    cluster.restart(full)
    cluster.wait_isr("orders")


@pytest.mark.slow
def test_a_used_cluster_is_as_new_for_the_next_test() -> None:
    pool = ClusterPool()
    try:
        first = pool.lend(1)
        first.create_topic("orders", partitions=2)
        produce(first, "orders", b"of the first test")
        assert consume(first, "orders", 1) == [b"of the first test"]
        servers, identity = first.bootstrap_servers, first.cluster_id
        pool.take_back(first)
        second = pool.lend(1)
        assert (second.bootstrap_servers, second.cluster_id) == (servers, identity), "the same nodes serve on"
        assert "orders" not in second.describe()
        second.create_topic("orders")
        produce(second, "orders", b"of the second test")
        assert consume(second, "orders", 1) == [b"of the second test"], "neither records nor offsets are left"
        second.kill(1)
        pool.take_back(second)
        third = pool.lend(1)
        assert third.cluster_id != identity, "a cluster that was disturbed is not used again"
    finally:
        pool.close()


def change_a_setting(cluster: KafkaCluster) -> None:
    resource = ConfigResource(ConfigResource.Type.BROKER, "1", incremental_configs=[SEGMENT_BYTES])
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    admin.incremental_alter_configs([resource])[resource].result(timeout=60)


@pytest.mark.slow
@pytest.mark.parametrize("left", ["member", "setting"])
def test_a_cluster_that_has_something_left_is_not_used_again(left: str) -> None:
    pool = ClusterPool()
    member: KafkaConsumer | None = None
    try:
        first = pool.lend(1)
        first.create_topic("orders")
        produce(first, "orders", b"record")
        if left == "member":
            member = KafkaConsumer(
                "orders",
                bootstrap_servers=first.bootstrap_servers,
                group_id="readers",
                auto_offset_reset="earliest",
            )
            assert member.poll(timeout_ms=60_000), "it is a member of its group now"
        else:
            change_a_setting(first)
        identity = first.cluster_id
        pool.take_back(first)
        assert pool.lend(1).cluster_id != identity
    finally:
        if member is not None:
            # Its cluster is gone, so it can't leave its group.
            member.close(autocommit=False, timeout_ms=0)
        pool.close()


def test_a_node_that_ends_at_its_start_is_named_with_the_end_of_its_log(
    kafka_cluster: StartKafkaCluster,
) -> None:
    cluster = kafka_cluster(1)
    cluster.kill(1)
    (cluster.folder(1) / "data" / "meta.properties").write_text("damaged")
    with pytest.raises(ClusterError, match=r"node 1 ended with code 4\. Its log ends:\n[\s\S]*meta\.prop"):
        cluster.restart(1)


def test_mistakes_are_named(kafka_cluster: StartKafkaCluster) -> None:
    cluster = kafka_cluster(1)
    with pytest.raises(ClusterError, match="there is no node 4; the nodes are 1"):
        cluster.kill(4)
    with pytest.raises(ClusterError, match="a node is on two sides"):
        cluster.partition({1}, {1})
    with pytest.raises(ClusterError, match="topic orders"):
        cluster.isr("orders")
    cluster.kill(1)
    with pytest.raises(ClusterError, match="no node runs; start one with restart"):
        cluster.leader("orders")
    with pytest.raises(ClusterError, match="node 1 does not run"):
        cluster.pause(1)
    with pytest.raises(ClusterError, match=r"no\.such\.key"):
        kafka_cluster(1, config={"no.such.key": "1"})
