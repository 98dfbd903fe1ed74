"""Voters that come and go and leadership transferred, by the commands, through brokers and at controllers."""

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import Result

from quorate.cli.console.cli_errors import ExitCode
from quorate.cli.node.free_ports import free_ports
from quorate.cli.node.local_cluster import LocalCluster

pytestmark = pytest.mark.system

Quorate = Callable[..., Result]
NOBODY = "AAAAAAAAAAAAAAAAAAAACA"
EXAMPLE = Path(__file__).parents[2] / "examples" / "dictionary.py"


@pytest.fixture(scope="module")
def growing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """Three nodes, of which the first votes at first. Each test leaves it so."""
    folder = tmp_path_factory.mktemp("growing") / "cluster"
    cluster = LocalCluster.plan(folder, nodes=3, client_port=0, voters=1)
    try:
        cluster.prepare()
        cluster.start()
        cluster.wait_ready()
        yield cluster
    finally:
        cluster.kill_all()


def ways(cluster: LocalCluster) -> dict[str, tuple[str, str]]:
    controllers = ",".join(f"{cluster.host}:{node.controller_port}" for node in cluster.nodes)
    return {
        "brokers": ("--bootstrap-server", cluster.bootstrap),
        "controllers": ("--bootstrap-controller", controllers),
    }


def shown(result: Result) -> dict[str, Any]:
    assert result.exit_code == 0, result.stderr
    read: dict[str, Any] = json.loads(result.output)
    return read


def voters(described: dict[str, Any]) -> list[int]:
    return [voter["id"] for voter in described["voters"]]


@pytest.mark.parametrize("way", ["brokers", "controllers"])
def test_a_voter_is_added_leads_and_is_removed_again(
    quorate: Quorate, growing: LocalCluster, way: str
) -> None:
    to = ways(growing)[way]
    deadline = time.monotonic() + 60
    while True:
        before = shown(quorate("quorum", "describe", *to, "--json"))
        assert voters(before) == [1]
        if sorted(observer["id"] for observer in before["observers"]) == [2, 3]:
            break
        assert time.monotonic() < deadline, before

    config = growing.node(2).config_file
    added = shown(quorate("quorum", "add-voter", "--config", config, *to, "--json"))
    assert voters(added) == [1, 2]
    (info,) = [voter for voter in added["voters"] if voter["id"] == 2]
    folder = json.loads(quorate("storage", "info", "-c", config, "--json").output)
    assert info["directoryId"] == folder["directory.id"]
    assert info["endpoint"] == f"{growing.host}:{growing.node(2).controller_port}"

    assert shown(quorate("quorum", "transfer", 2, *to, "--json"))["leaderId"] == 2
    assert shown(quorate("quorum", "transfer", 2, *to, "--json"))["leaderId"] == 2, "once more is no harm"
    # It leads, and resigns as it goes.
    removed = shown(quorate("quorum", "remove-voter", 2, *to, "--json"))
    assert (voters(removed), removed["leaderId"]) == ([1], 1)


@pytest.mark.parametrize("way", ["brokers", "controllers"])
def test_a_refusal_of_the_quorum_has_an_exit_code_for_scripts(
    quorate: Quorate, growing: LocalCluster, way: str
) -> None:
    to = ways(growing)[way]
    own = shown(quorate("quorum", "describe", *to, "--json"))["voters"][0]
    for arguments, code, says in [
        (("add-voter", f"1@127.0.0.1:1:{NOBODY}"), ExitCode.FAILED, "is a voter already"),
        (("add-voter", f"9@127.0.0.1:1:{NOBODY}", "--timeout-ms", 300), ExitCode.FAILED, "start it first"),
        (("remove-voter", 9), ExitCode.FAILED, "node 9 is no voter; these are: 1"),
        (("remove-voter", 1, "--directory-id", NOBODY), ExitCode.FAILED, "is no voter"),
        (("remove-voter", 1, "--directory-id", own["directoryId"]), ExitCode.FAILED, "the last voter"),
        (("transfer", 3), ExitCode.FAILED, "not another voter"),
        (("add-voter",), ExitCode.USAGE, "give the voter"),
        (("add-voter", "9@127.0.0.1:1"), ExitCode.USAGE, "write id@host:port:directory-id"),
        (("remove-voter", 1, "--directory-id", "x"), ExitCode.USAGE, "is no directory id"),
    ]:
        result = quorate("quorum", *arguments, *to)
        assert result.exit_code == code, (arguments, result.stderr)
        assert says in " ".join(result.stderr.split()), arguments
    assert voters(shown(quorate("quorum", "describe", *to, "--json"))) == [1]


def test_both_kinds_of_servers_at_once_are_refused_and_a_wrong_listener_is_named(
    quorate: Quorate, growing: LocalCluster
) -> None:
    to = ways(growing)
    both = quorate("quorum", "describe", *to["brokers"], *to["controllers"])
    assert both.exit_code == ExitCode.USAGE
    wrong = quorate("quorum", "describe", "--bootstrap-controller", growing.bootstrap)
    assert wrong.exit_code == ExitCode.UNAVAILABLE
    assert "give the address of a controller listener" in wrong.stderr
    served = quorate("quorum", "describe", "--bootstrap-server", to["controllers"][1])
    assert served.exit_code == ExitCode.OK, "controllers serve DescribeQuorum to clients too (KIP-919)"
    nobody = quorate("quorum", "describe", "-C", f"127.0.0.1:{free_ports(1)[0]}")
    assert nobody.exit_code == ExitCode.UNAVAILABLE
    assert "no controller answered" in nobody.stderr
    bad = quorate("quorum", "describe", "-C", "here")
    assert bad.exit_code == ExitCode.USAGE
    assert "--bootstrap-controller" in bad.stderr


@pytest.mark.parametrize("way", ["brokers", "controllers"])
def test_a_snapshot_is_taken_on_the_leader_or_on_the_voter_that_is_named(
    quorate: Quorate, growing: LocalCluster, way: str
) -> None:
    to = ways(growing)[way]
    taken = shown(quorate("snapshot", "take", *to, "--json"))
    assert taken["nodeId"] == 1
    listed = json.loads(quorate("snapshot", "list", growing.node(1).folder / "data", "--json").output)
    assert (taken["endOffset"], taken["epoch"]) in [(each["endOffset"], each["epoch"]) for each in listed]
    again = quorate("snapshot", "take", "--node", 1, *to)
    assert (again.exit_code, again.output[:7]) == (0, "node 1 ")
    unknown = quorate("snapshot", "take", "--node", 3, *to)
    assert unknown.exit_code == ExitCode.FAILED
    assert "node 3 is no voter" in unknown.stderr


def test_a_static_set_is_adopted_once_and_then_changed(quorate: Quorate, one_node: LocalCluster) -> None:
    to = ("-b", one_node.bootstrap)
    refused = quorate("quorum", "remove-voter", 1, "--directory-id", NOBODY, *to)
    assert refused.exit_code == ExitCode.FAILED
    assert "UNSUPPORTED_VERSION" in refused.stderr
    for _ in range(2):
        adopted = shown(quorate("quorum", "adopt-voters", *to, "--json"))
        assert voters(adopted) == [1]
    last = quorate("quorum", "remove-voter", 1, *to)
    assert "the last voter" in last.stderr


def test_a_quorum_that_a_service_embeds_is_looked_after_without_any_broker(
    quorate: Quorate, tmp_path: Path
) -> None:
    http, port = free_ports(2)
    to = ("-C", f"127.0.0.1:{port}")
    service = subprocess.Popen(
        [sys.executable, EXAMPLE, "1", str(http), str(tmp_path / "1"), f"1@127.0.0.1:{port}"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        deadline = time.monotonic() + 60
        while (described := quorate("quorum", "describe", *to, "--json")).exit_code:
            assert time.monotonic() < deadline, described.stderr
        assert json.loads(described.output)["leaderId"] == 1
        assert "leader 1, epoch 1" in quorate("quorum", "describe", *to).output
        assert voters(shown(quorate("quorum", "adopt-voters", *to, "--json"))) == [1]
        assert shown(quorate("quorum", "transfer", 1, *to, "--json"))["leaderId"] == 1
    finally:
        service.kill()
        service.wait()


def test_a_cluster_keeps_where_its_voters_are_kept(quorate: Quorate, tmp_path: Path) -> None:
    LocalCluster.plan(tmp_path / "c", nodes=1, client_port=0, voters=1).prepare()
    refused = quorate("cluster", "start", "--nodes", 1, "--data", tmp_path / "c", "--port", 0)
    assert refused.exit_code == ExitCode.USAGE
    assert "start it with --voters" in refused.stderr
    many = quorate("cluster", "start", "--nodes", 1, "--voters", 2, "--data", tmp_path / "d")
    assert many.exit_code == ExitCode.USAGE
    assert "there are only 1 nodes" in many.stderr
