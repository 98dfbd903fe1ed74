"""How quorate's cost grows with voters, record size and log length; what a long log takes, of all systems."""

import time
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from pathlib import Path
from statistics import median

import rivals
import turns
from clusters import Cluster, Quorate, resident_mib
from report import Grid, Measure, Report, number
from turns import Load, LoadResult

VOTERS = (3, 5, 7)
SIZES = (100, 1024, 4096, 16 * 1024, 64 * 1024)
LENGTHS = (0.0, 0.1, 0.3, 1.0)
"""Shares of the longest log."""
IN_FLIGHT = 256
COLUMNS = (
    "p50 ms, 1 in flight",
    f"commits/s, {IN_FLIGHT} in flight",
    "MB/s",
    f"CPU us, {IN_FLIGHT} in flight",
)

Pair = tuple[LoadResult, LoadResult]


def growth(folder: Path, *, rounds: int, seconds: float, records: int) -> Report:
    raw: list[dict[str, object]] = []

    def loads(cluster: Cluster, size: int, kind: str, by: int) -> Pair:
        pair = (
            turns.load(cluster, Load(1, size), seconds=seconds),
            turns.load(cluster, Load(IN_FLIGHT, size), seconds=seconds),
        )
        raw.append({"kind": kind, "by": by, "one": asdict(pair[0]), "many": asdict(pair[1])})
        return pair

    voters: dict[int, list[Pair]] = {count: [] for count in VOTERS}
    sizes: dict[int, list[Pair]] = {size: [] for size in SIZES}
    for turn in range(rounds):
        for count in VOTERS if turn % 2 == 0 else VOTERS[::-1]:
            with Quorate(folder / f"voters-{turn}-{count}", size=count) as cluster:
                cluster.start()
                turns.warm_up(cluster)
                voters[count].append(loads(cluster, 100, "voters", count))
        with Quorate(folder / f"sizes-{turn}") as cluster:
            cluster.start()
            turns.warm_up(cluster)
            for size in SIZES if turn % 2 == 0 else SIZES[::-1]:
                sizes[size].append(loads(cluster, size, "record bytes", size))
    lengths: dict[int, list[Pair]] = {}
    restarts: dict[int, float] = {}
    with Quorate(folder / "length") as cluster:
        cluster.start()
        turns.warm_up(cluster)
        filled = 0
        for share in LENGTHS:
            wanted = int(share * records)
            _fill(cluster, wanted - filled)
            filled = wanted
            lengths[wanted] = [loads(cluster, 100, "log records", wanted) for _ in range(rounds)]
            restarts[wanted] = _restart(cluster)
    return Report(
        title="How quorate's cost grows",
        systems=["quorate"],
        grids=[
            _grid("voters", {f"{count}": pairs for count, pairs in voters.items()}, 100),
            _grid("record size", {f"{size:,} B": pairs for size, pairs in sizes.items()}, None),
            _grid("log length", {f"{count:,} records": pairs for count, pairs in lengths.items()}, 100),
            Grid(
                title="restart of all nodes to the next commit, by log length",
                columns=("by", "s"),
                rows=[(f"{count:,} records", number(taken)) for count, taken in restarts.items()],
            ),
        ],
        rounds=raw,
    )


def memory(folder: Path, *, records: int, systems: list[str]) -> Report:
    """Resident memory of a node, the median of three, before and after so many 100-byte records."""
    chosen, absent = rivals.choose(systems)
    makers: list[Callable[[], Cluster]] = [partial(Quorate, folder / "quorate")]
    if chosen:
        client = rivals.build_client(folder)
        makers += [partial(rival, folder / rival.name, client) for rival in chosen]
    empty: dict[str, float | None] = {}
    full: dict[str, float | None] = {}
    disk: dict[str, float | None] = {}
    for make in makers:
        with make() as cluster:
            cluster.start()
            turns.warm_up(cluster)
            empty[cluster.name] = _resident(cluster)
            _fill(cluster, records)
            full[cluster.name] = _resident(cluster)
            written = sum(file.stat().st_blocks * 512 for file in cluster.folder.rglob("*") if file.is_file())
            disk[cluster.name] = written / len(cluster.processes) / 2**20
    return Report(
        title="Memory of a long log",
        systems=list(full),
        measures=[
            Measure(name="resident memory of a node, at first", unit="MiB", values=empty),
            Measure(name=f"the same after {records:,} records of 100 B", unit="MiB", values=full),
            Measure(name="on disk, of each node", unit="MiB", values=disk),
        ],
        notes=absent,
    )


def _fill(cluster: Cluster, records: int) -> None:
    if records > 0:
        in_flight = min(1024, records)
        cluster.client.ask("write", count=records, in_flight=in_flight, size=100, timeout=3600)


def _restart(cluster: Cluster) -> float:
    for each in list(cluster.processes):
        cluster.kill(each)
    started = time.perf_counter()
    cluster.start()
    cluster.commit()
    return time.perf_counter() - started


def _resident(cluster: Cluster) -> float:
    return median(resident_mib(process.pid) for process in cluster.processes.values())


def _grid(title: str, results: dict[str, list[Pair]], size: int | None) -> Grid:
    rows: list[tuple[str, ...]] = []
    for by, pairs in results.items():
        rate = median(many.per_second for _, many in pairs)
        record = size or int(by.removesuffix(" B").replace(",", ""))
        rows.append(
            (
                by,
                number(median(one.p50_ms for one, _ in pairs)),
                number(rate),
                number(rate * record / 1e6),
                number(median(many.cpu_us for _, many in pairs)),
            )
        )
    return Grid(title=f"quorate by {title}", columns=("by", *COLUMNS), rows=rows)
