"""What consumers cost who wait for records that do not come: CPU of the nodes, and of one poll.

Raw Fetch requests as librdkafka sends them (version 11, fetch.wait.max.ms 500, no session), one partition
each, one connection each; and for comparison with a long poll of 30 s, in which nothing but the wait is left.
"""

import struct
import time
from pathlib import Path
from statistics import median

import trio
from brokers import SETTLED_S, cpu, create_idle, planned, serving
from clusters import wait_for_replicas
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]
from report import Grid, Report

from quorate.cli.node.local_cluster import LocalCluster

PARTITIONS = 6
TOPIC = "idle"
WAITS_MS = (500, 30_000)
NODES = 3
_SIZE = struct.Struct(">i")


def _request(partition: int, wait_ms: int) -> bytes:
    """Fetch, version 11."""
    topic = TOPIC.encode()
    body = struct.pack(">hhih5s", 1, 11, 1, 5, b"bench")
    body += struct.pack(">iiiibii", -1, wait_ms, 1, 50 << 20, 0, 0, -1)
    body += struct.pack(f">ih{len(topic)}si", 1, len(topic), topic, 1)
    body += struct.pack(">iiqqi", partition, -1, 0, -1, 1 << 20)
    body += struct.pack(">ih", 0, 0)
    return _SIZE.pack(len(body)) + body


def run(folder: Path, *, consumers: int, beside: tuple[int, ...], rounds: int, seconds: float) -> Report:
    """`beside`: numbers of partitions that nobody uses, one cluster for each."""
    found: list[dict[str, float]] = []
    for count in beside:
        found += _beside(folder / f"{count}", count, consumers=consumers, rounds=rounds, seconds=seconds)

    def figure(idle: int, wait_ms: int, name: str) -> float:
        return median(
            each[name] for each in found if (each["idle_partitions"], each["wait_ms"]) == (idle, wait_ms)
        )

    return Report(
        title=f"{consumers:,} consumers that wait, one connection and one partition each, three nodes",
        systems=["quorate"],
        grids=[
            Grid(
                title="beyond what idle nodes take",
                columns=("by", "polls/s", "share of a core, three nodes", "CPU us a poll"),
                rows=[
                    (
                        f"polls of {wait_ms / 1000:g} s, {idle:,} idle partitions",
                        f"{figure(idle, wait_ms, 'polls_per_s'):.0f}",
                        f"{figure(idle, wait_ms, 'cpu_share'):.3f}",
                        f"{figure(idle, wait_ms, 'cpu_us_per_poll'):.0f}",
                    )
                    for idle in beside
                    for wait_ms in WAITS_MS
                ],
            ),
            Grid(
                title="nobody connected",
                columns=("by", "share of a core, a node"),
                rows=[
                    (f"{idle:,} idle partitions", f"{figure(idle, WAITS_MS[0], 'alone') / NODES:.4f}")
                    for idle in beside
                ],
            ),
        ],
        rounds=[dict(each) for each in found],
    )


def _beside(
    folder: Path, idle: int, *, consumers: int, rounds: int, seconds: float
) -> list[dict[str, float]]:
    found: list[dict[str, float]] = []
    cluster = planned(folder / "cluster")
    with serving(cluster):
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
        admin.create_topics([NewTopic(TOPIC, PARTITIONS, 3)])[TOPIC].result(timeout=60)
        create_idle(admin, idle)
        wait_for_replicas(
            [folder / "cluster" / str(number) for number in cluster.running()], idle + PARTITIONS
        )
        leaders = {
            number: cluster.node(part.leader).client_port
            for number, part in admin.list_topics(TOPIC, timeout=30).topics[TOPIC].partitions.items()
        }
        time.sleep(SETTLED_S if idle else 0)
        for _ in range(rounds):
            alone = _measure(cluster, seconds)
            for wait_ms in WAITS_MS:
                polled = trio.run(_poll, cluster, leaders, consumers, wait_ms, seconds, alone)
                found.append({"idle_partitions": idle, "wait_ms": wait_ms, "alone": alone, **polled})
    return found


def _measure(cluster: LocalCluster, seconds: float) -> float:
    """The share of a core that the nodes take by themselves."""
    before, began = cpu(cluster), time.perf_counter()
    time.sleep(seconds)
    return (cpu(cluster) - before) / (time.perf_counter() - began)


async def _poll(
    cluster: LocalCluster, leaders: dict[int, int], consumers: int, wait_ms: int, seconds: float, alone: float
) -> dict[str, float]:
    polls = 0

    async def consume(number: int) -> None:
        nonlocal polls
        partition = number % PARTITIONS
        stream = await trio.open_tcp_stream(cluster.host, leaders[partition])
        request = _request(partition, wait_ms)
        # Not all at the same moment.
        await trio.sleep(min(wait_ms, 2000) / 1000 * number / consumers)
        async with stream:
            while True:
                await stream.send_all(request)
                data = b""
                while len(data) < _SIZE.size or len(data) < _SIZE.size + _SIZE.unpack_from(data)[0]:
                    data += await stream.receive_some(65536)
                polls += 1

    async with trio.open_nursery() as nursery:
        for number in range(consumers):
            nursery.start_soon(consume, number)
        await trio.sleep(4)
        before, polls, began = cpu(cluster), 0, time.perf_counter()
        await trio.sleep(seconds)
        taken, count, elapsed = cpu(cluster) - before, polls, time.perf_counter() - began
        nursery.cancel_scope.cancel()
    beyond = max(0.0, taken / elapsed - alone)
    return {
        "polls_per_s": count / elapsed,
        "cpu_share": beyond,
        "cpu_us_per_poll": 1e6 * beyond * elapsed / count if count else 0.0,
    }
