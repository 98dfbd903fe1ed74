"""The output of the demo: its steps, and tables about the cluster."""

import datetime
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from rich.console import Console

from quorate.broker.admin.quorum import describe_quorum
from quorate.cli.commands import quorum_commands
from quorate.cli.console.connections import ask_cluster
from quorate.cli.console.output import print_table
from quorate.cli.console.rows import Rows
from quorate.cli.node.local_cluster import LocalCluster
from quorate.cli.state_changes.lives import Life

_PREFIX = "raft_manager_"
_SHOWN_METRICS = ("current_state", "current_leader", "current_epoch", "high_watermark", "log_end_offset",
                  "commit_latency_avg_seconds", "append_records_total")  # fmt: skip


@dataclass(slots=True)
class DemoReport:
    """The steps of the demo: title, result and seconds of each."""

    console: Console
    steps: list[tuple[str, str, float]] = field(default_factory=list)

    @contextmanager
    def step(self, title: str) -> Iterator[list[str]]:
        """Run a step of the demo; the caller puts its result in words into the list."""
        result: list[str] = []
        started = time.monotonic()
        with self.console.status(title):
            yield result
        seconds = time.monotonic() - started
        text = "; ".join(result)
        self.steps.append((title, text, seconds))
        self.console.print(f"[green]✓[/green] {title} [dim]({seconds:.1f} s)[/dim] {text}", highlight=False)

    def table(self) -> Rows:
        rows = [(title, result, f"{seconds:.1f}") for title, result, seconds in self.steps]
        rows.append(("in all", "", f"{sum(seconds for *_, seconds in self.steps):.1f}"))
        return Rows(("step", "result", "seconds"), rows, title="what happened")


def show_changes(console: Console, lives: list[Life]) -> None:
    """Print the requests for changes of the partition's replicas, with reasons and outcomes."""
    rows: list[tuple[object, ...]] = []
    for life in lives:
        if life.request is not None:
            brokers: dict[str, list[str]] = {}
            for part in life.parts:
                brokers.setdefault(part.outcome, []).append(str(part.broker))
            outcomes = "; ".join(f"{outcome} by {', '.join(ids)}" for outcome, ids in brokers.items())
            rows.append((life.offset, life.request.what, life.request.reason, outcomes))
    title = "state changes of partition 0, and what the brokers made of them"
    print_table(Rows(("offset", "request", "why", "outcome"), rows, title=title), console)


def show_quorum(console: Console, cluster: LocalCluster) -> None:
    table = quorum_commands.quorum_table(ask_cluster(cluster.bootstrap, describe_quorum))
    print_table(table, console)


def show_metrics(console: Console, cluster: LocalCluster) -> None:
    pages = {f"node {node}": cluster.metrics(node) for node in cluster.running()}
    title = f"raft-manager metrics from /metrics, less {_PREFIX}"
    rows = [
        (name, *(shown_value(page, _PREFIX + name) for page in pages.values())) for name in _SHOWN_METRICS
    ]
    print_table(Rows(("metric", *pages), rows, title=title), console)


def shown_value(page: str, metric: str) -> str:
    """Return a metric's value on a /metrics page; of one that has a series per state, the state that
    holds."""
    for line in page.splitlines():
        name, _, value = line.rpartition(" ")
        if name == metric:
            return f"{float(value):g}"
        if name.startswith(f"{metric}{{") and float(value) == 1:
            return name.partition('="')[2].partition('"')[0]
    return "?"


def show_history(console: Console, rows: list[dict[str, object]]) -> None:
    columns = ("from_offset", "leader", "leader_epoch", "partition_epoch", "isr", "valid_from", "valid_to")
    table = Rows(
        ("from offset", "leader", "leader epoch", "partition epoch", "isr", "valid from", "valid to"),
        [[_cell(row.get(column)) for column in columns] for row in rows],
        title="who led partition 0, as Spark sees the metadata log",
    )
    print_table(table, console)


def _cell(value: object) -> str:
    if isinstance(value, datetime.datetime):
        return value.strftime("%H:%M:%S")
    return "" if value is None else str(value)
