"""A broker that is killed is fenced at once, a stopped one when its session has run out: real processes."""

import time
from collections.abc import Callable

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from quorate.broker.admin.topics import describe_topics
from quorate.cli.console.connections import ask_cluster
from quorate.cli.node.local_cluster import LocalCluster
from tests.system.loads import freeze

pytestmark = [pytest.mark.system, pytest.mark.slow]

SESSION_S = 9.0
HEARTBEAT_S = 2.0
KAFKAS = {"broker_session_timeout_ms": "9000", "broker_heartbeat_interval_ms": "2000"}
"""Defaults of Kafka, where `LocalCluster` has shorter ones."""
FAR_BELOW_THE_SESSION_S = 4.0
"""It takes some tenths of a second, on a machine with nothing else to do."""


def leads(cluster: LocalCluster, asked: int, topic: str) -> int:
    """Return the leader of the topic's only partition, as that node has it."""
    address = f"{cluster.host}:{cluster.node(asked).client_port}"
    return int(ask_cluster(address, lambda client: describe_topics(client, topic))[0].partitions[0].leader_id)


def led_by(cluster: LocalCluster, leader: int) -> tuple[str, list[int]]:
    """Create a topic that `leader` leads. Return it and the other nodes."""
    others = [node.node_id for node in cluster.nodes if node.node_id != leader]
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    topic = NewTopic("led", num_partitions=1, replica_assignment=[[leader, *others]])
    admin.create_topics([topic])["led"].result(timeout=30)
    return "led", others


def seconds_until_led_by_another(cluster: LocalCluster, asked: int, topic: str, old: int) -> float:
    began = time.monotonic()
    while leads(cluster, asked, topic) == old:
        assert time.monotonic() - began < 60
        time.sleep(0.02)
    return time.monotonic() - began


def controller_of(cluster: LocalCluster) -> int:
    return int(str(cluster.describe_quorum()["leaderId"]))


def says(cluster: LocalCluster, event: str) -> int:
    return sum(node.log_file.read_text().count(event) for node in cluster.nodes)


@pytest.mark.parametrize("also_controller", [False, True])
def test_kill_9_of_a_leader_costs_a_producer_far_less_than_a_session(
    make_cluster: Callable[..., LocalCluster], also_controller: bool
) -> None:
    cluster = make_cluster(3, **KAFKAS)
    active = controller_of(cluster)
    victim = active if also_controller else next(n.node_id for n in cluster.nodes if n.node_id != active)
    topic, others = led_by(cluster, victim)
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all"})
    producer.produce(topic, b"before")
    assert producer.flush(30) == 0
    cluster.kill(victim)
    killed_at = time.monotonic()
    producer.produce(topic, b"after")
    assert producer.flush(30) == 0
    assert time.monotonic() - killed_at < FAR_BELOW_THE_SESSION_S
    assert seconds_until_led_by_another(cluster, others[0], topic, victim) < 1
    assert says(cluster, "fencing a broker whose process is gone") == 1
    # Nobody waits for the session of the life before, either.
    cluster.start(victim)
    started_at = time.monotonic()
    cluster.wait_ready()
    assert time.monotonic() - started_at < SESSION_S - HEARTBEAT_S


def test_a_leader_that_is_stopped_leads_until_its_session_has_run_out(
    make_cluster: Callable[..., LocalCluster],
) -> None:
    cluster = make_cluster(3, **KAFKAS)
    active = controller_of(cluster)
    victim = next(node.node_id for node in cluster.nodes if node.node_id != active)
    topic, _ = led_by(cluster, victim)
    stopped_at = freeze(cluster, victim)
    seconds_until_led_by_another(cluster, active, topic, victim)
    assert time.monotonic() - stopped_at > SESSION_S - HEARTBEAT_S - 0.5
    assert says(cluster, "fencing a broker that went silent") == 1
    assert says(cluster, "fencing a broker whose process is gone") == 0
