"""The output of the demo: its steps, and tables about the cluster."""

import datetime
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from rich.console import Console
from rich.table import Table

from quorate.broker.admin.quorum import describe_quorum
from quorate.cli.commands import quorum_commands
from quorate.cli.console.connections import ask_cluster
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

    def table(self) -> Table:
        table = _titled("what happened", ("step", "result", "seconds"), right=("seconds",))
        for title, result, seconds in self.steps:
            table.add_row(title, result, f"{seconds:.1f}")
        table.add_row("in all", "", f"{sum(seconds for *_, seconds in self.steps):.1f}")
        return table


def _titled(title: str, columns: Sequence[str], *, right: Sequence[str] = ()) -> Table:
    """Return an empty table. `right`: columns of numbers."""
    table = Table(title=title, title_justify="left")
    for column in columns:
        table.add_column(column, justify="right" if column in right else "left")
    return table


def show_changes(console: Console, lives: list[Life]) -> None:
    """Print the requests for changes of the partition's replicas, with reasons and outcomes."""
    table = _titled(
        "state changes of partition 0, and what the brokers made of them",
        ("offset", "request", "why", "outcome"),
        right=("offset",),
    )
    for life in lives:
        if life.request is not None:
            brokers: dict[str, list[str]] = {}
            for part in life.parts:
                brokers.setdefault(part.outcome, []).append(str(part.broker))
            outcomes = "; ".join(f"{outcome} by {', '.join(ids)}" for outcome, ids in brokers.items())
            table.add_row(str(life.offset), life.request.what, life.request.reason or "", outcomes)
    console.print(table)


def show_quorum(console: Console, cluster: LocalCluster) -> None:
    console.print(quorum_commands.quorum_table(ask_cluster(cluster.bootstrap, describe_quorum)))


def show_metrics(console: Console, cluster: LocalCluster) -> None:
    pages = {f"node {node}": cluster.metrics(node) for node in cluster.running()}
    title = f"raft-manager metrics from /metrics, less {_PREFIX}"
    table = _titled(title, ("metric", *pages), right=tuple(pages))
    for name in _SHOWN_METRICS:
        table.add_row(name, *(shown_value(page, _PREFIX + name) for page in pages.values()))
    console.print(table)


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
    table = Table(title="who led partition 0, as Spark sees the metadata log", title_justify="left")
    columns = ("from_offset", "leader", "leader_epoch", "partition_epoch", "isr", "valid_from", "valid_to")
    cells = [[_cell(row.get(column)) for column in columns] for row in rows]
    for index, column in enumerate(columns):
        # Headings wrap, what is in the rows does not.
        width = max((len(row[index]) for row in cells), default=0)
        table.add_column(column.replace("_", " "), min_width=width)
    for row in cells:
        table.add_row(*row)
    console.print(table)


def _cell(value: object) -> str:
    if isinstance(value, datetime.datetime):
        return value.strftime("%H:%M:%S")
    return "" if value is None else str(value)
