"""Topic after topic is filled and stays: throughput, what the nodes take for it, and what the disk owes."""

import os
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

from brokers import planned, serving
from clusters import user_and_system_seconds
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]
from report import Grid, Report

from quorate.cli.node.local_cluster import LocalCluster

RECORD = os.urandom(1_000)
_PRESSURE = Path("/proc/pressure/io")
_FIGURES = ("mb_per_s", "user_us_per_mb", "system_us_per_mb", "io_stalled_share", "dirty_mib")


def run(folder: Path, *, topics: int, megabytes: int) -> Report:
    """`megabytes` in each of `topics`, in records of 1 kB and batches of up to 1 MB, with acks=all."""
    cluster = planned(folder / "cluster")
    found: list[dict[str, float]] = []
    with serving(cluster):
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
        for number in range(topics):
            admin.create_topics([NewTopic(f"kept-{number}", 3, 3)])[f"kept-{number}"].result(timeout=60)
            time.sleep(1)
            found.append(_fill(cluster, f"kept-{number}", megabytes))
    third = max(1, topics // 3)
    parts = (("first", found[:third]), ("last", found[-third:]))
    columns = ("of", "MB/s", "user us/MB", "system us/MB", "share of time with I/O stalls", "dirty MiB")
    return Report(
        title=f"{topics} topics of {megabytes} MB that stay, three replicas, CPU of all nodes",
        systems=["quorate"],
        grids=[
            Grid(
                title="medians",
                columns=columns,
                rows=[(f"the {name} {third}", *map(_median_of(each), _FIGURES)) for name, each in parts],
            )
        ],
        rounds=[dict(each) for each in found],
    )


def _median_of(part: list[dict[str, float]]) -> Callable[[str], str]:
    return lambda figure: f"{median(each[figure] for each in part):.5g}"


def _fill(cluster: LocalCluster, topic: str, megabytes: int) -> dict[str, float]:
    producer = Producer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "acks": "all",
            "batch.size": 1 << 20,
            "linger.ms": 20,
            "queue.buffering.max.kbytes": 200_000,
        }
    )
    user, system = _nodes(cluster)
    stalled, began = _io_stalled_s(), time.perf_counter()
    for number in range(megabytes * 1000):
        while True:
            try:
                producer.produce(topic, RECORD, partition=number % 3)
                break
            except BufferError:
                producer.poll(0.05)
    if left := producer.flush(120):
        raise RuntimeError(f"{left} records of {topic} were not acknowledged")
    took = time.perf_counter() - began
    user_after, system_after = _nodes(cluster)
    return {
        "mb_per_s": megabytes / took,
        "user_us_per_mb": 1e6 * (user_after - user) / megabytes,
        "system_us_per_mb": 1e6 * (system_after - system) / megabytes,
        "io_stalled_share": (_io_stalled_s() - stalled) / took,
        "dirty_mib": _dirty_mib(),
    }


def _nodes(cluster: LocalCluster) -> tuple[float, float]:
    spent = [user_and_system_seconds(cluster.pid(number)) for number in cluster.running()]
    return sum(user for user, _ in spent), sum(system for _, system in spent)


def _io_stalled_s() -> float:
    """The time in which some process of the machine waited for a disk; 0 where the kernel doesn't say."""
    if not _PRESSURE.exists():
        return 0.0
    return int(_PRESSURE.read_text().split("total=")[1].split()[0]) / 1e6


def _dirty_mib() -> float:
    """What is in the page cache and not on the disk."""
    fields = dict(line.split(":", 1) for line in Path("/proc/meminfo").read_text().splitlines())
    return sum(int(fields[name].split()[0]) for name in ("Dirty", "Writeback")) / 1024
