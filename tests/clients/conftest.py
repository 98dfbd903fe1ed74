"""One cluster of real processes for all stock clients; each test troubles a leader, and brings it back."""

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from quorate.broker.admin import AdminClient
from quorate.broker.wire.api import ApiKey
from quorate.broker.wire.wire_errors import KafkaError
from quorate.cli.console.connections import ask_cluster
from quorate.cli.node.local_cluster import LocalCluster

ACK_TIMEOUT_MS = 700
"""How long clients let a leader wait for its followers; much less than `FROZEN_SECONDS`."""
FROZEN_SECONDS = 1.6
"""Shorter than what elects another leader, of the partition (3 s) or the quorum (2 s)."""
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
        self._thread = threading.Thread(target=self._run)
        self._failure: BaseException | None = None
        self.over = False
        self.killed: int | None = None
        self.duplicates = 0
        """Batches that the leader recognised as sent before, when the followers stood still."""

    def start(self) -> None:
        self._thread.start()

    def join(self) -> None:
        self._thread.join()
        if self._failure is not None:
            raise self._failure

    def _run(self) -> None:
        try:
            self._go()
        except BaseException as failure:
            self._failure = failure
        finally:
            self.over = True

    def _go(self) -> None:
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
        """Leader and followers."""
        partitions: Any = self.cluster.describe_topic(topic)["partitions"]
        leader = int(partitions[partition]["leader"])
        return leader, [int(node) for node in partitions[partition]["replicas"] if node != leader]

    def in_sync(self, topic: str, partition: int = 0) -> list[int]:
        partitions: Any = self.cluster.describe_topic(topic)["partitions"]
        return [int(node) for node in partitions[partition]["isr"]]

    @contextmanager
    def trouble(self, topic: str) -> Iterator[Trouble]:
        self.wait_in_sync(topic)
        trouble = Trouble(self, topic)
        trouble.start()
        try:
            yield trouble
        finally:
            trouble.join()

    def restore(self) -> None:
        self.cluster.start()
        self.cluster.wait_ready(seconds=60)

    def duplicates_recognised(self, node: int) -> int:
        """Batches of idempotent producers that the node had already, since it started."""
        return self.metric(node, "quorate_producer_duplicate_batches_total")

    def metric(self, node: int, name: str) -> int:
        for line in self.cluster.metrics(node).splitlines():
            if line.startswith(name):
                return int(float(line.rpartition(" ")[2]))
        raise AssertionError(f"node {node} does not show {name}")

    def high_watermark(self, topic: str) -> int:
        """Of the topic's partition 0."""
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
        deadline = time.monotonic() + seconds
        while (reached := self.high_watermark(topic)) < offset:
            assert time.monotonic() < deadline, f"{topic} has come to {reached}, not to {offset}"
            time.sleep(0.05)

    def wait_in_sync(self, topic: str, *, seconds: float = 60) -> None:
        deadline = time.monotonic() + seconds
        while True:
            partitions: Any = []
            with suppress(KafkaError):  # the one that is asked may not have heard of it yet
                partitions = self.cluster.describe_topic(topic)["partitions"]
            if partitions and all(sorted(each["isr"]) == sorted(each["replicas"]) for each in partitions):
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
def ack_timeout_ms() -> int:
    return ACK_TIMEOUT_MS


@pytest.fixture
def values() -> Callable[[Trouble], Iterator[bytes]]:
    """Values at a steady pace until the trouble is over; the caller sleeps where it must."""

    def generate(trouble: Trouble) -> Iterator[bytes]:
        number, started = 0, time.monotonic()
        while not trouble.over or number < 1000:
            due = (time.monotonic() - started) * PER_SECOND
            if number < due:
                yield b"value-%06d" % number
                number += 1
            else:
                yield b""

    return generate


@pytest.fixture
def check() -> Callable[..., None]:
    def check(received: list[bytes], sent: list[bytes], trouble: Trouble, *, idempotent: bool = True) -> None:
        """Nothing is lost; with idempotence nothing is doubled or out of order, although leaders were sent
        what they had already."""
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
            assert doubled > 0, (
                "the same trouble without idempotence doubles nothing, so it shows nothing with"
            )

    return check
