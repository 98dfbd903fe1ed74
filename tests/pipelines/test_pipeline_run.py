"""Runs of a project as processes, on a log that grows between them."""

import os
import signal
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from quorate.cli.console.cli_errors import ExitCode
from tests.cli.command import Processes, Quorate, first_line
from tests.kit.metadata_folder import MetadataFolder, story_folder
from tests.pipelines.spark_processes import processes_below
from tests.pipelines.table_check import check_tables

pytestmark = [pytest.mark.system, pytest.mark.spark, pytest.mark.slow]
SECONDS = 300


def test_a_run_makes_every_table_of_what_was_known_and_what_is_new(
    spark: SparkSession, tmp_path: Path
) -> None:
    whole = story_folder(tmp_path / "node")
    known = MetadataFolder(whole.path, batches=whole.batches[:9], end=whole.batches[9][0])
    log, project, processes = known.write(), tmp_path / "history", Processes()
    Quorate().output("pipeline", "init", project, "--path", log)
    try:
        for folder in (known, whole):
            folder.write()
            ended = processes.run("pipeline", "run", project, seconds=SECONDS)
            assert ended.code == ExitCode.OK, ended.errors
            assert "All tables are up to date." in ended.output
            assert " incidents has COMPLETED." in ended.errors
            assert "QUEUED" not in ended.errors and "ERROR" not in ended.errors
            check_tables(spark, project, log)
        # The log of another cluster, or none, is not what the tables were made of.
        ended = processes.run("pipeline", "run", project, "--path", tmp_path, seconds=SECONDS)
        assert ended.code == ExitCode.FAILED, ended.output
        assert "Traceback" not in ended.errors
    finally:
        processes.kill_all()


@pytest.mark.usefixtures("spark")
def test_a_run_whose_spark_is_killed_ends_soon(tmp_path: Path) -> None:
    project, processes = tmp_path / "history", Processes()
    Quorate().output("pipeline", "init", project, "--path", story_folder(tmp_path / "node").write())
    try:
        run = processes.start("pipeline", "run", project, "--json")
        first_line(run)
        (java,) = processes_below(run.pid, "org.apache.spark.deploy.SparkSubmit")
        os.kill(java, signal.SIGKILL)
        ended = processes.end(run, seconds=60)
    finally:
        processes.kill_all()
    assert ended.code == ExitCode.UNAVAILABLE, ended.errors
    assert "Spark does not answer any more" in ended.errors
    assert "Traceback" not in ended.errors
