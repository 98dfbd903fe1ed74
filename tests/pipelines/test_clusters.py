"""A pipeline on a standalone Spark cluster, and through Spark Connect, each of real processes."""

import subprocess
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from quorate.cli.node.free_ports import free_ports
from tests.cli.command import COMMAND, Quorate
from tests.kit.metadata_folder import story_folder
from tests.pipelines.spark_processes import SECONDS, SparkProcesses, use_master
from tests.pipelines.table_check import check_tables

pytestmark = [pytest.mark.system, pytest.mark.spark, pytest.mark.slow]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """A node's folder."""
    return story_folder(tmp_path / "node").write()


@pytest.fixture
def project(log: Path, tmp_path: Path) -> Path:
    folder = tmp_path / "history"
    Quorate().output("pipeline", "init", folder, "--path", log)
    return folder


def run_pipeline(*arguments: object) -> None:
    command = [*COMMAND, "pipeline", *map(str, arguments)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
    assert ended.returncode == 0, ended.stderr


def test_a_standalone_cluster_makes_the_tables_of_a_batch_query(
    spark: SparkSession, spark_processes: SparkProcesses, project: Path, log: Path, tmp_path: Path
) -> None:
    address, workers = spark_processes.standalone()
    use_master(project, address)
    run_pipeline("run", project)
    check_tables(spark, project, log)
    # Each worker had an executor of the pipeline, with output of its own.
    for number in range(1, len(workers) + 1):
        assert list((tmp_path / f"worker-{number}").glob("app-*/*/stderr")), f"worker {number} had none"


def test_a_spark_connect_server_makes_the_tables_of_a_batch_query(
    spark: SparkSession, spark_processes: SparkProcesses, project: Path, log: Path, tmp_path: Path
) -> None:
    (port,) = free_ports(1)
    spark_processes.connect_server(project, port=port)
    remote = f"sc://127.0.0.1:{port}"
    run_pipeline("run", project, "--remote", remote)
    check_tables(spark, project, log)
    report = tmp_path / "report.html"
    run_pipeline("report", project, "--remote", remote, "--output", report)
    assert "<h2>Incidents</h2>" in report.read_text()
