"""Small records one by one: from produce to consume, beside idle partitions, and the CPU that each costs."""

import threading
import time
from pathlib import Path
from statistics import median, quantiles

from brokers import QUIET, Nodes, cpu, create_idle, planned, serving
from clusters import wait_for_replicas
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]
from report import Grid, Report, number

PARTITIONS = 6
RECORD = bytes(92)
"""With a time before it: 100 bytes."""
RATES = (100, 500)


def run(folder: Path, *, idle: tuple[int, ...], rounds: int, seconds: float) -> Report:
    """Rounds over all numbers of idle partitions, in turns."""
    found: dict[int, list[dict[str, float]]] = {count: [] for count in idle}
    for turn in range(rounds):
        for count in idle if turn % 2 == 0 else idle[::-1]:
            found[count].append(_one(folder / f"{turn}-{count}", idle_partitions=count, seconds=seconds))

    def figure(count: int, name: str) -> str:
        return number(median(each[name] for each in found[count]))

    return Report(
        title="Small records one by one, acks=all, three replicas, one client",
        systems=["quorate"],
        grids=[
            Grid(
                title=f"{rate} records/s",
                columns=("by", "p50 ms", "p99 ms", "CPU ms a record, three nodes"),
                rows=[
                    (
                        f"{count:,} idle partitions",
                        *(figure(count, f"{name}_at_{rate}") for name in ("p50_ms", "p99_ms")),
                        figure(count, f"cpu_ms_per_record_at_{rate}"),
                    )
                    for count in idle
                ],
            )
            for rate in RATES
        ]
        + [
            Grid(
                title="nobody connected",
                columns=("by", "share of a core, three nodes"),
                rows=[(f"{count:,} idle partitions", figure(count, "idle_cpu_share")) for count in idle],
            )
        ],
        rounds=[{"idle_partitions": count, **each} for count, all_of in found.items() for each in all_of],
    )


def _one(folder: Path, *, idle_partitions: int, seconds: float) -> dict[str, float]:
    cluster = planned(folder)
    with serving(cluster):
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap, **QUIET})
        admin.create_topics([NewTopic("small", PARTITIONS, 3)])["small"].result(timeout=60)
        create_idle(admin, idle_partitions)
        wait_for_replicas(
            [folder / str(number) for number in cluster.running()], idle_partitions + PARTITIONS
        )
        idle, began = cpu(cluster), time.perf_counter()
        time.sleep(4)
        found = {"idle_cpu_share": (cpu(cluster) - idle) / (time.perf_counter() - began)}
        for rate in RATES:
            found |= {f"{name}_at_{rate}": value for name, value in load(cluster, rate, seconds).items()}
        return found


def load(cluster: Nodes, rate: int, seconds: float) -> dict[str, float]:
    """Send `rate` records a second to the topic `small` one by one, and read them."""
    consumer = Consumer(
        {"bootstrap.servers": cluster.bootstrap, "group.id": "small", "enable.auto.commit": False, **QUIET}
    )
    consumer.assign([TopicPartition("small", each, -1) for each in range(PARTITIONS)])
    latencies: list[float] = []
    over = threading.Event()

    def consume() -> None:
        while not over.is_set():
            message = consumer.poll(0.2)
            if message is not None and message.error() is None:
                latencies.append(time.perf_counter() - float(message.value()[:24]))

    reader = threading.Thread(target=consume)
    reader.start()
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all", "linger.ms": 0, **QUIET})
    producer.list_topics("small", timeout=30)
    count, sent = int(rate * seconds), 0
    time.sleep(1)
    before = cpu(cluster)
    began = time.perf_counter()
    while sent < count:
        due = began + sent / rate
        pause = due - time.perf_counter()
        if pause > 0:
            producer.poll(pause)
            continue
        stamp = f"{time.perf_counter():024.9f}".encode()
        producer.produce("small", stamp + RECORD[24:], partition=sent % PARTITIONS)
        sent += 1
    producer.flush(30)
    took = time.perf_counter() - began
    spent = cpu(cluster) - before
    patience = time.monotonic() + 10
    while len(latencies) < count and time.monotonic() < patience:
        time.sleep(0.05)
    over.set()
    reader.join()
    consumer.close()
    if len(latencies) < 0.9 * count:
        raise RuntimeError(f"{len(latencies)} of {count} records came back")
    latencies.sort()
    return {
        "p50_ms": median(latencies) * 1000,
        "p99_ms": quantiles(latencies, n=100)[98] * 1000,
        "cpu_ms_per_record": spent / count * 1000,
        "cpu_share": spent / took,
    }
