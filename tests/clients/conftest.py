"""One cluster of real processes for all stock clients; each test kills a leader and brings it back."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from quorate.cli.local_cluster import LocalCluster

COUNT = 3000
"""Records that each client sends through the leader's death."""


class Killable:
    """A cluster whose partition leaders can be killed while a client is at work."""

    def __init__(self, cluster: LocalCluster) -> None:
        self.cluster = cluster
        self.killed: int | None = None

    @property
    def bootstrap(self) -> str:
        return self.cluster.bootstrap

    def kill_leader(self, topic: str) -> int:
        partitions: Any = self.cluster.describe_topic(topic)["partitions"]
        self.killed = int(partitions[0]["leader"])
        self.cluster.kill(self.killed)
        return self.killed

    def restore(self) -> None:
        self.cluster.start()
        self.cluster.wait_ready(seconds=60)

    def duplicates_recognised(self) -> float:
        """Batches that a leader had already, summed over the running brokers."""
        total = 0.0
        for node in self.cluster.running():
            for line in self.cluster.metrics(node).splitlines():
                if line.startswith("quorate_producer_duplicate_batches_total"):
                    total += float(line.rpartition(" ")[2])
        return total

    def wait_in_sync(self, topic: str, *, seconds: float = 60) -> None:
        deadline = time.monotonic() + seconds
        while True:
            partitions: Any = self.cluster.describe_topic(topic)["partitions"]
            if all(sorted(each["isr"]) == sorted(each["replicas"]) for each in partitions):
                return
            assert time.monotonic() < deadline, partitions
            time.sleep(0.1)


@pytest.fixture(scope="session")
def client_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    folder: Path = tmp_path_factory.mktemp("clients")
    cluster = LocalCluster.plan(folder / "cluster", client_port=0, overrides={"min.insync.replicas": "2"})
    try:
        cluster.prepare()
        cluster.start()
        cluster.wait_ready()
        yield cluster
    finally:
        cluster.kill_all()


@pytest.fixture
def killable(client_cluster: LocalCluster) -> Iterator[Killable]:
    killable = Killable(client_cluster)
    yield killable
    killable.restore()


@pytest.fixture
def values() -> list[bytes]:
    return [b"value-%06d" % number for number in range(COUNT)]


@pytest.fixture
def check() -> Callable[..., None]:
    def check(received: list[bytes], sent: list[bytes], *, once: bool) -> None:
        missing = len(set(sent) - set(received))
        assert not missing, f"{missing} of {len(sent)} acknowledged records are gone"
        if once:
            doubled = len(received) - len(set(received))
            assert not doubled, f"{doubled} records are there more than once, although idempotence was on"
            assert received == sent, "records are out of order"

    return check
