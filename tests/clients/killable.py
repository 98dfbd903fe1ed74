"""A cluster whose leaders stand still and are killed while a stock client is at work."""

import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

from quorate.broker.admin.admin_client import AdminClient
from quorate.broker.wire.api import ApiKey
from quorate.cli.console.connections import ask_cluster
from quorate.cli.node.local_cluster import LocalCluster
from tests.kit.clusters import wait_in_sync
from tests.kit.waiting import wait_until

ACK_TIMEOUT_MS = 700
"""The time that clients let a leader wait for its followers. It is much shorter than `FROZEN_SECONDS`."""
FROZEN_SECONDS = 1.6
"""Shorter than the time after which another leader is elected, of the partition (3 s) or the quorum (2 s)."""
PER_SECOND = 400


class Trouble:
    """What happens to a partition while a client sends. `over` is set when it is.

    First the followers stand still for longer than the client waits for them: the leader has appended what
    it can't acknowledge, and gets it a second time. Then the leader stands still, so that requests are
    stuck in it, and is killed.
    """

    def __init__(self, killable: "Killable", topic: str) -> None:
        self._killable = killable
        self._topic = topic
        self.over = False
        self.killed: int | None = None
        self.duplicates = 0
        """The number of batches that the leader recognised as sent before, when the followers stood still."""

    def happen(self) -> None:
        try:
            self._trouble_followers_and_leader()
        finally:
            self.over = True

    def _trouble_followers_and_leader(self) -> None:
        cluster = self._killable.cluster
        # A producer at work has its id, which it can't get while a majority stands still.
        self._killable.wait_high_watermark(self._topic, 50)
        leader, followers = self._killable.roles(self._topic)
        before = self._killable.duplicates_recognised(leader)
        try:
            for node in followers:
                cluster.signal(node, signal.SIGSTOP)
            time.sleep(FROZEN_SECONDS)
        finally:
            for node in followers:
                cluster.signal(node, signal.SIGCONT)
        time.sleep(1.0)
        self.duplicates = self._killable.duplicates_recognised(leader) - before
        leader, _ = self._killable.roles(self._topic)
        cluster.signal(leader, signal.SIGSTOP)
        time.sleep(0.3)
        cluster.kill(leader)
        self.killed = leader
        time.sleep(0.5)


class Killable:
    """A cluster whose partition leaders can be killed while a client is at work."""

    def __init__(self, cluster: LocalCluster) -> None:
        self.cluster = cluster

    @property
    def bootstrap(self) -> str:
        return self.cluster.bootstrap

    def roles(self, topic: str, partition: int = 0) -> tuple[int, list[int]]:
        """Return the leader and the followers."""
        described = self._describe(topic, partition)
        leader = int(described["leader"])
        return leader, [int(node) for node in described["replicas"] if node != leader]

    def in_sync(self, topic: str, partition: int = 0) -> list[int]:
        return [int(node) for node in self._describe(topic, partition)["isr"]]

    def _describe(self, topic: str, partition: int) -> dict[str, Any]:
        partitions: Any = self.cluster.describe_topic(topic)["partitions"]
        found: dict[str, Any] = partitions[partition]
        return found

    @contextmanager
    def trouble(self, topic: str) -> Iterator[Trouble]:
        wait_in_sync(self.cluster, topic)
        trouble = Trouble(self, topic)
        with ThreadPoolExecutor(1) as pool:
            end = pool.submit(trouble.happen)
            try:
                yield trouble
            finally:
                end.result()

    def restore(self) -> None:
        self.cluster.start()
        self.cluster.wait_ready(seconds=60)

    def duplicates_recognised(self, node: int) -> int:
        """Return the number of producers' batches that the node has received twice since its start."""
        return self.metric(node, "quorate_producer_duplicate_batches_total")

    def metric(self, node: int, name: str) -> int:
        for line in self.cluster.metrics(node).splitlines():
            if line.startswith(name):
                return int(float(line.rpartition(" ")[2]))
        raise AssertionError(f"node {node} does not show {name}")

    def high_watermark(self, topic: str) -> int:
        """Return the high watermark of the topic's partition 0."""
        leader, _ = self.roles(topic)
        address = f"{self.cluster.host}:{self.cluster.node(leader).client_port}"

        async def ask(client: AdminClient) -> int:
            part = {"partition_index": 0, "current_leader_epoch": -1, "timestamp": -1}
            topics = [{"name": topic, "partitions": [part]}]
            answer: Any = await client.call(
                ApiKey.LIST_OFFSETS, replica_id=-1, isolation_level=0, topics=topics
            )
            return int(answer.topics[0].partitions[0].offset)

        return ask_cluster(address, ask)

    def wait_high_watermark(self, topic: str, offset: int, *, seconds: float = 30) -> None:
        """Return when the topic's partition 0 is committed up to `offset` or further."""
        wait_until(
            lambda: self.high_watermark(topic) >= offset, f"{topic} has come to {offset}", seconds=seconds
        )


def values(trouble: Trouble) -> Iterator[bytes]:
    """Yield values at a steady pace until the trouble is over. The caller sleeps where a value is empty."""
    number, started = 0, time.monotonic()
    while not trouble.over or number < 1000:
        due = (time.monotonic() - started) * PER_SECOND
        if number < due:
            yield b"value-%06d" % number
            number += 1
        else:
            yield b""


def check(received: list[bytes], sent: list[bytes], trouble: Trouble, *, idempotent: bool = True) -> None:
    """Check that nothing is lost. With idempotence nothing is doubled or out of order, although leaders were
    sent batches that they had already."""
    doubled = len(received) - len(set(received))
    print(f"{len(sent)} sent, node {trouble.killed} killed, {trouble.duplicates} batches recognised "
          f"as sent before, {doubled} records doubled")  # fmt: skip
    assert set(received) <= set(sent), "there is more than was sent"
    missing = len(set(sent) - set(received))
    assert not missing, f"{missing} of {len(sent)} acknowledged records are gone"
    if idempotent:
        assert trouble.duplicates > 0, "no batch was sent twice, so that nothing was shown"
        assert not doubled, f"{doubled} records are there more than once, although idempotence was on"
        assert received == sent, "records are out of order"
    else:
        assert doubled > 0, "the same trouble without idempotence doubles nothing, so it shows nothing with"
