"""The benchmark table: quorate beside etcd and the disk, in one run. Writes benchmarks/results/latest.json.

Usage: run.py [--quick] [--json FILE]. Runs alternate between the systems; medians are shown, because the
machine may be noisy.
"""

import argparse
import json
import os
import platform
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).parent))

import broker_bench
import failover
from quorum_processes import EtcdProcesses, QuorumProcesses, build_etcd_client
from rich.console import Console
from rich.table import Table

RESULTS = Path(__file__).parent / "results"
RECORD_BYTES = 100


@dataclass
class Row:
    measure: str
    quorate: float
    unit: str
    etcd: float | None = None
    aim: str = ""
    met: bool | None = None

    @property
    def ratio(self) -> float | None:
        return None if not self.etcd else self.quorate / self.etcd


def sync_latency_ms(folder: Path, count: int = 300) -> tuple[float, float]:
    """p50 and p99 of write + fdatasync of a small record into reserved space: the disk's own floor."""
    descriptor = os.open(folder / "floor", os.O_RDWR | os.O_CREAT)
    os.posix_fallocate(descriptor, 0, 4 << 20)
    os.fsync(descriptor)
    latencies = []
    for number in range(count):
        started = time.perf_counter()
        os.pwrite(descriptor, bytes(RECORD_BYTES), number * RECORD_BYTES)
        os.fdatasync(descriptor)
        latencies.append((time.perf_counter() - started) * 1000)
    os.close(descriptor)
    latencies.sort()
    return latencies[count // 2], latencies[int(count * 0.99)]


def commits(folder: Path, *, rounds: int, seconds: float) -> list[Row]:
    """One and 256 in flight, in turn with etcd."""
    client = build_etcd_client(folder)
    quorum = QuorumProcesses(folder / "quorate")
    etcd = None if client is None else EtcdProcesses(folder / "etcd", client)
    ours: dict[int, list[dict[str, float]]] = {1: [], 256: []}
    theirs: dict[int, list[dict[str, float]]] = {1: [], 256: []}
    cpu: list[float] = []
    etcd_cpu: list[float] = []
    floor: list[tuple[float, float]] = []
    quorum.start()
    try:
        if etcd is not None:
            etcd.start()
        time.sleep(2)
        for _ in range(rounds):
            floor.append(sync_latency_ms(folder))
            for in_flight in (1, 256):
                before = quorum.cpu_seconds()
                ours[in_flight].append(quorum.load(in_flight=in_flight, seconds=seconds, size=RECORD_BYTES))
                if in_flight == 256:
                    count = ours[256][-1]["commits_per_second"] * seconds
                    cpu.append((quorum.cpu_seconds() - before) / count * 1e6)
                if etcd is not None:
                    before = etcd.cpu_seconds()
                    theirs[in_flight].append(
                        etcd.load(in_flight=in_flight, seconds=seconds, size=RECORD_BYTES)
                    )
                    if in_flight == 256:
                        count = theirs[256][-1]["commits_per_second"] * seconds
                        etcd_cpu.append((etcd.cpu_seconds() - before) / count * 1e6)
    finally:
        quorum.stop()
        if etcd is not None:
            etcd.stop()

    def pick(runs: list[dict[str, float]], key: str) -> float:
        return median(run[key] for run in runs)

    def theirs_or_none(in_flight: int, key: str) -> float | None:
        return pick(theirs[in_flight], key) if theirs[in_flight] else None

    p50, their_p50 = pick(ours[1], "p50_ms"), theirs_or_none(1, "p50_ms")
    many, their_many = pick(ours[256], "commits_per_second"), theirs_or_none(256, "commits_per_second")
    return [
        Row("disk: write + fdatasync, p50", median(each[0] for each in floor), "ms"),
        Row("disk: write + fdatasync, p99", median(each[1] for each in floor), "ms"),
        Row(
            "commit latency, 1 in flight, p50",
            p50,
            "ms",
            their_p50,
            "no worse than etcd",
            None if their_p50 is None else p50 <= their_p50,
        ),
        Row("commit latency, 1 in flight, p99", pick(ours[1], "p99_ms"), "ms", theirs_or_none(1, "p99_ms")),
        Row(
            "commits, 1 in flight",
            pick(ours[1], "commits_per_second"),
            "/s",
            theirs_or_none(1, "commits_per_second"),
        ),
        Row(
            "commits, 256 in flight",
            many,
            "/s",
            their_many,
            "at least 3 x etcd",
            None if their_many is None else many >= 3 * their_many,
        ),
        Row(
            "commit latency, 256 in flight, p50",
            pick(ours[256], "p50_ms"),
            "ms",
            theirs_or_none(256, "p50_ms"),
        ),
        Row(
            "commit latency, 256 in flight, p99",
            pick(ours[256], "p99_ms"),
            "ms",
            theirs_or_none(256, "p99_ms"),
        ),
        Row(
            "CPU per commit, three nodes, 256 in flight",
            median(cpu),
            "us",
            median(etcd_cpu) if etcd_cpu else None,
        ),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="shorter, for a look")
    parser.add_argument("--json", type=Path, default=RESULTS / "latest.json")
    options = parser.parse_args()
    rounds, seconds, megabytes = (1, 2.0, 20) if options.quick else (5, 4.0, 200)
    with tempfile.TemporaryDirectory(prefix="quorate-bench-", dir=os.environ.get("BENCH_DIR")) as name:
        folder = Path(name)
        rows = commits(folder, rounds=rounds, seconds=seconds)
        starts = [failover.start_to_first_commit(folder / f"start-{n}") for n in range(rounds)]
        rows.append(
            Row(
                "start to first commit, three nodes",
                median(starts),
                "s",
                None,
                "under 2 s",
                median(starts) < 2,
            )
        )
        gap = failover.kill_to_next_commit(folder / "kill", rounds=max(3, rounds))
        rows.append(Row("kill -9 the leader to next commit, p50", gap, "s", None, "under 1.5 s", gap < 1.5))
        broker = broker_bench.run(folder / "broker", megabytes=megabytes)
    rows += [
        Row("produce, 3 brokers, acks=all, 1 kB records", broker["produce_mb_per_s"], "MB/s"),
        Row("consume, 3 brokers, 1 kB records", broker["consume_mb_per_s"], "MB/s"),
        Row("cluster start to all brokers unfenced", broker["cluster_ready_s"], "s"),
        Row(
            "resident memory of an idle node",
            broker["idle_node_resident_mib"],
            "MiB",
            None,
            "under 100 MiB",
            broker["idle_node_resident_mib"] < 100,
        ),
    ]
    machine = (
        f"{os.cpu_count()} CPUs, {platform.machine()}, Linux {platform.release()}, "
        f"Python {platform.python_version()}"
    )
    show(rows, machine)
    options.json.parent.mkdir(parents=True, exist_ok=True)
    options.json.write_text(
        json.dumps(
            {"machine": machine, "rows": [{**asdict(row), "ratio": row.ratio} for row in rows]}, indent=2
        )
        + "\n"
    )


def show(rows: list[Row], machine: str) -> None:
    table = Table(title=f"quorate benchmarks ({machine})", title_justify="left")
    for column in ("measure", "quorate", "etcd", "ratio", "aim", "met"):
        table.add_column(column, justify="left" if column in ("measure", "aim", "met") else "right")
    for row in rows:
        table.add_row(
            row.measure,
            f"{row.quorate:,.3g} {row.unit}" if row.quorate < 1000 else f"{row.quorate:,.0f} {row.unit}",
            "" if row.etcd is None else (f"{row.etcd:,.3g}" if row.etcd < 1000 else f"{row.etcd:,.0f}"),
            "" if row.ratio is None else f"{row.ratio:.2f}",
            row.aim,
            "" if row.met is None else ("met" if row.met else "missed"),
        )
    Console(width=140).print(table)


if __name__ == "__main__":
    main()
