"""A real cluster under a script of faults: the report tells what was done to it, a pipeline too."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from quorate.cli.node.local_cluster import LocalCluster
from quorate.pipelines.tables import TABLES, all_tables, read_changes
from tests.cli.command import COMMAND, Processes, Quorate
from tests.kit.clusters import running_cluster, wait_in_sync

pytestmark = [pytest.mark.system, pytest.mark.spark, pytest.mark.slow]
TOPIC = "orders"
SETTINGS = {"broker.heartbeat.interval.ms": "100", "broker.session.timeout.ms": "3000"}
PRECISION_MS = 300
SECONDS = 300


@dataclass
class Script:
    """What was done, by the clock of this machine."""

    folder: Path
    """A node's folder, after the cluster stopped."""
    outages: dict[str, tuple[int, float, float]] = field(default_factory=dict)
    """By the kind of fault: the broker, and its begin and the next election, in seconds since the epoch."""


def partitions(cluster: LocalCluster) -> list[Any]:
    found: Any = cluster.describe_topic(TOPIC)["partitions"]
    return found


def led_by(cluster: LocalCluster, broker: int) -> bool:
    return any(each["leader"] in (broker, -1) for each in partitions(cluster))


def until(holds: Callable[[], bool]) -> float:
    """The time when it held."""
    deadline = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return time.time()


@pytest.fixture(scope="module")
def script(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Script]:
    folder = tmp_path_factory.mktemp("incident") / "cluster"
    with running_cluster(folder, overrides=SETTINGS) as cluster:
        command = Quorate().at(cluster)
        command.output("topics", "create", "-t", TOPIC, "--partitions", "6", "--replication-factor", "3")
        wait_in_sync(cluster, TOPIC)
        done = Script(cluster.node(1).folder / "data")
        controller = int(str(cluster.describe_quorum()["leaderId"]))
        follower, other = (number for number in (1, 2, 3) if number != controller)

        def fault(kind: str, broker: int, begin: Callable[[], object], end: Callable[[], object]) -> None:
            began = time.time()
            begin()
            elected = until(lambda: not led_by(cluster, broker))
            time.sleep(1)
            end()
            cluster.wait_ready()
            wait_in_sync(cluster, TOPIC)
            command.output("leader-election", "--election-type", "preferred", "--all-topic-partitions")
            done.outages[kind] = (broker, began, elected)

        fault("kill", follower, lambda: cluster.kill(follower), lambda: cluster.start(follower))
        fault(
            "stop",
            other,
            lambda: cluster.signal(other, signal.SIGSTOP),
            lambda: cluster.signal(other, signal.SIGCONT),
        )
        fault("shutdown", follower, lambda: cluster.stop(follower), lambda: cluster.start(follower))
        fault("controller", controller, lambda: cluster.kill(controller), lambda: cluster.start(controller))
        assert set(cluster.stop().values()) == {0}
        yield done


def report(script: Script, file: Path) -> Any:
    processes = Processes()
    try:
        ended = processes.run(
            "pipeline", "report", "--path", script.folder, "-o", file, "--json", seconds=SECONDS
        )
    finally:
        processes.kill_all()
    assert ended.code == 0, ended.errors
    return json.loads(ended.output)


def test_the_report_tells_what_was_done(script: Script, tmp_path: Path) -> None:
    told = report(script, tmp_path / "report.html")
    incidents = {
        kind: next(
            each
            for each in told["incidents"]
            if each["broker_id"] == broker and each["valid_from"] >= began * 1000 - PRECISION_MS
        )
        for kind, (broker, began, _) in script.outages.items()
    }
    for kind, each in incidents.items():
        assert (each["topics"], each["partitions"]) == ([TOPIC], 6), kind
    assert {kind: each["same_process"] for kind, each in incidents.items()} == {
        "kill": False,
        "stop": True,
        "shutdown": False,
        "controller": False,
    }
    assert incidents["stop"]["reason"] == "BROKER_FENCED"
    assert incidents["shutdown"]["reason"] == "CONTROLLED_SHUTDOWN"
    assert incidents["controller"]["led_quorum"]
    for kind in ("kill", "stop"):
        _, began, elected = script.outages[kind]
        caused_ms = (elected - began) * 1000
        assert abs(incidents[kind]["longest_outage_ms"] - caused_ms) < PRECISION_MS, kind
    assert incidents["shutdown"]["longest_outage_ms"] < PRECISION_MS
    page = (tmp_path / "report.html").read_text()
    assert f"Broker {script.outages['stop'][0]} went silent" in page


def in_order(frame: DataFrame) -> list[str]:
    return sorted(frame.toJSON().collect())


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
    expected = all_tables(read_changes(spark, {"path": str(script.folder)}).cache())
    for name in ("changes", *(table.name for table in TABLES)):
        table = spark.read.parquet(str(project / "tables" / name))
        assert in_order(table.select(*expected[name].columns)) == in_order(expected[name]), name
