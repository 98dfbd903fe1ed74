"""Commits, linearizable reads and empty calls from Python: through each front door of quorate, as a node and
as a client, beside etcd's, ZooKeeper's and PySyncObj's clients. One cluster up at a time, in turns."""

import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path

import rivals
import turns
from clusters import HERE, Cluster, Quorate
from report import Measure, Report, median_or_none
from turns import Load, LoadResult

from quorate import blocking
from quorate.cli.node.free_ports import free_ports
from quorate.raft import NodeId

DOORS = ("trio", "aio", "blocking")
THREADED = DOORS[1:]
"""The doors whose quorum has a thread of its own."""
IN_FLIGHT = (1, 64, 256)
SIZE = 100
WARM_UP_S = 0.3
LEASE = "QUORATE_BENCH_LEASE_MS"
LEASED = "trio, leases"
CLIENT = [sys.executable, str(HERE / "door_client.py")]
READS_OF_ETCD = 5.0
HOP_US = 60.0
COMMITS_OF_TRIO = 0.7
NOTES = {
    LEASED: "With leases of 1000 ms the leader answers a linearizable read without a message.",
    "zookeeper": "ZooKeeper's client is kazoo; its linearizable read is a sync and a get.",
    "etcd": "etcd's client is grpcio, without a library above it.",
    "pysyncobj": "PySyncObj never syncs, and has no linearizable reads.",
}


class OfNode(Quorate):
    """Node 1 is in the measured program itself, and leads."""

    def __init__(self, folder: Path, door: str, *, lease_ms: int = 0) -> None:
        super().__init__(folder)
        self._door = door
        self._lease_ms = lease_ms

    def node_environment(self, number: int) -> dict[str, str]:
        return {LEASE: str(self._lease_ms)}

    def start(self, *numbers: int) -> None:
        blocking.format_folder(str(self.folder / "1"), cluster_id="benchmark", node_id=NodeId(1))
        super().start(*(numbers or (2, 3)))

    def client_command(self) -> list[str]:
        return ["env", f"{LEASE}={self._lease_ms}", *CLIENT, self._door, str(self.folder / "1"), self.voters]


class OfClient(Quorate):
    """The measured program is a client of three nodes."""

    def __init__(self, folder: Path, door: str) -> None:
        super().__init__(folder)
        self._door = door
        self._client_ports = free_ports(len(self.numbers))

    def node_command(self, number: int) -> list[str]:
        return [*super().node_command(number), str(self._client_ports[number - 1])]

    def client_command(self) -> list[str]:
        addresses = ",".join(f"127.0.0.1:{port}" for port in self._client_ports)
        return [*CLIENT, f"client-{self._door}", addresses]


@dataclass
class Turn:
    """One system in one round."""

    commits: dict[int, LoadResult] = field(default_factory=dict)
    """By the number in flight."""
    reads: dict[int, LoadResult] = field(default_factory=dict)
    hop_us: float | None = None


def run(folder: Path, *, rounds: int, seconds: float, systems: list[str]) -> Report:
    makers, notes = _makers(folder, systems)
    names = list(makers)
    taken: dict[str, list[Turn]] = {name: [] for name in names}
    raw: list[dict[str, object]] = []
    for number in range(rounds):
        for place in range(len(names)):
            name = names[(place + number) % len(names)]
            with makers[name](number) as cluster:
                turn = _take_turn(cluster, seconds)
            taken[name].append(turn)
            raw.append({"round": number, "system": name, **asdict(turn)})
    return Report(
        title="From Python, through each door",
        systems=names,
        measures=_measures(taken),
        notes=[
            *notes,
            *(NOTES[name] for name in names if name in NOTES),
            f"Three nodes, records of {SIZE} B. In the columns {', '.join(DOORS)} the program is the "
            "leader's own, or its parent (child). As a client it is a process beside the three nodes. The "
            "aims are those of nodes in the program.",
        ],
        rounds=raw,
    )


def _makers(folder: Path, systems: list[str]) -> tuple[dict[str, Callable[[int], Cluster]], list[str]]:
    chosen, absent = rivals.choose(systems, in_python=True)
    makers: dict[str, Callable[[int], Cluster]] = {}
    for door in DOORS:
        makers[door] = partial(_make, partial(OfNode, door=door), folder / door)
    makers[LEASED] = partial(_make, partial(OfNode, door="trio", lease_ms=1000), folder / "leased")
    for door in THREADED:
        makers[f"child, {door}"] = partial(
            _make, partial(OfNode, door=f"child-{door}"), folder / f"child-{door}"
        )
    for door in DOORS:
        makers[f"client, {door}"] = partial(_make, partial(OfClient, door=door), folder / f"client-{door}")
    for rival in chosen:
        makers[rival.name] = partial(_make, partial(rival, client=CLIENT), folder / rival.name)
    return makers, absent


def _make(cluster: Callable[[Path], Cluster], folder: Path, number: int) -> Cluster:
    return cluster(folder / str(number))


def _take_turn(cluster: Cluster, seconds: float) -> Turn:
    cluster.start()
    cluster.leader()
    cluster.client.ask("write", in_flight=64, size=SIZE, seconds=WARM_UP_S)
    turn = Turn()
    for in_flight in IN_FLIGHT:
        load = Load(in_flight, SIZE)
        turn.commits[in_flight] = turns.load(cluster, load, seconds=seconds)
        read = turns.reads(cluster, load, seconds=seconds)
        if read is not None:
            turn.reads[in_flight] = read
    hop = cluster.client.ask("hop", in_flight=1, seconds=seconds / 2)
    turn.hop_us = None if "unsupported" in hop else 1e6 / hop["per_second"]
    return turn


def _measures(taken: dict[str, list[Turn]]) -> list[Measure]:
    def row(name: str, unit: str, of: Callable[[Turn], float | None]) -> Measure:
        values = {name: median_or_none([of(turn) for turn in each]) for name, each in taken.items()}
        return Measure(name=name, unit=unit, values=values)

    def rows(name: str, found: Callable[[Turn], dict[int, LoadResult]]) -> list[Measure]:
        def at(in_flight: int, figure: Callable[[LoadResult], float]) -> Callable[[Turn], float | None]:
            return lambda turn: None if in_flight not in found(turn) else figure(found(turn)[in_flight])

        return [
            row(f"{name}, 1 in flight, p50", "ms", at(1, lambda load: load.p50_ms)),
            *(
                row(f"{name}, {in_flight} in flight", "/s", at(in_flight, lambda load: load.per_second))
                for in_flight in IN_FLIGHT[1:]
            ),
            row(
                f"{name}, 64 in flight, CPU of nodes and client",
                "us",
                at(64, lambda load: load.cpu_us + load.client_cpu_us),
            ),
        ]

    commits, reads = (
        rows("commits", lambda turn: turn.commits),
        rows("linearizable reads", lambda turn: turn.reads),
    )
    hops = row("an empty call", "us", lambda turn: turn.hop_us)
    slowest = max((us for door in THREADED if (us := hops.values[door]) is not None), default=None)
    return [
        *commits,
        _ratio("the commits at 256, of trio's", commits[2], "trio", least=COMMITS_OF_TRIO, of=THREADED),
        *reads,
        _ratio("the reads at 64, of etcd's", reads[1], "etcd", least=READS_OF_ETCD, of=DOORS),
        Measure(
            name=hops.name,
            unit=hops.unit,
            values=hops.values,
            aim=f"under {HOP_US:g} us",
            met=None if slowest is None else slowest < HOP_US,
        ),
    ]


def _ratio(name: str, measure: Measure, base: str, *, least: float, of: tuple[str, ...]) -> Measure:
    """Each system's figure over that of `base`. The aim is of the doors in `of`, all of them."""
    below = measure.values.get(base)
    values = {
        system: None if value is None or not below else value / below
        for system, value in measure.values.items()
    }
    aimed = [value for door in of if (value := values[door]) is not None]
    return Measure(
        name=name,
        unit="",
        values=values,
        aim=f"at least {least:g}",
        met=min(aimed) >= least if aimed else None,
    )
