"""What viewers of a node's page cost: produce with ten of them and with none, in turns, and the node's CPU.

The viewers follow one node's events, as browsers do, from the process of the client: their own work counts
against the node.
"""

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from statistics import median
from typing import Final

from broker_bench import MEGABYTE, RECORD_BYTES, produce
from brokers import planned, serving
from clusters import cpu_seconds
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]
from report import Grid, Report

from quorate.cli.node.local_cluster import LocalCluster

VIEWERS: Final = 10
WATCHED: Final = 1
"""The node that they look at."""
TOPIC: Final = "bench"
_GONE_S: Final = 3
_SEEN_S: Final = 10


def run(folder: Path, *, megabytes: int, rounds: int, seconds: float) -> Report:
    """`seconds`: for the CPU of a node that serves nobody else. A round is a pair, in another order each
    time."""
    found: list[dict[str, float]] = []
    cluster = planned(folder / "cluster")
    with serving(cluster):
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
        admin.create_topics([NewTopic(TOPIC, 3, 3)])[TOPIC].result(timeout=60)
        count = megabytes * MEGABYTE // RECORD_BYTES
        produce(cluster.bootstrap, TOPIC, count)
        for number in range(rounds):
            pair: dict[str, float] = {}
            for viewers in (0, VIEWERS) if number % 2 else (VIEWERS, 0):
                with watching(cluster, viewers) as events:
                    pair[f"produce_mb_per_s_{viewers}"] = megabytes / produce(cluster.bootstrap, TOPIC, count)
                    pair[f"events_{viewers}"] = len(events)
            for viewers in (0, VIEWERS):
                with watching(cluster, viewers):
                    pair[f"cpu_share_{viewers}"] = _share(cluster, seconds)
            found.append(pair)
    ratios = [each[f"produce_mb_per_s_{VIEWERS}"] / each["produce_mb_per_s_0"] for each in found]
    beyond = median(each[f"cpu_share_{VIEWERS}"] - each["cpu_share_0"] for each in found)
    return Report(
        title=f"{VIEWERS} viewers of the page of one node of three, beside a producer",
        systems=["quorate"],
        grids=[
            Grid(
                title=f"produce, {RECORD_BYTES} bytes a record, acks=all, three partitions",
                columns=("viewers", "MB/s"),
                rows=[
                    (str(each), f"{median(one[f'produce_mb_per_s_{each}'] for one in found):.1f}")
                    for each in (0, VIEWERS)
                ],
            ),
            Grid(
                title="their price",
                columns=("of what", "median", "of pairs"),
                rows=[
                    (
                        "produce with viewers, as a share of produce without",
                        f"{median(ratios):.3f}",
                        " ".join(f"{each:.3f}" for each in ratios),
                    ),
                    ("share of a core, the watched node, no load", f"{beyond:.3f}", ""),
                ],
            ),
        ],
        rounds=[dict(each) for each in found],
    )


@contextmanager
def watching(cluster: LocalCluster, viewers: int) -> Iterator[list[int]]:
    """Follow the events of a node with so many viewers, once each has seen one. Yields the sizes of what they
    get."""
    sizes: list[int] = []
    address = (cluster.host, cluster.node(WATCHED).metrics_port)
    streams = [socket.create_connection(address, timeout=30) for _ in range(viewers)]
    threads = [threading.Thread(target=_follow, args=(each, sizes), daemon=True) for each in streams]
    try:
        for stream, thread in zip(streams, threads, strict=True):
            stream.sendall(f"GET /page/events HTTP/1.1\r\nHost: {cluster.host}\r\n\r\n".encode())
            head = stream.recv(1 << 16)
            if not head.startswith(b"HTTP/1.1 200 "):
                raise RuntimeError(f"the page refuses a viewer: {head[:200]!r}")
            thread.start()
        deadline = time.monotonic() + _SEEN_S
        while len(sizes) < viewers:
            if time.monotonic() > deadline:
                raise RuntimeError("not every viewer saw an event: the page is not what was measured")
            time.sleep(0.02)
        yield sizes
    finally:
        for stream in streams:
            with suppress(OSError):
                stream.shutdown(socket.SHUT_RDWR)
            stream.close()
        # The node learns of their end by its next events.
        time.sleep(_GONE_S if viewers else 0)


def _follow(stream: socket.socket, sizes: list[int]) -> None:
    with suppress(OSError):
        while piece := stream.recv(1 << 16):
            sizes.append(len(piece))


def _share(cluster: LocalCluster, seconds: float) -> float:
    """The share of a core that the watched node takes."""
    pid = cluster.pid(WATCHED)
    before, began = cpu_seconds(pid), time.perf_counter()
    time.sleep(seconds)
    return (cpu_seconds(pid) - before) / (time.perf_counter() - began)
