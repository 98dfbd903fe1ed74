"""Pipelines under kill -9 of drivers, executors and brokers, on a log that grows and loses its begin."""

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from quorate.cli.node.free_ports import free_ports
from quorate.cli.node.local_cluster import LocalCluster
from tests.cli.command import COMMAND, Quorate
from tests.kit.clusters import running_cluster
from tests.pipelines.spark_processes import SparkProcesses, processes_below, use_master
from tests.pipelines.table_check import check_tables

pytestmark = [pytest.mark.system, pytest.mark.spark, pytest.mark.slow]
SECONDS = 600
KEPT_BYTES = 200_000
RECORD_BYTES = 100
"""The size of most records."""
VOTERS = (1, 2, 3)
WHOLE = 4
"""An observer, which keeps the whole log: it is what a batch query reads."""
SHORT = (
    "metadata.log.segment.bytes=8192\nmetadata.log.max.record.bytes.between.snapshots=16384\n"
    f"metadata.max.retention.bytes={KEPT_BYTES}\n"
)


@dataclass
class Cluster:
    """A cluster whose voters keep only the end of the log."""

    nodes: LocalCluster
    topics: int = 0

    @property
    def bootstrap(self) -> str:
        return ",".join(f"{self.nodes.host}:{self.nodes.node(voter).client_port}" for voter in VOTERS)

    def change(self) -> None:
        """Create a topic, and remove the one before. So snapshots stay small."""
        self.topics += 1
        name, quorate = f"t{self.topics}", Quorate().at(self.bootstrap)
        quorate.output("topics", "create", "-t", name, "--partitions", 40, "--replication-factor", 3)
        if self.topics > 1:
            quorate.output("topics", "delete", "-t", f"t{self.topics - 1}")

    def end(self) -> int:
        """The end offset of the log."""
        return int(str(self.nodes.describe_quorum()["highWatermark"]))

    def is_cut(self) -> bool:
        """Whether the snapshot of each voter is in the place of the log's begin."""
        return all(min(int(file.stem) for file in self._segments(voter)) > 0 for voter in VOTERS)

    def kill_and_bring_back(self, chance: random.Random) -> None:
        """Kill the active controller, or another voter."""
        leader = int(str(self.nodes.describe_quorum()["leaderId"]))
        victim = leader if chance.random() < 0.6 else chance.choice(VOTERS)
        self.nodes.kill(victim)
        time.sleep(chance.uniform(0, 5))
        self.nodes.start(victim)
        self.nodes.wait_ready(seconds=120)

    def _segments(self, node: int) -> list[Path]:
        return list((self.nodes.node(node).folder / "data" / "__cluster_metadata-0").glob("*.log"))


@dataclass
class Runner:
    """Runs a project, undisturbed or not."""

    project: Path
    options: tuple[str, ...] = ()
    executors: Callable[[int], list[int]] = lambda driver: processes_below(driver, "pyspark.daemon")
    """The processes that execute the tasks of a driver."""
    kill_driver: Callable[[subprocess.Popen[bytes]], None] = lambda run: os.killpg(run.pid, signal.SIGKILL)
    """Kill the driver of a run, and bring it back if runs share it."""
    hits: int = 0
    """The number of kills that met a run in progress."""

    def command(self, *options: object) -> list[str]:
        return [*COMMAND, "pipeline", "run", str(self.project), *self.options, *map(str, options)]

    def run(self, *options: object) -> None:
        ended = subprocess.run(
            self.command(*options), capture_output=True, text=True, timeout=SECONDS, check=False
        )
        assert ended.returncode == 0, ended.stderr

    def disturb(self, kind: str, cluster: Cluster, chance: random.Random) -> None:
        """Begin a run, let something be killed in the middle of it, and wait until it has ended somehow."""
        process = subprocess.Popen(self.command(), start_new_session=True, stdout=sys.stderr)
        try:
            self._wait_executing(process)
            time.sleep(chance.uniform(0, 10))
            if process.poll() is None:
                self.hits += 1
                match kind:
                    case "driver":
                        self.kill_driver(process)
                    case "executor":
                        self._kill_executor(process, chance)
                    case _:
                        cluster.kill_and_bring_back(chance)
            process.wait(timeout=SECONDS)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()

    def _wait_executing(self, process: subprocess.Popen[bytes]) -> None:
        while process.poll() is None and not self.executors(process.pid):
            time.sleep(0.2)

    def _kill_executor(self, process: subprocess.Popen[bytes], chance: random.Random) -> None:
        if found := self.executors(process.pid):
            with suppress(ProcessLookupError):  # it may end by itself
                os.kill(chance.choice(found), signal.SIGKILL)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    def shorten(nodes: LocalCluster) -> None:
        for voter in VOTERS:
            with nodes.node(voter).config_file.open("a") as file:
                file.write(SHORT)

    with running_cluster(tmp_path / "cluster", nodes=4, voters=3, before_start=shorten) as nodes:
        yield Cluster(nodes)


@pytest.fixture
def project(cluster: Cluster, tmp_path: Path) -> Path:
    folder = tmp_path / "history"
    Quorate().output("pipeline", "init", folder, "--bootstrap-server", cluster.bootstrap)
    return folder


@pytest.fixture
def kills(request: pytest.FixtureRequest) -> int:
    """The number of kills: 7 in each test are more than twenty in all."""
    return int(request.config.getoption("--kills"))


def check_kills(spark: SparkSession, cluster: Cluster, runner: Runner, *, kills: int, seed: int) -> None:
    """Kill so many things while the pipeline runs. At half time the log loses what was read of it."""
    chance = random.Random(seed)
    kinds = [("driver", "executor", "broker")[number % 3] for number in range(kills)]
    chance.shuffle(kinds)
    print(f"seed {seed}: {' '.join(kinds)}")
    for number, kind in enumerate(kinds):
        if number == kills // 2:
            # What the voters keep, after they have cut the log, has to begin before the end of this run.
            while cluster.end() < KEPT_BYTES / RECORD_BYTES * 0.6:
                cluster.change()
            runner.run()
            while not cluster.is_cut():
                cluster.change()
        cluster.change()
        runner.disturb(kind, cluster, chance)
    assert runner.hits > kills / 2, f"only {runner.hits} of {kills} kills met a run"
    assert set(cluster.nodes.stop().values()) == {0}
    whole = cluster.nodes.node(WHOLE).folder / "data"
    runner.run("--path", whole)
    check_tables(spark, runner.project, whole)


def test_kills_leave_no_trace_on_one_machine(
    spark: SparkSession, cluster: Cluster, project: Path, kills: int
) -> None:
    check_kills(spark, cluster, Runner(project), kills=kills, seed=21)


def test_kills_leave_no_trace_on_a_standalone_cluster(
    spark: SparkSession, cluster: Cluster, project: Path, spark_processes: SparkProcesses, kills: int
) -> None:
    address, workers = spark_processes.standalone()
    use_master(project, address)

    def executors(_: int) -> list[int]:
        return [
            each for worker in workers for each in processes_below(worker.pid, "CoarseGrainedExecutorBackend")
        ]

    check_kills(spark, cluster, Runner(project, executors=executors), kills=kills, seed=22)


def test_kills_leave_no_trace_through_spark_connect(
    spark: SparkSession, cluster: Cluster, project: Path, spark_processes: SparkProcesses, kills: int
) -> None:
    (port,) = free_ports(1)
    servers = [spark_processes.connect_server(project, port=port)]

    def kill_driver(_: subprocess.Popen[bytes]) -> None:
        spark_processes.kill(servers[-1])
        servers.append(spark_processes.connect_server(project, port=port))

    runner = Runner(
        project,
        options=("--remote", f"sc://127.0.0.1:{port}"),
        executors=lambda _: processes_below(servers[-1].pid, "pyspark.daemon"),
        kill_driver=kill_driver,
    )
    check_kills(spark, cluster, runner, kills=kills, seed=23)
