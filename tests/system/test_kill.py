"""kill -9 under load, real processes."""

import random
import statistics
import time
from collections.abc import Callable
from typing import Any

import pytest

from quorate.cli.node.local_cluster import LocalCluster
from tests.kit.clusters import wait_in_sync
from tests.system.loads import Load, make_topic

pytestmark = [pytest.mark.system, pytest.mark.slow]

ACKNOWLEDGEMENTS_BETWEEN = 500
KINDS = ("quorum leader", "partition leader", "two at once")


def victims(cluster: LocalCluster, kind: str, draw: random.Random) -> list[int]:
    match kind:
        case "quorum leader":
            return [int(str(cluster.describe_quorum()["leaderId"]))]
        case "partition leader":
            partitions: Any = cluster.describe_topic("load")["partitions"]
            return [int(draw.choice(partitions)["leader"])]
        case _:
            return draw.sample([node.node_id for node in cluster.nodes], 2)


def test_after_kill_9_under_load_every_acknowledged_record_is_there_once_and_in_order(
    make_cluster: Callable[..., LocalCluster], request: pytest.FixtureRequest
) -> None:
    """A third of the rounds kills the quorum leader, a third a partition leader, the rest two nodes at once.
    The comparison is `Load.check`, over everything, at the end."""
    rounds: int = request.config.getoption("--rounds")
    draw = random.Random(rounds)
    gaps: dict[str, list[float]] = {kind: [] for kind in KINDS}
    cluster = make_cluster(3, min_insync_replicas="2")
    make_topic(cluster.bootstrap, "load", partitions=3)
    wait_in_sync(cluster, "load")
    with Load(cluster.bootstrap, "load", partitions=3, per_second=500.0).running() as running:
        for number in range(rounds):
            running.wait_acknowledged(ACKNOWLEDGEMENTS_BETWEEN)
            kind = KINDS[number % 3]
            killed = victims(cluster, kind, draw)
            # At any point of what the node is doing.
            time.sleep(draw.uniform(0, 0.05))
            for node in killed:
                cluster.kill(node)
            moment = time.monotonic()
            if kind == "two at once":
                # Nobody is elected by one of three, and nothing is acknowledged by one of min ISR two.
                time.sleep(draw.uniform(0, 0.5))
                cluster.start(*killed)
            gap = running.gap_after(moment)
            gaps[kind].append(gap)
            cluster.start(*killed)
            cluster.wait_ready(seconds=60)
            wait_in_sync(cluster, "load")
            print(f"round {number}: killed {killed}, {kind}; all partitions acknowledge again after "
                  f"{gap:.2f} s; {running.count()} acknowledged", flush=True)  # fmt: skip
        running.wait_acknowledged(ACKNOWLEDGEMENTS_BETWEEN)
    for kind, seconds in gaps.items():
        if seconds:
            print(f"{kind}: {len(seconds)} rounds, until all partitions acknowledge again "
                  f"median {statistics.median(seconds):.2f} s, worst {max(seconds):.2f} s")  # fmt: skip
    running.check()
