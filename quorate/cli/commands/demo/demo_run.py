"""`quorate demo`: the main job, from an empty folder to a Spark table, with a kill -9 in the middle."""

import datetime
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated

import typer

from quorate.cli.cli_errors import CommandError, ExitCode, fail, user_errors

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from quorate.cli.commands.demo.demo_spark import SparkAhead
    from quorate.cli.local_cluster import LocalCluster

TOPIC = "demo"
NODES = 3
_ISR_SECONDS = 30.0
_RECORD_BYTES = 256 * 1024
"""The bytes after which a line is cut into pieces: brokers take 1 MiB at once by default."""
_PREFIX = "raft_manager_"
_SHOWN_METRICS = ("current_state", "current_leader", "current_epoch", "high_watermark", "log_end_offset",
                  "commit_latency_avg_seconds", "append_records_total")  # fmt: skip


class DemoError(CommandError):
    """A comparison did not hold."""


@dataclass(slots=True)
class Report:
    """The events of the demo, and the duration of each step."""

    console: "Console"
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

    def table(self) -> "Table":
        from rich.table import Table

        table = Table(title="what happened", title_justify="left")
        table.add_column("step")
        table.add_column("result")
        table.add_column("seconds", justify="right")
        for title, result, seconds in self.steps:
            table.add_row(title, result, f"{seconds:.1f}")
        table.add_row("in all", "", f"{sum(seconds for *_, seconds in self.steps):.1f}")
        return table


def demo(
    file: Annotated[
        Path, typer.Option("--file", "-f", help="The file to send.", exists=True, dir_okay=False)
    ] = Path("README.md"),
    spark: Annotated[bool, typer.Option("--spark/--no-spark", help="Show the Spark table.")] = True,
) -> None:
    """Send a file through three nodes, kill the leader halfway, and show that no record was lost."""
    try:
        import confluent_kafka  # noqa: F401
    except ImportError:
        raise fail("the demo needs a Kafka client: pip install 'quorate[demo]'", ExitCode.USAGE) from None
    with user_errors():
        data = file.read_bytes()
    if not data:
        raise fail(f"{file} is empty; choose a file with something in it", ExitCode.USAGE)
    from rich.console import Console

    from quorate.cli.local_cluster import LocalCluster

    # The nodes end with the demo: an exception passes the `finally` below, a signal alone does not.
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _exit)
    console = Console()
    with tempfile.TemporaryDirectory(prefix="quorate-demo-") as folder:
        cluster = LocalCluster.plan(Path(folder) / "cluster", nodes=NODES, client_port=0)
        ahead = None
        try:
            with user_errors():
                if spark:
                    from quorate.cli.commands.demo.demo_spark import SparkAhead

                    ahead = SparkAhead()
                report = _run(console, cluster, file, data, ahead)
        finally:
            cluster.kill_all()
            if ahead is not None:
                ahead.stop()
    console.print(report.table())
    console.print(
        f"[green]every comparison held[/green]: {len(data):,} bytes in, the same {len(data):,} bytes out"
    )


def split_records(data: bytes) -> list[bytes]:
    """Return a record per line, long lines in pieces; at least two, so that one is left to send after the
    kill, unless there is but one byte. Joined they are `data`."""
    if len(data) > 1 and data.count(b"\n", 0, -1) == 0:
        middle = len(data) // 2
        parts = [data[:middle], data[middle:]]
    else:
        parts = data.split(b"\n")
        parts = [line + b"\n" for line in parts[:-1]] + ([parts[-1]] if parts[-1] else [])
    return [
        part[start : start + _RECORD_BYTES] for part in parts for start in range(0, len(part), _RECORD_BYTES)
    ]


def _exit(number: int, frame: FrameType | None) -> None:
    sys.exit(128 + number)


def _run(
    console: "Console", cluster: "LocalCluster", file: Path, data: bytes, spark: "SparkAhead | None"
) -> Report:
    from quorate.cli.commands.demo.demo_client import consume_all, create_topic, produce

    report = Report(console)
    with report.step(f"start {NODES} nodes") as result:
        cluster.prepare()
        cluster.start()
        cluster.wait_ready()
        result.append(cluster.bootstrap)
    with report.step(f"create topic {TOPIC} with {NODES} replicas") as result:
        create_topic(cluster.bootstrap, TOPIC, replicas=NODES)
        leader = _leader(cluster)
        result.append(f"node {leader} leads partition 0")

    lines = split_records(data)
    half = len(lines) // 2
    with report.step("send the first half, acks=all") as result:
        offsets = produce(cluster.bootstrap, TOPIC, lines[:half])
        result.append(f"{half} records, from {file.name}")
    with report.step(f"kill -9 node {leader}, which leads") as result:
        cluster.kill(leader)
        result.append(f"nodes {cluster.running()} go on")
    with report.step("send the rest through the new leader") as result:
        offsets += produce(cluster.bootstrap, TOPIC, lines[half:])
        successor = _leader(cluster)
        result.append(f"{len(lines) - half} records; node {successor} leads now")
        if successor == leader:
            raise DemoError(f"node {leader} is dead and still said to lead")
    with report.step("read everything back in a consumer group") as result:
        received = consume_all(cluster.bootstrap, TOPIC, group="demo", count=len(lines))
        if b"".join(received) != data:
            raise DemoError(f"what came back differs: {len(b''.join(received))} bytes for {len(data)} sent")
        if offsets != sorted(set(offsets)):
            raise DemoError("the acknowledged offsets are not distinct and in order")
        result.append(f"{len(received)} records, byte for byte the same")
    with report.step(f"bring node {leader} back") as result:
        cluster.start(leader)
        isr = _wait_in_sync(cluster, leader)
        result.append(f"in sync again: {isr}")

    _show_quorum(console, cluster)
    _show_metrics(console, cluster)
    if spark is not None:
        with report.step("leadership history in Spark, read from the metadata log") as result:
            from quorate.cli.commands.demo.demo_spark import leader_of

            rows = spark.leadership_rows(cluster.bootstrap, TOPIC)
            leaders = [leader_of(row) for row in rows if leader_of(row) >= 0]
            if leaders[:1] != [leader] or successor not in leaders:
                raise DemoError(f"the leadership history is {leaders}, expected {leader}, then {successor}")
            distinct = [each for at, each in enumerate(leaders) if at == 0 or leaders[at - 1] != each]
            result.append(" → ".join(f"node {each}" for each in distinct))
        _show_history(console, rows)
    with report.step("stop in order") as result:
        codes = cluster.stop()
        if any(codes.values()):
            raise DemoError(f"nodes did not stop cleanly: exit codes {codes}")
        result.append("exit code 0 from every node")
    return report


def _partition(cluster: "LocalCluster") -> dict[str, object]:
    described = cluster.describe_topic(TOPIC)
    partitions = described["partitions"]
    assert isinstance(partitions, list)
    partition: dict[str, object] = partitions[0]
    return partition


def _leader(cluster: "LocalCluster") -> int:
    leader = _partition(cluster)["leader"]
    assert isinstance(leader, int)
    return leader


def _wait_in_sync(cluster: "LocalCluster", node: int) -> list[int]:
    deadline = time.monotonic() + _ISR_SECONDS
    while time.monotonic() < deadline:
        isr = _partition(cluster)["isr"]
        assert isinstance(isr, list)
        if node in isr:
            return sorted(isr)
        time.sleep(0.1)
    raise DemoError(
        f"node {node} did not return to the ISR within {_ISR_SECONDS:g} s:\n{cluster.last_lines(node)}"
    )


def _show_quorum(console: "Console", cluster: "LocalCluster") -> None:
    from quorate.cli.bootstrap import ask_cluster
    from quorate.cli.commands.quorum_commands import quorum_table
    from quorate.cli.kafka_requests import describe_quorum

    console.print(quorum_table(ask_cluster(cluster.bootstrap, describe_quorum)))


def _show_metrics(console: "Console", cluster: "LocalCluster") -> None:
    from rich.table import Table

    table = Table(title=f"raft-manager metrics from /metrics, less {_PREFIX}", title_justify="left")
    table.add_column("metric")
    pages = {}
    for node in cluster.running():
        table.add_column(f"node {node}", justify="right")
        pages[node] = cluster.metrics(node)
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


def _show_history(console: "Console", rows: list[dict[str, object]]) -> None:
    from rich.table import Table

    table = Table(title=f"who led {TOPIC}-0, as Spark sees the metadata log", title_justify="left")
    columns = ("offset", "leader", "leader_epoch", "partition_epoch", "isr", "valid_from", "valid_to")
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
