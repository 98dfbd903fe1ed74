"""quorate's brokers and Apache Kafka's, three nodes each, with the same client, in turn; both warm."""

import time
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from statistics import median

from broker_bench import MEGABYTE, consume, produce
from brokers import QUIET, cpu, planned, serving
from clusters import resident_mib
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]
from kafka_nodes import KafkaNodes
from record_bench import PARTITIONS, RATES, load
from report import Measure, Report

from quorate.cli.node.local_cluster import LocalCluster

BATCHES = {"16 KiB": 16_384, "1 MB": 1_000_000}
RECORDS = {"1 kB": 1_000, "100 B": 100}
ACKS = ("all", "1")
SYSTEMS = ("quorate", "kafka")


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """What a round does: less for a look."""

    megabytes: int
    seconds: float
    idle: int
    """Idle partitions beside the small records."""
    topics: int
    """The number of topics to fill, for throughput as they accumulate."""


def run(folder: Path, *, rounds: int, sizes: Sizes) -> Report:
    """Rounds over both systems, in turns."""
    found: dict[str, list[dict[str, float]]] = {name: [] for name in SYSTEMS}
    for turn in range(rounds):
        for name in SYSTEMS if turn % 2 == 0 else SYSTEMS[::-1]:
            found[name].append(_one(folder / f"{turn}-{name}", name, sizes))
    names = list(found["quorate"][0])
    measures = [
        Measure(
            name=name.rpartition(", ")[0],
            unit=name.rpartition(", ")[2],
            values={system: median(each[name] for each in found[system]) for system in SYSTEMS},
        )
        for name in names
    ]
    return Report(
        title="quorate beside Apache Kafka",
        systems=SYSTEMS,
        measures=measures,
        rounds=[{"system": system, **each} for system, all_of in found.items() for each in all_of],
    )


def _one(folder: Path, name: str, sizes: Sizes) -> dict[str, float]:
    """One system from its start, warmed up first."""
    cluster = KafkaNodes(folder) if name == "kafka" else planned(folder)
    with serving(cluster) as ready:
        topics = _Topics(cluster.bootstrap)
        _warm_up(cluster, topics, sizes)
        found = _throughput(cluster, topics, sizes)
        found |= _small_records(cluster, topics, sizes)
        found |= _accumulating(cluster, topics, sizes)
        return {
            **found,
            "start to all brokers there, s": ready,
            "resident memory of a node after it all, MiB": median(
                resident_mib(cluster.pid(number)) for number in cluster.running()
            ),
        }


class _Topics:
    def __init__(self, bootstrap: str) -> None:
        self._admin = AdminClient({"bootstrap.servers": bootstrap, **QUIET})

    def create(self, name: str, partitions: int) -> None:
        self._admin.create_topics([NewTopic(name, partitions, 3)])[name].result(timeout=60)
        # Its leaders are elected, and its followers follow.
        time.sleep(1)

    def delete(self, name: str) -> None:
        self._admin.delete_topics([name])[name].result(timeout=60)


def _warm_up(cluster: "KafkaNodes | LocalCluster", topics: _Topics, sizes: Sizes) -> None:
    topics.create("warm", 3)
    topics.create("small", PARTITIONS)
    count = 2 * sizes.megabytes * MEGABYTE // 1_000
    produce(cluster.bootstrap, "warm", count)
    produce(cluster.bootstrap, "warm", count // 4, batch_bytes=16_384, acks="1")
    consume(cluster.bootstrap, "warm", count)
    load(cluster, RATES[-1], sizes.seconds)
    topics.delete("warm")


def _throughput(cluster: "KafkaNodes | LocalCluster", topics: _Topics, sizes: Sizes) -> dict[str, float]:
    found: dict[str, float] = {}
    bootstrap = cluster.bootstrap
    for (label, record_bytes), (batch, batch_bytes), acks in product(RECORDS.items(), BATCHES.items(), ACKS):
        # Of small ones a client in Python makes few.
        count = sizes.megabytes * MEGABYTE // record_bytes // (4 if record_bytes < 1_000 else 1)
        topics.create("bulk", 3)
        before = cpu(cluster)
        seconds = produce(
            bootstrap, "bulk", count, record_bytes=record_bytes, batch_bytes=batch_bytes, acks=acks
        )
        gigabytes = count * record_bytes / 1e9
        found |= _figures(
            f"produce {label} in batches of {batch}, acks={acks}", gigabytes, seconds, cpu(cluster) - before
        )
        if acks == "1":
            # Until the followers have it all: reads end at the high watermark.
            consume(bootstrap, "bulk", count)
            before = cpu(cluster)
            seconds = consume(bootstrap, "bulk", count)
            found |= _figures(
                f"consume {label} in batches of {batch}, hot", gigabytes, seconds, cpu(cluster) - before
            )
        topics.delete("bulk")
    return found


def _figures(what: str, gigabytes: float, seconds: float, cpu_seconds: float) -> dict[str, float]:
    return {
        f"{what}, MB/s": 1000 * gigabytes / seconds,
        f"{what}: CPU of the brokers, s/GB": cpu_seconds / gigabytes,
    }


def _small_records(cluster: "KafkaNodes | LocalCluster", topics: _Topics, sizes: Sizes) -> dict[str, float]:
    found: dict[str, float] = {}
    for idle in (0, sizes.idle):
        if idle:
            topics.create("idle", idle)
            time.sleep(5)
            before, began = cpu(cluster), time.perf_counter()
            time.sleep(4)
            share = (cpu(cluster) - before) / (time.perf_counter() - began)
            found[f"idle with {idle:,} partitions: three nodes, share of a core"] = share
        for rate in RATES:
            seen = load(cluster, rate, sizes.seconds)
            what = f"{rate} small records/s beside {idle:,} idle partitions"
            found[f"{what}: p50, ms"] = seen["p50_ms"]
            found[f"{what}: p99, ms"] = seen["p99_ms"]
            found[f"{what}: CPU a record, ms"] = seen["cpu_ms_per_record"]
    return found


def _accumulating(cluster: "KafkaNodes | LocalCluster", topics: _Topics, sizes: Sizes) -> dict[str, float]:
    """Topic after topic is filled and stays."""
    count = sizes.megabytes * MEGABYTE // 1_000
    rates = []
    for number in range(sizes.topics):
        topics.create(f"kept-{number}", 3)
        rates.append(count / 1_000 / produce(cluster.bootstrap, f"kept-{number}", count))
    third = max(1, sizes.topics // 3)
    return {
        f"produce, the first {third} of {sizes.topics} topics that stay, MB/s": median(rates[:third]),
        f"produce, the last {third} of {sizes.topics} topics that stay, MB/s": median(rates[-third:]),
    }
