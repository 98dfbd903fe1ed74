"""Clusters of real processes for tests, and the wait for their replicas."""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from quorate.broker.wire.wire_errors import KafkaError
from quorate.cli.node.local_cluster import LocalCluster


@contextmanager
def running_cluster(
    folder: Path,
    *,
    nodes: int = 3,
    voters: int | None = None,
    secure: bool = False,
    overrides: Mapping[str, str] | None = None,
    before_start: Callable[[LocalCluster], None] | None = None,
) -> Iterator[LocalCluster]:
    """Run a cluster at free ports, which serves. No process is left behind. `before_start`: gets the cluster
    when its folders are prepared."""
    cluster = LocalCluster.plan(
        folder, nodes=nodes, client_port=0, voters=voters, secure=secure, overrides=overrides
    )
    try:
        cluster.prepare()
        if before_start is not None:
            before_start(cluster)
        cluster.start()
        cluster.wait_ready()
        yield cluster
    finally:
        cluster.kill_all()


def wait_in_sync(cluster: LocalCluster, topic: str, *, seconds: float = 60.0) -> None:
    """Return when all replicas of a topic are in sync."""
    deadline = time.monotonic() + seconds
    while True:
        partitions: Any = []
        with suppress(KafkaError):  # the broker that is asked may not know the topic yet
            partitions = cluster.describe_topic(topic)["partitions"]
        if partitions and all(sorted(each["isr"]) == sorted(each["replicas"]) for each in partitions):
            return
        assert time.monotonic() < deadline, f"not in sync within {seconds} s: {partitions}"
        time.sleep(0.1)
