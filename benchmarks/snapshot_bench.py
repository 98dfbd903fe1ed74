"""A large state snapshotted by every node while commits go on: how far throughput dips, and for how long."""

import threading
import time
from pathlib import Path
from statistics import median

import turns
from clusters import Answer, Client, Cluster, Quorate
from report import Measure, Report

RECORD_BYTES = 64 * 1024
BUCKET_MS = 100
IN_FLIGHT = 64
BEFORE_SECONDS = 5.0
AFTER_SECONDS = 5.0


def run(folder: Path, *, state_mb: int) -> Report:
    measures: dict[str, float | None] = dict.fromkeys(
        ("state_mb", "before", "during", "worst", "p99_ms", "seconds")
    )
    notes = ["quorate has no snapshots in this version"]
    with Quorate(folder / "snapshot") as cluster:
        cluster.start()
        turns.warm_up(cluster)
        aside = Client(cluster.client_command(), cluster.folder / "aside.out")
        try:
            probe = aside.ask("snapshot", timeout=600)
            if "unsupported" not in probe:
                notes = []
                count = state_mb * 1_000_000 // RECORD_BYTES
                cluster.client.ask(
                    "write", in_flight=16, size=RECORD_BYTES, count=count, distinct=True, timeout=3600
                )
                measures.update(_dip(cluster, aside), state_mb=float(state_mb))
        finally:
            aside.stop()

    def row(name: str, unit: str, key: str) -> Measure:
        return Measure(name=name, unit=unit, values={"quorate": measures[key]})

    return Report(
        title="A snapshot while committing",
        systems=["quorate"],
        measures=[
            row("state, in records of 64 KiB under keys of their own", "MB", "state_mb"),
            row(f"commits before, {IN_FLIGHT} in flight, 100 B", "/s", "before"),
            row("commits while all nodes take a snapshot, median", "/s", "during"),
            row(f"the worst {BUCKET_MS} ms of it", "/s", "worst"),
            row("commit latency, the whole time, p99", "ms", "p99_ms"),
            row("until the last node has its snapshot", "s", "seconds"),
        ],
        notes=notes,
    )


def _dip(cluster: Cluster, aside: Client) -> dict[str, float]:
    """Throughput in buckets, with a snapshot from `BEFORE_SECONDS` on."""
    answers: list[Answer] = []
    stop_after = 3600.0
    # How long the snapshot takes is not known before: load in stretches until it is done.
    done = threading.Event()
    started_at, ended_at = 0.0, stop_after

    def snapshot() -> None:
        nonlocal started_at, ended_at
        time.sleep(BEFORE_SECONDS)
        started_at = time.perf_counter()
        aside.ask("snapshot", timeout=stop_after)
        ended_at = time.perf_counter()
        done.set()

    thread = threading.Thread(target=snapshot)
    thread.start()
    buckets: list[tuple[float, float]] = []
    ended: float | None = None
    while ended is None or time.perf_counter() < ended + AFTER_SECONDS:
        began = time.perf_counter()
        answer = cluster.client.ask("write", in_flight=IN_FLIGHT, size=100, seconds=2, bucket_ms=BUCKET_MS)
        answers.append(answer)
        counts: list[int] = answer["buckets"]  # type: ignore[assignment]
        buckets += [
            (began + number * BUCKET_MS / 1000, count * 1000 / BUCKET_MS)
            for number, count in enumerate(counts)
        ]
        if done.is_set() and ended is None:
            ended = ended_at
    thread.join()
    before = [rate for at, rate in buckets if at < started_at - BUCKET_MS / 1000]
    during = [rate for at, rate in buckets if started_at - BUCKET_MS / 1000 <= at < ended_at]
    return {
        "before": median(before),
        "during": median(during),
        "worst": min(during),
        "p99_ms": max(answer["p99_ms"] for answer in answers),
        "seconds": ended_at - started_at,
    }
