"""`make bench`: the table of docs/explanation/performance.md; etcd beside quorate where it is installed."""

import time
from pathlib import Path
from statistics import median

import broker_bench
import floor
import rivals
import turns
from aims import judged
from clusters import Cluster, Quorate
from report import Measure, Report
from turns import Load, LoadResult

LOADS = (Load(1, 100), Load(256, 100))


def run(folder: Path, *, rounds: int, seconds: float, megabytes: int) -> Report:
    results, floors = _commits(folder, rounds=rounds, seconds=seconds)

    def pick(load: Load, field: str) -> dict[str, float | None]:
        return {
            name: median(getattr(result, field) for result in loads[load]) for name, loads in results.items()
        }

    def ours(name: str, unit: str, value: float) -> Measure:
        return Measure(name=name, unit=unit, values={"quorate": value})

    one, many = LOADS
    starts, kills = _life(folder, rounds=rounds)
    broker = broker_bench.run(folder / "broker", megabytes=megabytes)
    measures = [
        ours("disk: write + fdatasync, p50", "ms", median(each.sync_alone_ms for each in floors)),
        ours("disk: write + fdatasync, p99", "ms", median(each.sync_alone_p99_ms for each in floors)),
        ours("floor: round trips and slower sync, p50", "ms", median(each.total_ms for each in floors)),
        Measure(name="commit latency, 1 in flight, p50", unit="ms", values=pick(one, "p50_ms")),
        Measure(name="commit latency, 1 in flight, p99", unit="ms", values=pick(one, "p99_ms")),
        Measure(name="commits, 1 in flight", unit="/s", values=pick(one, "per_second")),
        Measure(name="commits, 256 in flight", unit="/s", values=pick(many, "per_second")),
        Measure(name="commit latency, 256 in flight, p50", unit="ms", values=pick(many, "p50_ms")),
        Measure(name="commit latency, 256 in flight, p99", unit="ms", values=pick(many, "p99_ms")),
        Measure(name="CPU per commit, three nodes, 256 in flight", unit="us", values=pick(many, "cpu_us")),
        ours("start to first commit, three nodes", "s", median(starts)),
        ours("kill -9 the leader to next commit, p50", "s", median(kills)),
        ours("produce, 3 brokers, acks=all, 1 kB records", "MB/s", broker["produce_mb_per_s"]),
        ours("consume, 3 brokers, 1 kB records", "MB/s", broker["consume_mb_per_s"]),
        ours("cluster start to all brokers unfenced", "s", broker["cluster_ready_s"]),
        ours("resident memory of an idle node", "MiB", broker["idle_node_resident_mib"]),
    ]
    return Report(
        title="quorate benchmarks", systems=list(results), measures=[judged(each) for each in measures]
    )


def _commits(
    folder: Path, *, rounds: int, seconds: float
) -> tuple[dict[str, dict[Load, list[LoadResult]]], list[floor.Floor]]:
    """One and 256 in flight, in turn with etcd: both clusters are up all the time, one is loaded."""
    clusters: list[Cluster] = [Quorate(folder / "quorate")]
    if rivals.Etcd in rivals.available()[0]:
        clusters.append(rivals.Etcd(folder / "etcd", rivals.build_client(folder)))
    results: dict[str, dict[Load, list[LoadResult]]] = {
        each.name: {load: [] for load in LOADS} for each in clusters
    }
    floors = []
    try:
        for cluster in clusters:
            cluster.start()
        for cluster in clusters:
            turns.warm_up(cluster)
        for number in range(rounds):
            floors.append(floor.measure(folder))
            for load in LOADS:
                for cluster in clusters if number % 2 == 0 else reversed(clusters):
                    results[cluster.name][load].append(turns.load(cluster, load, seconds=seconds))
    finally:
        for cluster in clusters:
            cluster.stop()
    return results, floors


def _life(folder: Path, *, rounds: int) -> tuple[list[float], list[float]]:
    starts, kills = [], []
    for number in range(rounds):
        with Quorate(folder / f"start-{number}") as cluster:
            starts.append(turns.start_to_first_commit(cluster))
            time.sleep(0.5)
            kills.append(turns.kill_to_next_commit(cluster))
    return starts, kills
