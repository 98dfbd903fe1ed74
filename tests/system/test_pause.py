"""SIGSTOP of a leader for longer than every timeout, then SIGCONT (Kafka's zombie leader), real processes."""

import signal
import time
from collections.abc import Callable
from typing import Any

import pytest

from quorate.cli.local_cluster import LocalCluster

pytestmark = pytest.mark.system

PAUSE_SECONDS = 6.0
"""Longer than the fetch timeout (2 s), the broker session (3 s here) and an election together."""


def leader_of(cluster: LocalCluster, topic: str, *, on: int | None = None) -> int:
    partitions: Any = cluster.describe_topic(topic)["partitions"]
    return int(partitions[0]["leader"])


def test_a_paused_partition_leader_acknowledges_nothing_that_was_sent_after_the_pause_began(
    make_cluster: Callable[..., LocalCluster], load: Callable[..., Any], topic_maker: Callable[..., None]
) -> None:
    cluster = make_cluster(3, min_insync_replicas="2")
    topic_maker(cluster.bootstrap, "load")
    running = load(cluster.bootstrap, "load").start()
    try:
        running.wait_acknowledged(500)
        paused = leader_of(cluster, "load")
        cluster.signal(paused, signal.SIGSTOP)
        paused_at = time.monotonic()
        time.sleep(PAUSE_SECONDS)
        # Only who runs can be asked: the paused one would keep us waiting.
        before = running.count()
        running.wait_acknowledged(500)
        assert running.count() > before, "the others went on without the paused leader"
        cluster.signal(paused, signal.SIGCONT)
        running.wait_acknowledged(500)
    finally:
        cluster.signal(paused, signal.SIGCONT)
        running.stop()
    assert leader_of(cluster, "load") != paused or time.monotonic() - paused_at > PAUSE_SECONDS
    running.check()


def test_a_paused_active_controller_is_replaced_and_its_late_answers_hold(
    make_cluster: Callable[..., LocalCluster], topic_maker: Callable[..., None]
) -> None:
    cluster = make_cluster(3)
    created: list[str] = []
    topic_maker(cluster.bootstrap, "before", partitions=1)
    created.append("before")
    paused = int(str(cluster.describe_quorum()["leaderId"]))
    epoch = int(str(cluster.describe_quorum()["leaderEpoch"]))
    others = ",".join(
        f"{cluster.host}:{node.client_port}" for node in cluster.nodes if node.node_id != paused
    )
    cluster.signal(paused, signal.SIGSTOP)
    try:
        deadline = time.monotonic() + 20
        while True:
            try:
                topic_maker(others, f"during-{len(created)}")
                created.append(f"during-{len(created)}")
            except Exception as error:
                assert time.monotonic() < deadline, f"no controller took over: {error}"
            if len(created) >= 4 and time.monotonic() > deadline - 20 + PAUSE_SECONDS:
                break
    finally:
        cluster.signal(paused, signal.SIGCONT)
    topic_maker(cluster.bootstrap, "after")
    created.append("after")
    described = cluster.describe_quorum()
    assert int(str(described["leaderEpoch"])) > epoch
    for topic in created:
        assert cluster.describe_topic(topic)["name"] == topic
