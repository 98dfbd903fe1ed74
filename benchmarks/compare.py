"""quorate beside etcd, ZooKeeper and PySyncObj: one cluster up at a time, in another order each round."""

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from statistics import median

import floor
import plot
import rivals
import turns
from aims import judged
from clusters import Cluster, Quorate
from report import Measure, Report, median_or_none
from turns import Load, LoadResult

IN_FLIGHT = (1, 16, 64, 256, 1024)
SIZES = (100, 1024)
READS = Load(64, 100)

NOTES = {
    "zookeeper": "ZooKeeper's linearizable read is sync and get; a paused leader is missed after syncLimit, "
    "10 s by default.",
    "pysyncobj": "PySyncObj never syncs: what it acknowledged is lost with the power. It has no linearizable "
    "reads. Without its batches (appendEntriesUseBatch=False), which would make a lone command wait 100 ms.",
}


@dataclass
class Turn:
    """One system in one round."""

    start_s: float = 0.0
    loads: dict[Load, LoadResult] = field(default_factory=dict)
    reads: LoadResult | None = None
    stop_s: float = 0.0
    kill_s: float = 0.0
    pause_s: float | None = None

    def as_json(self) -> dict[str, object]:
        return {
            "start_s": self.start_s,
            "stop_s": self.stop_s,
            "kill_s": self.kill_s,
            "pause_s": self.pause_s,
            "reads": None if self.reads is None else asdict(self.reads),
            "loads": [{**load._asdict(), **asdict(result)} for load, result in self.loads.items()],
        }


def run(folder: Path, *, rounds: int, seconds: float, systems: list[str], svg: Path | None) -> Report:
    makers, notes = _makers(folder, systems)
    taken: dict[str, list[Turn]] = {name: [] for name in makers}
    floors: list[floor.Floor] = []
    raw: list[dict[str, object]] = []
    for number in range(rounds):
        for name in _order(list(makers), number):
            floors.append(floor.measure(folder))
            with makers[name](number) as cluster:
                turn = _take_turn(cluster, seconds)
            taken[name].append(turn)
            raw.append({"round": number, "system": name, "floor": asdict(floors[-1]), **turn.as_json()})
    if svg is not None:
        _plot(svg, taken)
    return Report(
        title="quorate compared",
        systems=list(makers),
        measures=[judged(each) for each in _measures(taken, floors)],
        notes=[*notes, *(NOTES[name] for name in makers if name in NOTES)],
        rounds=raw,
    )


def _makers(folder: Path, systems: list[str]) -> tuple[dict[str, Callable[[int], Cluster]], list[str]]:
    """How to make each system's cluster for a round, and why some are left out."""
    chosen, absent = rivals.choose(systems)
    makers: dict[str, Callable[[int], Cluster]] = {
        "quorate": lambda number: Quorate(folder / f"quorate-{number}")
    }
    if chosen:
        client = rivals.build_client(folder)
        for rival in chosen:
            makers[rival.name] = partial(_make, rival, folder, client)
    return makers, absent


def _make(rival: type[rivals.Rival], folder: Path, client: list[str], number: int) -> Cluster:
    return rival(folder / f"{rival.name}-{number}", client)


def _order(names: list[str], number: int) -> list[str]:
    """Each starts as often as any other, and each pair meets in both orders."""
    turned = names[number % len(names) :] + names[: number % len(names)]
    return turned if number // len(names) % 2 == 0 else turned[::-1]


def _take_turn(cluster: Cluster, seconds: float) -> Turn:
    turn = Turn(start_s=turns.start_to_first_commit(cluster))
    turns.warm_up(cluster)
    for size in SIZES:
        for in_flight in IN_FLIGHT:
            # A lone client makes few commits, and its p99.9 needs many.
            patience = 2 if in_flight == 1 else 1
            load = Load(in_flight, size)
            turn.loads[load] = turns.load(cluster, load, seconds=patience * seconds)
    turn.reads = turns.reads(cluster, READS, seconds=seconds)
    turn.stop_s = turns.commits_missed_by_stop(cluster)
    turn.kill_s = turns.kill_to_next_commit(cluster)
    turn.pause_s = turns.pause_to_next_commit(cluster)
    return turn


def _measures(taken: dict[str, list[Turn]], floors: list[floor.Floor]) -> list[Measure]:
    def pick(of: Callable[[Turn], float | None]) -> dict[str, float | None]:
        return {name: median_or_none([of(turn) for turn in each]) for name, each in taken.items()}

    def at(load: Load, figure: str) -> dict[str, float | None]:
        return pick(lambda turn: getattr(turn.loads[load], figure))

    def of_floor(name: str, figure: str) -> Measure:
        return Measure(
            name=name, unit="ms", values={"quorate": median(getattr(each, figure) for each in floors)}
        )

    measures = [
        of_floor("floor: client round trip", "client_round_trip_ms"),
        of_floor("floor: member round trip", "member_round_trip_ms"),
        of_floor("floor: slower of leader's and follower's sync", "sync_ms"),
        of_floor("floor: the three together", "total_ms"),
        of_floor("floor: the same path in bare blocking calls", "commit_ms"),
    ]
    for size in SIZES:
        one = Load(1, size)
        measures += [
            Measure(name=f"1 in flight, {_bytes(size)}, {label}", unit="ms", values=at(one, f"{figure}_ms"))
            for label, figure in (("p50", "p50"), ("p99", "p99"), ("p99.9", "p999"))
        ]
    for size in SIZES:
        for in_flight in IN_FLIGHT:
            values = at(Load(in_flight, size), "per_second")
            measures.append(
                Measure(name=f"commits, {in_flight} in flight, {_bytes(size)}", unit="/s", values=values)
            )
    for in_flight in IN_FLIGHT:
        values = at(Load(in_flight, SIZES[0]), "cpu_us")
        measures.append(
            Measure(name=f"CPU per commit, all nodes, {in_flight} in flight", unit="us", values=values)
        )
    reads = f"{READS.in_flight} in flight"
    return [
        *measures,
        Measure(
            name=f"linearizable reads, {reads}",
            unit="/s",
            values=pick(lambda turn: None if turn.reads is None else turn.reads.per_second),
        ),
        Measure(
            name=f"CPU per linearizable read, all nodes, {reads}",
            unit="us",
            values=pick(lambda turn: None if turn.reads is None else turn.reads.cpu_us),
        ),
        Measure(
            name="SIGTERM the leader, time without commits", unit="s", values=pick(lambda turn: turn.stop_s)
        ),
        Measure(name="kill -9 the leader to next commit", unit="s", values=pick(lambda turn: turn.kill_s)),
        Measure(name="SIGSTOP the leader to next commit", unit="s", values=pick(lambda turn: turn.pause_s)),
        Measure(name="start to first commit", unit="s", values=pick(lambda turn: turn.start_s)),
    ]


def _bytes(size: int) -> str:
    return f"{size} B" if size < 1024 else f"{size // 1024} KiB"


def _plot(svg: Path, taken: dict[str, list[Turn]]) -> None:
    """Throughput across and p50 up, a line for each system, its points the numbers in flight."""
    size = SIZES[0]
    lines = {
        name: [
            plot.Point(
                x=median(turn.loads[Load(in_flight, size)].per_second for turn in each),
                y=median(turn.loads[Load(in_flight, size)].p50_ms for turn in each),
                label=str(in_flight),
            )
            for in_flight in IN_FLIGHT
        ]
        for name, each in taken.items()
    }
    svg.parent.mkdir(parents=True, exist_ok=True)
    svg.write_text(
        plot.log_log(
            lines,
            title=f"Latency against load: {_bytes(size)} records, 1 to {IN_FLIGHT[-1]} in flight",
            x_label="commits/s",
            y_label="p50, ms",
        )
    )
