"""Where a commit's time goes: per commit and node, CPU, wake-ups, page faults and, with cProfile, calls."""

import pstats
import signal
import time
from dataclasses import dataclass
from pathlib import Path

from clusters import Answer, Quorate, cpu_seconds, page_faults, user_and_system_seconds, wake_ups
from rich.console import Console
from rich.table import Table

COUNTED = {
    "loop passes": ("<method 'poll' of 'select.epoll' objects>",),
    "sends": (
        "<method 'send' of '_socket.socket' objects>",
        "<method 'sendmsg' of '_socket.socket' objects>",
    ),
    "receives": (
        "<method 'recv' of '_socket.socket' objects>",
        "<method 'recv_into' of '_socket.socket' objects>",
    ),
    "writes": ("<built-in method posix.pwrite>", "<built-in method posix.pwritev>",
               "<built-in method posix.write>", "<built-in method posix.writev>"),
    "syncs": ("<built-in method posix.fdatasync>", "<built-in method posix.fsync>"),
}  # fmt: skip
"""What the system is asked for, by the names that cProfile gives to its calls."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeCost:
    """Per commit."""

    node: str
    cpu_us: float
    user_us: float
    system_us: float
    wake_ups: float
    page_faults: float


def run(
    folder: Path, *, commits: int, in_flight: int, size: int, profile: bool, top: int, console: Console
) -> None:
    with Quorate(folder / "profile", profiles=profile) as cluster:
        assert isinstance(cluster, Quorate)
        cluster.start()
        leader = cluster.commit()
        load = {"in_flight": in_flight, "size": size}
        cluster.client.ask("write", count=max(200, in_flight), **load)
        answer, costs = _measure(cluster, leader, commits=commits, load=load)
        _show_costs(answer, costs, load, console)
        if profile:
            _show_profiles(cluster, leader, commits=commits, load=load, top=top, console=console)


def _measure(
    cluster: Quorate, leader: int, *, commits: int, load: dict[str, int]
) -> tuple[Answer, list[NodeCost]]:
    processes = {_role(number, leader): process.pid for number, process in cluster.processes.items()}
    processes["client"] = cluster.client.process.pid

    def sample(pid: int) -> tuple[float, ...]:
        user, system = user_and_system_seconds(pid)
        return cpu_seconds(pid) * 1e6, user * 1e6, system * 1e6, float(wake_ups(pid)), float(page_faults(pid))

    before = {name: sample(pid) for name, pid in processes.items()}
    answer = cluster.client.ask("write", count=commits, timeout=600, **load)
    after = {name: sample(pid) for name, pid in processes.items()}
    costs = []
    for name in processes:
        each = [
            (end - start) / answer["operations"] for start, end in zip(before[name], after[name], strict=True)
        ]
        costs.append(
            NodeCost(
                node=name,
                cpu_us=each[0],
                user_us=each[1],
                system_us=each[2],
                wake_ups=each[3],
                page_faults=each[4],
            )
        )
    return answer, sorted(
        costs, key=lambda cost: ("leader", "follower", "client").index(cost.node.split()[0])
    )


def _role(number: int, leader: int) -> str:
    return f"{'leader' if number == leader else 'follower'} (node {number})"


def _show_costs(answer: Answer, costs: list[NodeCost], load: dict[str, int], console: Console) -> None:
    console.print(
        f"{answer['operations']:,.0f} commits of {load['size']} bytes, {load['in_flight']} in flight: "
        f"p50 {answer['p50_ms']:.3f} ms, p99 {answer['p99_ms']:.3f} ms, {answer['per_second']:,.0f}/s"
    )
    table = Table(title="per commit", title_justify="left")
    for column in ("process", "CPU us", "user us", "system us", "wake-ups", "page faults"):
        table.add_column(column, justify="left" if column == "process" else "right")
    nodes = [cost for cost in costs if cost.node != "client"]
    total = NodeCost(
        node="all nodes",
        cpu_us=sum(cost.cpu_us for cost in nodes),
        user_us=sum(cost.user_us for cost in nodes),
        system_us=sum(cost.system_us for cost in nodes),
        wake_ups=sum(cost.wake_ups for cost in nodes),
        page_faults=sum(cost.page_faults for cost in nodes),
    )
    for cost in (*nodes, total, *(cost for cost in costs if cost.node == "client")):
        table.add_row(
            cost.node,
            f"{cost.cpu_us:,.1f}",
            f"{cost.user_us:,.0f}",
            f"{cost.system_us:,.0f}",
            f"{cost.wake_ups:.2f}",
            f"{cost.page_faults:.2f}",
        )
    console.print(table)


def _show_profiles(
    cluster: Quorate, leader: int, *, commits: int, load: dict[str, int], top: int, console: Console
) -> None:
    for process in cluster.processes.values():
        process.send_signal(signal.SIGUSR1)
    time.sleep(0.2)
    answer = cluster.client.ask("write", count=commits, timeout=600, **load)
    for process in cluster.processes.values():
        process.send_signal(signal.SIGUSR2)
    follower = next(number for number in cluster.numbers if number != leader)
    for number in (leader, follower):
        file = cluster.profile_file(number)
        deadline = time.monotonic() + 10
        while not file.exists():
            if time.monotonic() > deadline:
                raise RuntimeError(f"node {number} wrote no {file}")
            time.sleep(0.05)
        _show_profile(_role(number, leader), pstats.Stats(str(file)), answer["operations"], top, console)


def _show_profile(name: str, stats: pstats.Stats, commits: float, top: int, console: Console) -> None:
    # pstats has had this table for ever, and its type stub has not.
    functions: dict[tuple[str, int, str], tuple[int, int, float, float, object]] = stats.stats  # type: ignore[attr-defined]
    calls = {
        label: sum(value[1] for key, value in functions.items() if key[2] in names)
        for label, names in COUNTED.items()
    }
    every = sum(value[1] for value in functions.values())
    console.print(
        f"\n{name}, under cProfile: {every / commits:,.0f} calls per commit; "
        + ", ".join(f"{count / commits:.2f} {label}" for label, count in calls.items())
    )
    table = Table(box=None)
    for column in ("calls/commit", "own us", "with callees us", "function"):
        table.add_column(column, justify="left" if column == "function" else "right")
    waits = COUNTED["loop passes"]
    ranked = sorted(functions.items(), key=lambda item: -item[1][2])
    for (file, line, function), (_, count, own, total, _) in [
        each for each in ranked if each[0][2] not in waits
    ][:top]:
        where = function if file == "~" else f"{function} ({'/'.join(Path(file).parts[-2:])}:{line})"
        table.add_row(
            f"{count / commits:.2f}", f"{own / commits * 1e6:.1f}", f"{total / commits * 1e6:.1f}", where
        )
    console.print(table)
