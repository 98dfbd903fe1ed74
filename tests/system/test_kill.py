"""kill -9 under load, real processes."""

import random
import time
from collections.abc import Callable
from typing import Any

import pytest

from quorate.cli.local_cluster import LocalCluster

pytestmark = pytest.mark.system

ACKNOWLEDGEMENTS_BETWEEN = 500


def victims(cluster: LocalCluster, round_number: int, draw: random.Random) -> list[int]:
    """A third of the rounds the quorum leader, a third a partition leader, the rest two nodes at once."""
    kind = round_number % 3
    if kind == 0:
        return [int(str(cluster.describe_quorum()["leaderId"]))]
    if kind == 1:
        partitions: Any = cluster.describe_topic("load")["partitions"]
        return [int(draw.choice(partitions)["leader"])]
    return draw.sample([node.node_id for node in cluster.nodes], 2)


def wait_in_sync(cluster: LocalCluster, topic: str, *, seconds: float = 60.0) -> None:
    """All replicas are in sync again, so that the next kill finds a whole cluster."""
    deadline = time.monotonic() + seconds
    while True:
        partitions: Any = cluster.describe_topic(topic)["partitions"]
        if all(sorted(partition["isr"]) == sorted(partition["replicas"]) for partition in partitions):
            return
        assert time.monotonic() < deadline, f"not in sync within {seconds} s: {partitions}"
        time.sleep(0.1)


def test_after_kill_9_under_load_every_acknowledged_record_is_there_once_and_in_order(
    make_cluster: Callable[..., LocalCluster],
    load: Callable[..., Any],
    topic_maker: Callable[..., None],
    request: pytest.FixtureRequest,
) -> None:
    rounds: int = request.config.getoption("--rounds")
    draw = random.Random(rounds)
    cluster = make_cluster(3, min_insync_replicas="2")
    topic_maker(cluster.bootstrap, "load", partitions=3)
    running = load(cluster.bootstrap, "load", partitions=3).start()
    try:
        for number in range(rounds):
            running.wait_acknowledged(ACKNOWLEDGEMENTS_BETWEEN)
            killed = victims(cluster, number, draw)
            started = time.monotonic()
            for node in killed:
                cluster.kill(node)
            if len(killed) == 1:
                running.wait_acknowledged(1)
            gap = time.monotonic() - started
            time.sleep(draw.uniform(0, 0.5))
            cluster.start(*killed)
            cluster.wait_ready(seconds=60)
            wait_in_sync(cluster, "load")
            print(f"round {number}: killed {killed}, next acknowledgement after {gap:.2f} s, "
                  f"{running.count()} acknowledged", flush=True)  # fmt: skip
        running.wait_acknowledged(ACKNOWLEDGEMENTS_BETWEEN)
    finally:
        running.stop()
    running.check()
