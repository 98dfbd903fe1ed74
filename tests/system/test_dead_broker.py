"""A broker that is killed is fenced at once, a stopped one when its session has run out: real processes."""

import time

import pytest
from confluent_kafka import Producer

from quorate.testing import KafkaCluster, StartKafkaCluster

pytestmark = [pytest.mark.system, pytest.mark.slow]

SESSION_S = 9.0
HEARTBEAT_S = 2.0
KAFKAS = {"broker.session.timeout.ms": "9000", "broker.heartbeat.interval.ms": "2000"}
"""Defaults of Kafka, where local clusters have shorter ones."""
FAR_BELOW_THE_SESSION_S = 4.0
"""It takes some tenths of a second, on a machine with nothing else to do."""
TOPIC = "led"


def make_lead(cluster: KafkaCluster, victim: int) -> None:
    """Create a topic that `victim` leads."""
    others = [node for node in cluster.nodes if node != victim]
    cluster.create_topic(TOPIC, assignment=[[victim, *others]])


def says(cluster: KafkaCluster, event: str) -> int:
    return sum(cluster.log(node).count(event) for node in cluster.nodes)


@pytest.mark.parametrize("also_controller", [False, True])
def test_kill_9_of_a_leader_costs_a_producer_far_less_than_a_session(
    kafka_cluster: StartKafkaCluster, also_controller: bool
) -> None:
    cluster = kafka_cluster(3, config=KAFKAS)
    active = cluster.active_controller()
    victim = active if also_controller else next(node for node in cluster.nodes if node != active)
    make_lead(cluster, victim)
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "acks": "all"})
    producer.produce(TOPIC, b"before")
    assert producer.flush(30) == 0
    cluster.kill(victim)
    killed_at = time.monotonic()
    producer.produce(TOPIC, b"after")
    assert producer.flush(30) == 0
    assert time.monotonic() - killed_at < FAR_BELOW_THE_SESSION_S
    cluster.leader(TOPIC, seconds=1)  # raises while the killed one is said to lead
    assert says(cluster, "fencing a broker whose process is gone") == 1
    # Nobody waits for the session of the life before, either.
    started_at = time.monotonic()
    cluster.restart(victim)
    assert time.monotonic() - started_at < SESSION_S - HEARTBEAT_S


def test_a_leader_that_is_stopped_leads_until_its_session_has_run_out(
    kafka_cluster: StartKafkaCluster,
) -> None:
    cluster = kafka_cluster(3, config=KAFKAS)
    active = cluster.active_controller()
    victim = next(node for node in cluster.nodes if node != active)
    make_lead(cluster, victim)
    cluster.pause(victim)
    stopped_at = time.monotonic()
    cluster.leader(TOPIC, seconds=60)  # returns when another one leads
    assert time.monotonic() - stopped_at > SESSION_S - HEARTBEAT_S - 0.5
    assert says(cluster, "fencing a broker that went silent") == 1
    assert says(cluster, "fencing a broker whose process is gone") == 0
