"""A pipeline on a standalone Spark cluster, and through Spark Connect, each of real processes."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pyspark
import pytest
from pyspark.sql import SparkSession

from quorate.cli.node.free_ports import free_ports
from quorate.pipelines.project import DEFAULTS
from quorate.spark_source.java import find_java
from tests.cli.command import COMMAND, Quorate
from tests.kit.metadata_folder import story_folder
from tests.pipelines.table_check import check_tables

pytestmark = [pytest.mark.system, pytest.mark.spark, pytest.mark.slow]
SPARK_HOME = Path(pyspark.__path__[0])
SECONDS = 300
Start = Callable[..., subprocess.Popen[bytes]]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """A node's folder."""
    return story_folder(tmp_path / "node").write()


@pytest.fixture
def project(log: Path, tmp_path: Path) -> Path:
    folder = tmp_path / "history"
    Quorate().output("pipeline", "init", folder, "--path", log)
    return folder


@pytest.fixture
def start(spark: SparkSession, tmp_path: Path) -> Iterator[Start]:
    """Starts programs of Spark, whose workers run this Python. No process is left behind."""
    environment = {
        **os.environ,
        "JAVA_HOME": str(find_java().home),
        "SPARK_HOME": str(SPARK_HOME),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": sys.executable,
    }
    started: list[subprocess.Popen[bytes]] = []

    def run(*command: object) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(
            [str(each) for each in command],
            cwd=tmp_path,
            env=environment,
            stdout=sys.stderr,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )
        started.append(process)
        return process

    yield run
    for process in reversed(started):
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def wait_listening(port: int, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + SECONDS
    while True:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        assert process.poll() is None, f"it ended with code {process.returncode}"
        assert time.monotonic() < deadline, f"nothing listens at port {port}"
        time.sleep(0.2)


def run_pipeline(*arguments: object) -> None:
    command = [*COMMAND, "pipeline", *map(str, arguments)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
    assert ended.returncode == 0, ended.stderr


def test_a_standalone_cluster_makes_the_tables_of_a_batch_query(
    spark: SparkSession, start: Start, project: Path, log: Path, tmp_path: Path
) -> None:
    (port,) = free_ports(1)
    program, deploy = SPARK_HOME / "bin" / "spark-class", "org.apache.spark.deploy"
    options = ("--host", "127.0.0.1", "--webui-port", "0")
    master = start(program, f"{deploy}.master.Master", *options, "--port", port)
    wait_listening(port, master)
    address = f"spark://127.0.0.1:{port}"
    for number in (1, 2):
        folder = tmp_path / f"worker-{number}"
        size = ("--cores", "1", "--memory", "1g", "--work-dir", folder)
        start(program, f"{deploy}.worker.Worker", *options, *size, address)
    with (project / DEFAULTS).open("a") as defaults:
        defaults.write(f"spark.master {address}\nspark.executor.memory 512m\n")
    run_pipeline("run", project)
    check_tables(spark, project, log)
    # Each worker had an executor of the pipeline, with output of its own.
    assert all(list((tmp_path / f"worker-{number}").glob("app-*/*/stderr")) for number in (1, 2))


def test_a_spark_connect_server_makes_the_tables_of_a_batch_query(
    spark: SparkSession, start: Start, project: Path, log: Path, tmp_path: Path
) -> None:
    (port,) = free_ports(1)
    server = start(
        *(SPARK_HOME / "sbin" / "start-connect-server.sh", "--wait"),
        *("--properties-file", project / DEFAULTS),
        *("--conf", "spark.connect.grpc.binding.address=127.0.0.1"),
        *("--conf", f"spark.connect.grpc.binding.port={port}"),
    )
    wait_listening(port, server)
    remote = f"sc://127.0.0.1:{port}"
    run_pipeline("run", project, "--remote", remote)
    check_tables(spark, project, log)
    report = tmp_path / "report.html"
    run_pipeline("report", project, "--remote", remote, "--output", report)
    assert "<h2>Incidents</h2>" in report.read_text()
