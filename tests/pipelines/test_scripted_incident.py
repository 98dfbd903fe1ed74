"""A real cluster under a script of faults: the report tells what was done to it, a pipeline too."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from quorate.broker.admin.admin_client import AdminClient, TopicPartition
from quorate.broker.admin.replicas import read_cluster
from quorate.broker.admin.topics import describe_topics, topic_as_dict
from quorate.cli.console.connections import ask_cluster
from quorate.cli.node.local_cluster import LocalCluster
from quorate.cli.reassigning.moves import begin_moves
from quorate.pipelines.report.story import incident_title
from quorate.present import present
from tests.cli.command import COMMAND, Processes, Quorate
from tests.kit.clusters import running_cluster, wait_in_sync
from tests.pipelines.table_check import check_tables

pytestmark = [pytest.mark.system, pytest.mark.spark, pytest.mark.slow]
TOPIC = "orders"
MOVED = TopicPartition("parcels", 0)
SETTINGS = {"broker.heartbeat.interval.ms": "100", "broker.session.timeout.ms": "3000"}
PRECISION_MS = 300
SECONDS = 300


@dataclass(frozen=True)
class Fault:
    """What was done to a broker, by the clock of this machine, in ms since the Unix epoch."""

    broker: int
    led: int
    """The number of partitions that it led."""
    began_ms: float
    elected_ms: float
    """When the others had seen another leader of all that it led."""


@dataclass(frozen=True)
class Move:
    """A reassignment of `MOVED`."""

    original: list[int]
    target: list[int]
    began_ms: float
    ended_ms: float


@dataclass
class Script:
    """What was done."""

    folder: Path
    """A node's folder, after the cluster stopped."""
    faults: dict[str, Fault] = field(default_factory=dict)
    move: Move | None = None


@dataclass
class Operator:
    """Who does it."""

    cluster: LocalCluster

    @property
    def command(self) -> Quorate:
        return Quorate().at(self.cluster)

    def controller(self) -> int:
        return int(str(self.cluster.describe_quorum()["leaderId"]))

    def follower(self) -> int:
        """A broker that is not the active controller."""
        controller = self.controller()
        return next(node.node_id for node in self.cluster.nodes if node.node_id != controller)

    def fault(self, broker: int, begin: Callable[[int], object], end: Callable[[int], object]) -> Fault:
        """Let a fault begin, wait for other leaders, and let it end. The cluster is as before then."""
        led = sum(each["leader"] == broker for each in partitions_of(self.cluster.bootstrap, TOPIC))
        began_ms = now_ms()
        begin(broker)
        others = [node.client_port for node in self.cluster.nodes if node.node_id != broker]
        elected_ms = self._until(lambda: not self._led_by(broker, others))
        time.sleep(1)
        end(broker)
        self.cluster.wait_ready()
        wait_in_sync(self.cluster, TOPIC)
        self.command.output("leader-election", "--election-type", "preferred", "--all-topic-partitions")
        self._until(self._is_balanced)
        return Fault(broker, led, began_ms, elected_ms)

    def move(self) -> Move:
        """Create a topic on one broker, and move it to another one."""
        create = ("topics", "create", "-t", MOVED.topic, "--partitions", "1", "--replication-factor", "1")
        self.command.output(*create)
        wait_in_sync(self.cluster, MOVED.topic)
        original = self._replicas()
        target = [next(node.node_id for node in self.cluster.nodes if node.node_id not in original)]

        async def begin(admin: AdminClient) -> dict[TopicPartition, str]:
            return await begin_moves(admin, await read_cluster(admin), {MOVED: tuple(target)}, throttle=None)

        began_ms = now_ms()
        refused = ask_cluster(self.cluster.bootstrap, begin)
        assert not refused
        return Move(original, target, began_ms, self._until(lambda: self._replicas() == target))

    def _replicas(self) -> list[int]:
        (partition,) = partitions_of(self.cluster.bootstrap, MOVED.topic)
        replicas: list[int] = partition["replicas"]
        return replicas

    def _is_balanced(self) -> bool:
        found = partitions_of(self.cluster.bootstrap, TOPIC)
        return all(each["leader"] == each["replicas"][0] for each in found)

    def _led_by(self, broker: int, ports: list[int]) -> bool:
        """Ask the others: a process that is stopped takes a connection, and answers never."""
        addresses = ",".join(f"{self.cluster.host}:{port}" for port in ports)
        return any(each["leader"] in (broker, -1) for each in partitions_of(addresses, TOPIC))

    @staticmethod
    def _until(holds: Callable[[], bool]) -> float:
        """Return the time when it held."""
        deadline = time.monotonic() + 60
        while not holds():
            assert time.monotonic() < deadline
            time.sleep(0.02)
        return now_ms()


def now_ms() -> float:
    return time.time() * 1000


def partitions_of(bootstrap: str, topic: str) -> list[Any]:
    (described,) = ask_cluster(bootstrap, lambda admin: describe_topics(admin, topic))
    found: Any = topic_as_dict(described)["partitions"]
    return found


@pytest.fixture(scope="module")
def script(tmp_path_factory: pytest.TempPathFactory) -> Script:
    folder = tmp_path_factory.mktemp("incident") / "cluster"
    with running_cluster(folder, overrides=SETTINGS) as cluster:
        operator = Operator(cluster)
        create = ("topics", "create", "-t", TOPIC, "--partitions", "6", "--replication-factor", "3")
        operator.command.output(*create)
        wait_in_sync(cluster, TOPIC)
        done = Script(cluster.node(1).folder / "data")
        done.faults["controller"] = operator.fault(operator.controller(), cluster.kill, cluster.start)
        done.faults["kill"] = operator.fault(operator.follower(), cluster.kill, cluster.start)
        done.faults["stop"] = operator.fault(
            operator.follower(),
            lambda broker: cluster.signal(broker, signal.SIGSTOP),
            lambda broker: cluster.signal(broker, signal.SIGCONT),
        )
        done.faults["shutdown"] = operator.fault(operator.follower(), cluster.stop, cluster.start)
        done.move = operator.move()
        assert set(cluster.stop().values()) == {0}
        return done


@dataclass
class Told:
    """What `quorate pipeline report` made of the log."""

    incidents: list[Any]
    reassignments: list[Any]
    page: str

    def incident(self, fault: Fault) -> Any:
        """The first outage of the broker since the fault began. The cluster's end is one more."""
        return next(
            each
            for each in self.incidents
            if each["broker_id"] == fault.broker and each["valid_from"] >= fault.began_ms - PRECISION_MS
        )


@pytest.fixture(scope="module")
def told(script: Script, tmp_path_factory: pytest.TempPathFactory) -> Told:
    file = tmp_path_factory.mktemp("report") / "report.html"
    processes = Processes()
    try:
        ended = processes.run(
            "pipeline", "report", "--path", script.folder, "-o", file, "--json", seconds=SECONDS
        )
    finally:
        processes.kill_all()
    assert ended.code == 0, ended.errors
    found = json.loads(ended.output)
    return Told(found["incidents"], found["reassignments"], file.read_text())


KINDS = {
    "controller": ("BROKER_GONE", "BROKER_FENCED"),
    "kill": ("BROKER_GONE", "BROKER_FENCED"),
    "stop": ("BROKER_FENCED",),
    "shutdown": ("CONTROLLED_SHUTDOWN",),
}
"""The faults, and the reasons that may be found: a controller notices a killed process by its closed
connection, or else by its silence."""


@pytest.mark.parametrize("kind", KINDS)
def test_the_report_names_the_broker_its_partitions_and_the_reason(
    script: Script, told: Told, kind: str
) -> None:
    fault = script.faults[kind]
    incident = told.incident(fault)
    assert incident["reason"] in KINDS[kind]
    assert (incident["topics"], incident["partitions"]) == ([TOPIC], 6)
    assert incident["led"] == fault.led > 0
    assert incident["led_quorum"] == (kind == "controller")
    assert incident["same_process"] == (kind == "stop")
    assert f"<h3>{incident_title(incident)}</h3>" in told.page


@pytest.mark.parametrize("kind", ["controller", "kill", "stop"])
def test_the_report_has_the_outage_that_was_caused(script: Script, told: Told, kind: str) -> None:
    fault = script.faults[kind]
    caused_ms = fault.elected_ms - fault.began_ms
    assert abs(told.incident(fault)["longest_outage_ms"] - caused_ms) < PRECISION_MS


def test_a_controlled_shutdown_leaves_no_partition_without_a_leader(script: Script, told: Told) -> None:
    assert told.incident(script.faults["shutdown"])["longest_outage_ms"] < PRECISION_MS


def test_the_report_has_the_reassignment(script: Script, told: Told) -> None:
    move = present(script.move, "the move of the script")
    (row,) = told.reassignments
    assert (row["topic"], row["partition_id"]) == (MOVED.topic, MOVED.partition)
    assert (row["original"], row["target"]) == (move.original, move.target)
    assert move.began_ms <= row["valid_from"] <= row["valid_to"] <= move.ended_ms


def test_a_pipeline_that_was_killed_ends_with_the_tables_of_a_batch_query(
    spark: SparkSession, script: Script, tmp_path: Path
) -> None:
    project = tmp_path / "history"
    Quorate().output("pipeline", "init", project, "--path", script.folder)
    chance = random.Random(1)
    run = [*COMMAND, "pipeline", "run", str(project)]
    for _ in range(3):
        process = subprocess.Popen(run, start_new_session=True, stdout=sys.stderr)
        time.sleep(chance.uniform(10, 40))
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    ended = subprocess.run(run, capture_output=True, text=True, timeout=SECONDS, check=False)
    assert ended.returncode == 0, ended.stderr
    # Nothing is new.
    again = subprocess.run(run, capture_output=True, text=True, timeout=SECONDS, check=False)
    assert again.returncode == 0, again.stderr
    check_tables(spark, project, script.folder)
