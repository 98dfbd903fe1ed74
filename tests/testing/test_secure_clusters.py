"""Clusters with TLS, passwords and ACLs in a test: stock clients, faults between nodes, and the next test."""

import asyncio
import time

import pytest
from aiokafka import AIOKafkaProducer
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient
from kafka import KafkaConsumer

from quorate.testing import ClientLogin, ClusterError, ClusterPool, KafkaCluster, StartKafkaCluster

pytestmark = [pytest.mark.system, pytest.mark.slow]


def produced(login: ClientLogin, topic: str, value: bytes, *, seconds: float = 60.0) -> object:
    """Send a record with acks=all, and return its error."""
    producer = Producer({**login.librdkafka(), "acks": "all", "message.timeout.ms": int(seconds * 1000)})
    errors: list[object] = []
    producer.produce(topic, value, on_delivery=lambda error, _: errors.append(error and error.name()))
    producer.flush(seconds + 5)
    return errors[0]


def test_each_stock_client_of_python_takes_the_login_as_it_is(kafka_cluster: StartKafkaCluster) -> None:
    cluster = kafka_cluster(3, secure=True)
    cluster.create_topic("orders")
    alice, bob = cluster.add_user("alice"), cluster.add_user("bob", 'bob\'s "own" \\ password')
    cluster.allow("alice", "write", topic="orders")
    cluster.allow("bob", "read", "write", topic="orders", group="readers")
    assert produced(alice, "orders", b"by librdkafka") is None

    async def produce() -> None:
        async with AIOKafkaProducer(**bob.aiokafka(), acks="all") as producer:
            await producer.send_and_wait("orders", b"by aiokafka")

    asyncio.run(produce())
    consumer = KafkaConsumer("orders", **bob.kafka_python(), group_id="readers", auto_offset_reset="earliest")
    try:
        received = [next(consumer).value for _ in range(2)]
    finally:
        consumer.close()
    assert received == [b"by librdkafka", b"by aiokafka"]


def test_a_user_may_do_only_what_it_was_allowed(kafka_cluster: StartKafkaCluster) -> None:
    cluster = kafka_cluster(1, secure=True)
    cluster.create_topic("orders")
    alice = cluster.add_user("alice")
    assert produced(alice, "orders", b"", seconds=5) == "TOPIC_AUTHORIZATION_FAILED"
    cluster.allow("alice", "write", topic="orders")
    assert produced(alice, "orders", b"") is None
    assert produced(cluster.super_user, "orders", b"") is None


def test_without_its_password_a_client_gets_nothing(kafka_cluster: StartKafkaCluster) -> None:
    cluster = kafka_cluster(1, secure=True)
    stranger = {**cluster.super_user.librdkafka(), "sasl.password": "guessed", "log_level": "0"}
    with pytest.raises(KafkaException, match=r"_TRANSPORT|_TIMED_OUT"):
        AdminClient(stranger).list_topics(timeout=5)
    open_client = {"bootstrap.servers": cluster.bootstrap_servers, "log_level": "0"}
    with pytest.raises(KafkaException, match=r"_TRANSPORT|_TIMED_OUT"):
        AdminClient(open_client).list_topics(timeout=3)


def test_the_ways_between_nodes_are_cut_also_with_tls(kafka_cluster: StartKafkaCluster) -> None:
    cluster = kafka_cluster(3, secure=True)
    cluster.create_topic("orders")
    leader = cluster.leader("orders")
    others = {1, 2, 3} - {leader}
    cluster.partition({leader}, others)
    assert cluster.leader("orders") in others
    assert cluster.active_controller() in others
    assert produced(cluster.super_user, "orders", b"during") is None
    assert f"leader {cluster.leader('orders')}" not in cluster.describe_as(leader), "it can't know"
    cluster.heal()
    cluster.wait_isr("orders")
    cluster.kill(leader)
    cluster.restart(leader)
    cluster.wait_isr("orders")


def test_a_used_secure_cluster_is_as_new_for_the_next_test() -> None:
    pool = ClusterPool()
    try:
        first = pool.lend(1, secure=True)
        first.create_topic("orders")
        alice = first.add_user("alice")
        first.allow("alice", "write", topic="orders")
        assert produced(alice, "orders", b"") is None
        identity = first.cluster_id
        pool.take_back(first)
        assert pool.lend(1).cluster_id != identity, "an open cluster is another one"
        second = pool.lend(1, secure=True)
        assert second.cluster_id == identity, "the same nodes serve on"
        second.create_topic("orders")
        assert produced(alice, "orders", b"", seconds=3) != None, "its password is gone"  # noqa: E711
        second.add_user("alice", alice.password)
        assert produced(alice, "orders", b"", seconds=5) == "TOPIC_AUTHORIZATION_FAILED", "its ACL is gone"
        second.add_user("admin", "another password")
        pool.take_back(second)
        assert pool.lend(1, secure=True).cluster_id != identity, "the super user has another password"
    finally:
        pool.close()


def test_mistakes_are_named(kafka_cluster: StartKafkaCluster) -> None:
    cluster = kafka_cluster(1, secure=True)
    with pytest.raises(ClusterError, match=r"'fly',\): the operations are all, read"):
        cluster.allow("alice", "fly", topic="orders")
    with pytest.raises(ClusterError, match="name operations, and the topic or the group"):
        cluster.allow("alice", "read")
    plain = kafka_cluster(1)
    for act in (lambda: plain.add_user("alice"), lambda: plain.allow("alice", "read", topic="t")):
        with pytest.raises(ClusterError, match="this cluster is open and has no users"):
            act()
    with pytest.raises(ClusterError, match="secure=True"):
        _ = plain.super_user


@pytest.mark.bug("CVE-2026-24308")
def test_the_password_is_in_no_repr_and_in_no_log(kafka_cluster: StartKafkaCluster) -> None:
    cluster: KafkaCluster = kafka_cluster(1, secure=True)
    login = cluster.add_user("alice", "alices-own-password")
    assert "alices-own-password" not in repr(login)
    assert produced(login, "nothing", b"", seconds=2) is not None
    time.sleep(0.1)
    assert "alices-own-password" not in cluster.log(1)
