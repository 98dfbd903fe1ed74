"""An operator's day, from an empty folder to a report by Spark, with a kill -9 in the middle."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rich.console import Console

from quorate.cli.console.cli_errors import user_errors
from quorate.cli.console.output import print_table
from quorate.cli.demo.demo_client import consume_all, create_topic, produce
from quorate.cli.demo.demo_operations import DemoError, DemoPartition, drain
from quorate.cli.demo.demo_report import (
    DemoReport,
    show_changes,
    show_history,
    show_metrics,
    show_quorum,
)
from quorate.cli.demo.demo_spark import SparkAhead, Tables, leader_of, leadership_rows
from quorate.cli.node.local_cluster import LocalCluster

TOPIC: Final = "demo"
NODES: Final = 3
GROUP: Final = "demo"
_SETTINGS: Final = {
    # With a replica of each group's offsets on every node, there would be nowhere to drain one of three to.
    "offsets.topic.replication.factor": "2",
    "offsets.topic.num.partitions": "6",
    # No other member is going to join.
    "group.initial.rebalance.delay.ms": "0",
}
_RECORD_BYTES: Final = 256 * 1024
"""The bytes after which a line is cut into pieces: brokers take 1 MiB at once by default."""
_REASONS: Final = ("broker", "replica caught up", "reassignment")
"""Parts of the reasons of the changes. A dead broker is a reason in more than one wording."""


def run_demo(folder: Path, file_name: str, data: bytes, *, report_file: Path | None) -> None:
    """Show the day, and exit with the comparison that did not hold. The cluster is in `folder`.

    `report_file`: the file for the report that Spark makes of the metadata log. None: Spark is left out.
    """
    report = DemoReport(Console())
    cluster = LocalCluster.plan(folder, nodes=NODES, client_port=0, overrides=_SETTINGS)
    demo = _Demo(report, cluster, DemoPartition(cluster, TOPIC), file_name, split_records(data))
    ahead = None if report_file is None else SparkAhead(report_file)
    try:
        with user_errors():
            demo.run(ahead)
    finally:
        cluster.kill_all()
        if ahead is not None:
            ahead.stop()
    print_table(report.table(), report.console)
    report.console.print(
        f"[green]every comparison held[/green]: {len(data):,} bytes in, the same {len(data):,} bytes out"
    )
    if report_file is not None:
        place = f"the report, for a browser: {report_file.absolute()}"
        report.console.print(place, markup=False, soft_wrap=True)


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


@dataclass(frozen=True, slots=True)
class _Demo:
    """The steps of the day."""

    report: DemoReport
    cluster: LocalCluster
    partition: DemoPartition
    file_name: str
    records: list[bytes]

    def run(self, spark: SparkAhead | None) -> None:
        cluster, partition = self.cluster, self.partition
        with self.report.step(f"start {NODES} nodes") as result:
            cluster.prepare()
            cluster.start()
            cluster.wait_ready()
            result.append(cluster.bootstrap)
        with self.report.step(f"create topic {TOPIC} with {NODES} replicas") as result:
            create_topic(cluster.bootstrap, TOPIC, replicas=NODES)
            partition.wait_known()
            leader = partition.leader()
            created_at = partition.metadata_offset()
            result.append(f"node {leader} leads partition 0")
        successor = self._send(leader)
        self._read()
        with self.report.step(f"bring node {leader} back") as result:
            cluster.start(leader)
            isr = partition.wait_in_sync(leader)
            result.append(f"in sync again: {isr}")
        self._move([successor, leader])
        self._look_back(created_at, leader)
        self._show_changes()
        show_quorum(self.report.console, cluster)
        show_metrics(self.report.console, cluster)
        if spark is not None:
            tables = self._show_spark(spark, leader, successor)
            self._report_incident(spark, tables, leader)
        with self.report.step("stop in order") as result:
            codes = cluster.stop()
            _compare("the exit codes of the nodes", dict.fromkeys(codes, 0), codes)
            result.append("exit code 0 from every node")

    def _send(self, leader: int) -> int:
        """Send the file, with a kill -9 of the leader halfway. Return the next leader."""
        half = len(self.records) // 2
        with self.report.step("send the first half, acks=all") as result:
            offsets = produce(self.cluster.bootstrap, TOPIC, self.records[:half])
            result.append(f"{half} records, from {self.file_name}")
        with self.report.step(f"kill -9 node {leader}, which leads") as result:
            self.cluster.kill(leader)
            result.append(f"nodes {self.cluster.running()} go on")
        with self.report.step("send the rest through the new leader") as result:
            offsets += produce(self.cluster.bootstrap, TOPIC, self.records[half:])
            successor = self.partition.leader()
            result.append(f"{len(self.records) - half} records; node {successor} leads now")
            if successor == leader:
                raise DemoError(f"node {leader} is dead and still said to lead")
            if offsets != sorted(set(offsets)):
                raise DemoError("the acknowledged offsets are not distinct and in order")
        return successor

    def _read(self) -> None:
        """Read everything back in a group, in two parts, with the lag after each."""
        count = len(self.records)
        first = max(1, count // 2)
        with self.report.step(f"read {first} records in group {GROUP}, and ask for its lag") as result:
            received = consume_all(self.cluster.bootstrap, TOPIC, group=GROUP, count=first)
            lag = self.partition.lag(GROUP)
            _compare("the lag of the group", count - first, lag)
            result.append(f"lag {lag}, as expected")
        with self.report.step("read the rest in the same group") as result:
            if count > first:
                received += consume_all(self.cluster.bootstrap, TOPIC, group=GROUP, count=count - first)
            _compare_bytes(received, self.records)
            _compare("the lag of the group", 0, self.partition.lag(GROUP))
            result.append(f"{len(received)} records, byte for byte the same; lag 0")

    def _move(self, target: list[int]) -> None:
        """Let the partition have two replicas, empty the broker of the first, and read everything again."""
        partition, (successor, leader) = self.partition, target
        with self.report.step(f"reassign: two replicas in place of three, on nodes {target}") as result:
            partition.move(target)
            result.append(f"replicas {partition.replicas()}, as expected")
        with self.report.step(f"drain node {successor}") as result:
            moved = drain(self.cluster, successor)
            (other,) = {node.node_id for node in self.cluster.nodes} - {*target}
            _compare("the replicas", {other, leader}, {*partition.replicas()})
            result.append(f"{moved} replicas moved away, none is left; {TOPIC} is on {partition.replicas()}")
        with self.report.step("read everything again, from where it is now") as result:
            group, count = f"{GROUP}-again", len(self.records)
            received = consume_all(self.cluster.bootstrap, TOPIC, group=group, count=count)
            _compare_bytes(received, self.records)
            result.append(f"{len(received)} records, byte for byte the same")

    def _look_back(self, created_at: int, leader: int) -> None:
        with self.report.step("look back: the metadata as they were when the topic was new") as result:
            state = self.partition.as_it_was(created_at)
            _compare(f"the leader at offset {created_at}", leader, state.leader)
            _compare(f"the ISR at offset {created_at}", NODES, len(state.isr))
            result.append(f"at offset {created_at}: node {state.leader} led, in sync {sorted(state.isr)}")

    def _show_changes(self) -> None:
        with self.report.step("the state changes of it all") as result:
            lives = self.partition.state_changes()
            reasons = {life.request.reason for life in lives if life.request is not None}
            seen = {each for each in _REASONS if any(reason and each in reason for reason in reasons)}
            _compare("the reasons of the changes", {*_REASONS}, seen)
            parts = [part for life in lives for part in life.parts]
            failed = [part.problem for part in parts if part.outcome == "failed"]
            _compare("the changes that failed", [], failed)
            result.append(
                f"{len(lives)} were requested, by a dead broker, its return and two moves; none failed"
            )
        show_changes(self.report.console, lives)

    def _show_spark(self, spark: SparkAhead, leader: int, successor: int) -> Tables:
        with self.report.step("leadership history in Spark, read from the metadata log") as result:
            tables = spark.read_tables(self.cluster.bootstrap)
            rows = leadership_rows(tables, TOPIC)
            leaders = [leader_of(row) for row in rows if leader_of(row) >= 0]
            if leaders[:1] != [leader] or successor not in leaders:
                raise DemoError(f"the leadership history is {leaders}, expected {leader}, then {successor}")
            distinct = [each for at, each in enumerate(leaders) if at == 0 or leaders[at - 1] != each]
            result.append(" → ".join(f"node {each}" for each in distinct))
        show_history(self.report.console, rows)
        return tables

    def _report_incident(self, spark: SparkAhead, tables: Tables, leader: int) -> None:
        """Write the report, and find the kill in it."""
        with self.report.step("report what happened, from the metadata log alone") as result:
            told = [each for each in spark.write_report(tables) if each.broker == leader]
            if not told:
                raise DemoError(f"the report does not tell that node {leader} was killed")
            _compare(f"the partitions that node {leader} led", 1, told[0].led)
            result.append(f"{told[0].title}; partition 0 had another leader after {told[0].outage}")


def _compare(what: str, expected: object, seen: object) -> None:
    if seen != expected:
        raise DemoError(f"{what}: expected {expected}, and saw {seen}")


def _compare_bytes(received: list[bytes], sent: list[bytes]) -> None:
    back, data = b"".join(received), b"".join(sent)
    if back != data:
        raise DemoError(f"what came back differs: {len(back)} bytes for {len(data)} sent")
