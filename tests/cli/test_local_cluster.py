"""`quorate cluster start`, and the demo's own parts."""

import json
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, generate_latest

from quorate.cli.console.cli_errors import ExitCode
from quorate.cli.demo.demo_report import shown_value
from quorate.cli.demo.demo_run import split_records
from quorate.metrics import RaftMetrics
from quorate.types import Offset
from tests.cli.command import Processes, Quorate, first_line

pytestmark = pytest.mark.system


def ready(process: subprocess.Popen[str]) -> dict[str, Any]:
    read: dict[str, Any] = json.loads(first_line(process))
    return read


@pytest.mark.slow
def test_a_cluster_starts_stops_in_order_and_starts_again_on_its_data(
    processes: Processes, quorate: Quorate, tmp_path: Path
) -> None:
    start = ("cluster", "start", "--nodes", 1, "--port", 0, "--data", tmp_path / "c", "--json")
    start += ("--config", "num.partitions=4")
    first = processes.start(*start)
    said = ready(first)
    assert [node["id"] for node in said["nodes"]] == [1]
    ask = quorate.at(said["bootstrapServers"])
    ask.output("topics", "create", "-t", "kept")
    described = ask.json("topics", "describe", "-t", "kept")
    assert len(described[0]["partitions"]) == 4
    busy = processes.run(*start)
    assert busy.code == ExitCode.STORAGE
    assert "another cluster runs in" in busy.errors
    ended = processes.end(first, signal.SIGINT)
    assert ended.code == 0, ended.errors

    again = processes.start(*start)
    said_again = ready(again)
    assert said_again["clusterId"] == said["clusterId"]
    assert quorate.at(said_again["bootstrapServers"]).output("topics", "list") == "kept\n"
    assert processes.end(again, signal.SIGTERM).code == 0


@pytest.mark.slow
def test_a_node_that_dies_ends_the_cluster_with_its_last_words(processes: Processes, tmp_path: Path) -> None:
    cluster = processes.start(
        "cluster", "start", "--nodes", 1, "--port", 0, "--data", tmp_path / "c", "--json"
    )
    said = ready(cluster)
    os.kill(said["nodes"][0]["pid"], signal.SIGKILL)
    ended = processes.end(cluster)
    assert ended.code == ExitCode.FAILED
    assert "node 1 exited" in ended.errors


@pytest.mark.slow
def test_a_cluster_goes_on_without_a_node_and_says_how_to_bring_it_back(
    processes: Processes, quorate: Quorate, tmp_path: Path
) -> None:
    cluster = processes.start("cluster", "start", "--port", 0, "--data", tmp_path / "c", "--json")
    said = ready(cluster)
    config = tmp_path / "c" / "2" / "server.properties"
    os.kill(said["nodes"][1]["pid"], signal.SIGKILL)
    assert cluster.stderr is not None
    told = ""
    while "To restart it" not in told:
        line = cluster.stderr.readline()
        assert line, "the cluster ended"
        told += line
    assert "node 2 exited" in told
    assert f"quorate server start {config}" in told
    living = ",".join(said["nodes"][at]["client"] for at in (0, 2))
    quorate.at(living).output("topics", "create", "-t", "on", "--replication-factor", 2)
    back = processes.start("server", "start", config)
    assert first_line(back).startswith("node 2 of cluster ")
    assert processes.end(back, signal.SIGTERM).code == 0
    assert processes.end(cluster, signal.SIGINT).code == 0


def test_a_folder_of_something_else_is_left_alone(quorate: Quorate, tmp_path: Path) -> None:
    (tmp_path / "letter.txt").write_text("dear")
    refused = quorate.error("cluster", "start", "--data", tmp_path, code=ExitCode.STORAGE)
    assert "is not empty and holds no cluster" in refused
    assert [each.name for each in tmp_path.iterdir()] == ["letter.txt"]


def test_a_file_in_the_folders_place_is_named(quorate: Quorate, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    refused = quorate.error("cluster", "start", "--data", tmp_path / "file", code=ExitCode.STORAGE)
    assert "is no folder" in refused


@pytest.mark.parametrize(
    ("content", "code", "says"),
    [
        ('{"cluster_id": "x", "nodes": 5}', ExitCode.USAGE, "--nodes 5"),
        ('{"cluster_id"', ExitCode.STORAGE, "cluster.json"),
    ],
    ids=["of another size", "damaged"],
)
def test_a_cluster_file_that_does_not_fit_is_named_with_the_option_to_give(
    quorate: Quorate, tmp_path: Path, content: str, code: ExitCode, says: str
) -> None:
    (tmp_path / "cluster.json").write_text(content)
    assert says in quorate.error("cluster", "start", "--data", tmp_path, code=code)


@pytest.mark.parametrize(
    "options", [("--port", "65535"), ("--port", "7070"), ("--nodes", "0"), ("--metrics-port", "19091")]
)
def test_ports_that_can_not_work_are_refused_before_anything_starts(
    quorate: Quorate, tmp_path: Path, options: tuple[str, str]
) -> None:
    quorate.error("cluster", "start", "--data", tmp_path / "c", *options, code=ExitCode.USAGE)
    assert not (tmp_path / "c").exists()


@given(st.one_of(st.binary(min_size=1), st.text(alphabet="ab\n", min_size=1).map(str.encode)))
def test_the_demos_records_are_the_file_and_leave_something_for_after_the_kill(data: bytes) -> None:
    records = split_records(data)
    assert b"".join(records) == data
    assert all(records)
    assert len(records) >= min(2, len(data))


def test_a_long_line_goes_in_pieces() -> None:
    assert max(map(len, split_records(bytes(1_000_000) + b"\nx"))) <= 256 * 1024


def test_the_demo_shows_a_metrics_value_and_the_state_that_holds() -> None:
    registry = CollectorRegistry()
    RaftMetrics(registry, monotonic=lambda: 0.0).high_watermark(Offset(7))
    page = generate_latest(registry).decode()
    assert shown_value(page, "raft_manager_high_watermark") == "7"
    assert shown_value(page, "raft_manager_current_state") == "unattached"
    assert shown_value(page, "raft_manager_nonsense") == "?"
