"""`quorate demo`: an operator's day, from an empty folder to a Spark table, with a kill -9 in the middle."""

import signal
import sys
import tempfile
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated

import typer

from quorate.cli.console import ExitCode, fail, user_errors

if TYPE_CHECKING:
    from rich.console import Console

    from quorate.cli.demo.demo_operations import DemoPartition
    from quorate.cli.demo.demo_report import DemoReport
    from quorate.cli.demo.demo_spark import SparkAhead
    from quorate.cli.node import LocalCluster

TOPIC = "demo"
NODES = 3
GROUP = "demo"
_SETTINGS = {
    # With a replica of each group's offsets on every node, there would be nowhere to drain one of three to.
    "offsets.topic.replication.factor": "2",
    "offsets.topic.num.partitions": "6",
    # Nobody else is going to join.
    "group.initial.rebalance.delay.ms": "0",
}
_RECORD_BYTES = 256 * 1024
"""The bytes after which a line is cut into pieces: brokers take 1 MiB at once by default."""
_REASONS = ("broker", "replica caught up", "reassignment")
"""In the reasons of the changes, at the least: why a dead broker is out is told in more than one way."""


def demo(
    file: Annotated[
        Path, typer.Option("--file", "-f", help="The file to send.", exists=True, dir_okay=False)
    ] = Path("README.md"),
    spark: Annotated[bool, typer.Option("--spark/--no-spark", help="Show the Spark table.")] = True,
) -> None:
    """Show an operator's day in a minute: send a file through three nodes, kill the leader halfway, watch the
    lag of a group, move a partition, drain a broker, and compare what came back with what was sent."""
    try:
        import confluent_kafka  # noqa: F401
    except ImportError:
        raise fail("the demo needs a Kafka client: pip install 'quorate[demo]'", ExitCode.USAGE) from None
    with user_errors():
        data = file.read_bytes()
    if not data:
        raise fail(f"{file} is empty; choose a file with something in it", ExitCode.USAGE)
    from rich.console import Console

    from quorate.cli.node import LocalCluster

    # The nodes end with the demo: an exception passes the `finally` below, a signal alone does not.
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _exit)
    console = Console()
    with tempfile.TemporaryDirectory(prefix="quorate-demo-") as folder:
        cluster = LocalCluster.plan(Path(folder) / "cluster", nodes=NODES, client_port=0, overrides=_SETTINGS)
        ahead = None
        try:
            with user_errors():
                if spark:
                    from quorate.cli.demo.demo_spark import SparkAhead

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
) -> "DemoReport":
    from quorate.cli.demo.demo_client import create_topic
    from quorate.cli.demo.demo_operations import DemoPartition
    from quorate.cli.demo.demo_report import DemoReport, show_metrics, show_quorum

    report = DemoReport(console)
    with report.step(f"start {NODES} nodes") as result:
        cluster.prepare()
        cluster.start()
        cluster.wait_ready()
        result.append(cluster.bootstrap)
    partition = DemoPartition(cluster, TOPIC)
    with report.step(f"create topic {TOPIC} with {NODES} replicas") as result:
        create_topic(cluster.bootstrap, TOPIC, replicas=NODES)
        partition.wait_known()
        leader = partition.leader()
        created_at = partition.metadata_offset()
        result.append(f"node {leader} leads partition 0")
    successor = _send(report, cluster, partition, file, data, leader=leader)
    _read(report, cluster, partition, data)
    with report.step(f"bring node {leader} back") as result:
        cluster.start(leader)
        isr = partition.wait_in_sync(leader)
        result.append(f"in sync again: {isr}")
    _move(report, cluster, partition, data, leader=leader, successor=successor)
    _look_back(report, partition, created_at, leader=leader)
    _show_changes(report, partition)
    show_quorum(console, cluster)
    show_metrics(console, cluster)
    if spark is not None:
        _show_spark(report, cluster, spark, leader=leader, successor=successor)
    with report.step("stop in order") as result:
        codes = cluster.stop()
        _compare("the exit codes of the nodes", dict.fromkeys(codes, 0), codes)
        result.append("exit code 0 from every node")
    return report


def _compare(what: str, expected: object, seen: object) -> None:
    from quorate.cli.demo.demo_operations import DemoError

    if seen != expected:
        raise DemoError(f"{what}: expected {expected}, and saw {seen}")


def _send(
    report: "DemoReport",
    cluster: "LocalCluster",
    partition: "DemoPartition",
    file: Path,
    data: bytes,
    *,
    leader: int,
) -> int:
    """Send the file, with a kill -9 of the leader halfway. Return the next leader."""
    from quorate.cli.demo.demo_client import produce
    from quorate.cli.demo.demo_operations import DemoError

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
        successor = partition.leader()
        result.append(f"{len(lines) - half} records; node {successor} leads now")
        if successor == leader:
            raise DemoError(f"node {leader} is dead and still said to lead")
        if offsets != sorted(set(offsets)):
            raise DemoError("the acknowledged offsets are not distinct and in order")
    return successor


def _read(report: "DemoReport", cluster: "LocalCluster", partition: "DemoPartition", data: bytes) -> None:
    """Read everything back in a group, in two parts, with the lag after each."""
    from quorate.cli.demo.demo_client import consume_all

    records = len(split_records(data))
    first = max(1, records // 2)
    with report.step(f"read {first} records in group {GROUP}, and ask for its lag") as result:
        received = consume_all(cluster.bootstrap, TOPIC, group=GROUP, count=first)
        lag = partition.lag(GROUP)
        _compare("the lag of the group", records - first, lag)
        result.append(f"lag {lag}, as expected")
    with report.step("read the rest in the same group") as result:
        if records > first:
            received += consume_all(cluster.bootstrap, TOPIC, group=GROUP, count=records - first)
        _compare_bytes(received, data)
        lag = partition.lag(GROUP)
        _compare("the lag of the group", 0, lag)
        result.append(f"{len(received)} records, byte for byte the same; lag 0")


def _compare_bytes(received: list[bytes], data: bytes) -> None:
    from quorate.cli.demo.demo_operations import DemoError

    back = b"".join(received)
    if back != data:
        raise DemoError(f"what came back differs: {len(back)} bytes for {len(data)} sent")


def _move(
    report: "DemoReport",
    cluster: "LocalCluster",
    partition: "DemoPartition",
    data: bytes,
    *,
    leader: int,
    successor: int,
) -> None:
    """Let the partition have two replicas, empty the broker of one of them, and read everything again."""
    from quorate.cli.demo.demo_client import consume_all
    from quorate.cli.demo.demo_operations import drain

    target = [successor, leader]
    with report.step(f"reassign: two replicas in place of three, on nodes {target}") as result:
        partition.move(target)
        result.append(f"replicas {partition.replicas()}, as expected")
    with report.step(f"drain node {successor}") as result:
        moved = drain(cluster, successor)
        (other,) = {node.node_id for node in cluster.nodes} - {*target}
        _compare("the replicas", {other, leader}, {*partition.replicas()})
        result.append(f"{moved} replicas moved away, none is left; {TOPIC} is on {partition.replicas()}")
    with report.step("read everything again, from where it is now") as result:
        received = consume_all(
            cluster.bootstrap, TOPIC, group=f"{GROUP}-again", count=len(split_records(data))
        )
        _compare_bytes(received, data)
        result.append(f"{len(received)} records, byte for byte the same")


def _look_back(report: "DemoReport", partition: "DemoPartition", created_at: int, *, leader: int) -> None:
    with report.step("look back: the metadata as they were when the topic was new") as result:
        state = partition.as_it_was(created_at)
        _compare(f"the leader at offset {created_at}", leader, state.leader)
        _compare(f"the ISR at offset {created_at}", NODES, len(state.isr))
        result.append(f"at offset {created_at}: node {state.leader} led, in sync {sorted(state.isr)}")


def _show_changes(report: "DemoReport", partition: "DemoPartition") -> None:
    from quorate.cli.demo.demo_report import show_changes

    with report.step("the state changes of it all") as result:
        lives = partition.state_changes()
        reasons = {life.request.reason for life in lives if life.request is not None}
        seen = {each for each in _REASONS if any(reason and each in reason for reason in reasons)}
        _compare("the reasons of the changes", {*_REASONS}, seen)
        parts = [part for life in lives for part in life.parts]
        _compare("the changes that failed", [], [part.problem for part in parts if part.outcome == "failed"])
        result.append(f"{len(lives)} were requested, by a dead broker, its return and two moves; none failed")
    show_changes(report.console, lives)


def _show_spark(
    report: "DemoReport", cluster: "LocalCluster", spark: "SparkAhead", *, leader: int, successor: int
) -> None:
    from quorate.cli.demo.demo_operations import DemoError
    from quorate.cli.demo.demo_report import show_history
    from quorate.cli.demo.demo_spark import leader_of

    with report.step("leadership history in Spark, read from the metadata log") as result:
        rows = spark.leadership_rows(cluster.bootstrap, TOPIC)
        leaders = [leader_of(row) for row in rows if leader_of(row) >= 0]
        if leaders[:1] != [leader] or successor not in leaders:
            raise DemoError(f"the leadership history is {leaders}, expected {leader}, then {successor}")
        distinct = [each for at, each in enumerate(leaders) if at == 0 or leaders[at - 1] != each]
        result.append(" → ".join(f"node {each}" for each in distinct))
    show_history(report.console, rows)
