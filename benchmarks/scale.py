"""The controller at scale: what it does with a metadata log of up to 2,000,000 partitions.

Each figure is taken by a process of its own (`scale_parts.py`), one after the other; the failover by three
real nodes. Seconds are of one core's time, because a machine may have other work; the failover is by the
clock.
"""

import json
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import median

import scale_failover
from aims import judged
from report import Grid, Measure, Report, number

from quorate.raft.storage.storage import LOG_FOLDER

PARTS = Path(__file__).parent / "scale_parts.py"
_TRACED = 100_000
"""Partitions of which Python accounts for the memory."""
KRAFT = (
    "KRaft's published figures are of other machines: with 2,000,000 partitions a controlled shutdown took "
    "32 s and a restart after a failure 37 s (ZooKeeper: 135 and 503 s). Source: "
    "https://www.confluent.io/blog/kafka-without-zookeeper-a-sneak-peek/"
)

Figures = dict[str, float]
Columns = Mapping[str, Callable[[Figures], float]]


def run(folder: Path, *, sizes: Sequence[int], kills: int) -> Report:
    """`sizes`: numbers of partitions, rising; the failover is measured at the last."""
    rounds: list[dict[str, object]] = []
    young: dict[int, Figures] = {}
    aged: dict[int, Figures] = {}
    fenced: dict[int, Figures] = {}
    left: dict[int, Figures] = {}

    def take(part: str, size: int, log: Path) -> Figures:
        found = _part(part, log)
        rounds.append({"part": part, "partitions": size, "log": log.name, **found})
        return found

    traced = take("traced", min(_TRACED, sizes[-1]), _log(folder, min(_TRACED, sizes[-1])))
    for size in sizes:
        young[size] = take("load", size, _log(folder, size, young=True))
        log = _log(folder, size)
        aged[size] = take("load", size, log)
        fenced[size] = take("fence", size, log)
        left[size] = take("shut down", size, log)
    last = sizes[-1]
    moved = scale_failover.failovers(folder / "cluster", _log(folder, last) / LOG_FOLDER, kills=kills)
    rounds.append({"part": "failover", "partitions": last, **moved})
    named = f"{last:,} partitions: "

    def ours(name: str, unit: str, value: float) -> Measure:
        return judged(Measure(name=name, unit=unit, values={"quorate": value}))

    return Report(
        title="The controller at scale",
        systems=["quorate"],
        measures=[
            ours(f"{named}resident memory of a process with the image", "MB", _mb(aged[last]["loaded_mib"])),
            ours(f"{named}replay of the log", "s", aged[last]["replay_s"]),
            ours(
                f"{named}kill -9 of the active controller to the next answer",
                "s",
                median(moved["failover_s"]),
            ),
            ours(f"{named}the same, the longest", "s", max(moved["failover_s"])),
            ours(f"{named}start of a node to all of it applied", "s", median(moved["start_cpu_s"])),
            ours(f"{named}resident memory of a node", "MB", _mb(median(moved["node_mib"]))),
            ours("bytes of a partition, by Python's account", "B", traced["traced_bytes"]),
        ],
        grids=[
            _grid("partitions as on their first day", young, _LOADS),
            _grid("partitions with epochs and directories of their own", aged, _LOADS),
            _grid("fencing a broker", fenced, _LEAVES),
            _grid("controlled shutdown of a broker with a third of the leaderships", left, _LEAVES),
        ],
        notes=[KRAFT],
        rounds=rounds,
    )


_LOADS: Columns = {
    "replay, s": lambda found: found["replay_s"],
    "records/s": lambda found: found["records"] / found["replay_s"],
    "B/partition": lambda found: (found["loaded_mib"] - found["process_mib"]) * 2**20 / found["records"],
    "snapshot, MB": lambda found: found["snapshot_mb"],
    "written, s": lambda found: found["snapshot_write_s"],
    "loaded, s": lambda found: found["snapshot_load_s"],
    "one delta, us": lambda found: found["delta_us"],
    "copy, ms": lambda found: found["copy_ms"],
    "full collection, ms": lambda found: found["full_collection_ms"],
}
_LEAVES: Columns = {
    "in ISRs": lambda found: found["concerned"],
    "led": lambda found: found["led"],
    "decided, s": lambda found: found["decide_s"],
    "longest, ms": lambda found: found["longest_ms"],
    "applied, s": lambda found: found["applied_s"],
    "longest, ms ": lambda found: found["applied_longest_ms"],
    "new controller: to serving, ms": lambda found: found["activate_ms"],
    "looks through, s": lambda found: found["resume_s"],
    "longest, ms  ": lambda found: found["resume_longest_ms"],
}


def _grid(title: str, found: Mapping[int, Figures], columns: Columns) -> Grid:
    return Grid(
        title=title,
        columns=("by", *columns),
        rows=[
            (f"{size:,}", *(number(figure(figures)) for figure in columns.values()))
            for size, figures in found.items()
        ],
    )


def _mb(mib: float) -> float:
    return mib * 2**20 / 1e6


def _log(folder: Path, partitions: int, *, young: bool = False) -> Path:
    """The folder of a log of so many partitions, written once."""
    path = folder / f"{'young' if young else 'aged'}-{partitions}"
    if not path.exists():
        path.mkdir(parents=True)
        _run("write", path, "--partitions", str(partitions), *(["--young"] if young else []))
    return path


def _part(part: str, log: Path) -> Figures:
    found: Figures = json.loads(_run(part, log))
    return found


def _run(part: str, log: Path, *more: str) -> str:
    began = time.monotonic()
    command = [sys.executable, str(PARTS), part, "--folder", str(log), *more]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    took = f"{time.monotonic() - began:.1f} s by the clock"
    print(f"{part}, {log.name}, {took}: {done.stdout.strip()}", file=sys.stderr, flush=True)
    return done.stdout
