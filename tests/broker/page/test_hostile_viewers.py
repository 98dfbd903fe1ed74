"""Ten thousand viewers who mean no good, while records are produced: they cost no election and no record."""

import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
import trio
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from quorate.cli.node.local_cluster import LocalCluster
from tests.kit.clusters import running_cluster, wait_in_sync

pytestmark = [pytest.mark.slow, pytest.mark.system]

VIEWERS = 10_000
AT_ONCE = 1500
HOST = b"Host: 127.0.0.1\r\n"
REQUESTS = (
    b"",
    b"GET / HT",
    b"GET / HTTP/1.1\r\n" + HOST,
    b"GET /page/api/events HTTP/1.1\r\n" + HOST + b"\r\n",
    b"GET /page/api/partitions HTTP/1.1\r\n" + HOST + b"\r\n",
    b"GET /page/../../../../etc/passwd HTTP/1.1\r\n" + HOST + b"\r\n",
    b"GET / HTTP/1.1\r\nHost: stranger.example\r\n\r\n",
    b"GET / HTTP/1.1\r\n" + HOST + b"X: " + b"x" * 200_000 + b"\r\n\r\n",
    b"POST / HTTP/1.1\r\n" + HOST + b"Content-Length: 1000000000000\r\n\r\n" + b"y" * 60_000,
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\0" * 500,
)
"""Nothing, parts, events and answers that nobody reads, other files, another's name, too much, no HTTP."""


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[LocalCluster]:
    with running_cluster(tmp_path / "c") as cluster:
        yield cluster


def leader_of(cluster: LocalCluster) -> tuple[object, object]:
    quorum = cluster.describe_quorum()
    return quorum["leaderId"], quorum["leaderEpoch"]


class Producing:
    """A stock producer that sends a record, waits until all have it, and sends the next."""

    def __init__(self, cluster: LocalCluster) -> None:
        self._producer = Producer(
            {"bootstrap.servers": cluster.bootstrap, "acks": "all", "linger.ms": 0, "retries": 0}
        )
        self.took_s: list[float] = []
        self.errors: list[str] = []
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> "Producing":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._ended.is_set():
            began = time.monotonic()
            self._producer.produce("orders", b"x" * 100, on_delivery=self._delivered)
            if self._producer.flush(60):
                self.errors.append("a record has no answer after 60 s")
            self.took_s.append(time.monotonic() - began)
            time.sleep(0.01)

    def _delivered(self, error: object, _: object) -> None:
        if error is not None:
            self.errors.append(str(error))


async def look(cluster: LocalCluster, number: int, room: trio.Semaphore) -> bool:
    node = cluster.nodes[number % len(cluster.nodes)]
    try:
        with suppress(OSError, trio.BrokenResourceError), trio.move_on_after(10):
            async with await trio.open_tcp_stream(cluster.host, node.metrics_port) as stream:
                await stream.send_all(REQUESTS[number % len(REQUESTS)])
                # Nobody reads, until all has been accepted or the other end has lost its patience.
                await trio.sleep(2)
                return True
    finally:
        room.release()
    return False


def test_ten_thousand_hostile_viewers_cost_no_election_and_no_produce(cluster: LocalCluster) -> None:
    begun = 0

    async def attack() -> None:
        room = trio.Semaphore(AT_ONCE)

        async def one(number: int) -> None:
            nonlocal begun
            connected = await look(cluster, number, room)
            begun += connected

        async with trio.open_nursery() as nursery:
            for number in range(VIEWERS):
                await room.acquire()
                nursery.start_soon(one, number)

    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    admin.create_topics([NewTopic("orders", 1, 3)])["orders"].result()
    wait_in_sync(cluster, "orders")
    before = leader_of(cluster)
    with Producing(cluster) as producing:
        time.sleep(1)
        trio.run(attack)
    slowest = max(producing.took_s)
    print(f"{begun} viewers, {len(producing.took_s)} records beside them, the slowest {slowest:.2f} s")
    assert begun > VIEWERS / 2
    assert producing.errors == []
    assert slowest < 2
    assert leader_of(cluster) == before
    assert cluster.running() == [1, 2, 3]
    assert "quorate" in cluster.metrics(1), "whoever means well is served when they have gone"
