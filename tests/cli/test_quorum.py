"""Voters that come and go and leadership transferred, by the commands, through brokers and at controllers."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from quorate.cli.console.cli_errors import ExitCode
from quorate.cli.node.free_ports import free_ports
from quorate.cli.node.local_cluster import LocalCluster
from tests.cli.command import Quorate
from tests.kit.clusters import running_cluster
from tests.kit.waiting import wait_until

pytestmark = pytest.mark.system

NOBODY = "AAAAAAAAAAAAAAAAAAAACA"
EXAMPLE = Path(__file__).parents[2] / "examples" / "dictionary.py"


@pytest.fixture(scope="module")
def growing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """Start three nodes, of which only the first votes. Each test leaves it so."""
    with running_cluster(tmp_path_factory.mktemp("growing") / "cluster", voters=1) as cluster:
        yield cluster


@pytest.fixture
def controllers(growing: LocalCluster) -> str:
    return ",".join(f"{growing.host}:{node.controller_port}" for node in growing.nodes)


@pytest.fixture(params=["brokers", "controllers"])
def way(growing: LocalCluster, controllers: str, request: pytest.FixtureRequest) -> Quorate:
    """Return the command through brokers, and at controllers."""
    if request.param == "brokers":
        return Quorate(("--bootstrap-server", growing.bootstrap))
    return Quorate(("--bootstrap-controller", controllers))


def voters(described: dict[str, Any]) -> list[int]:
    return [voter["id"] for voter in described["voters"]]


@pytest.mark.slow
def test_a_voter_is_added_leads_and_is_removed_again(
    quorate: Quorate, way: Quorate, growing: LocalCluster
) -> None:
    assert voters(way.json("quorum", "describe")) == [1]
    wait_until(
        lambda: {each["id"] for each in way.json("quorum", "describe")["observers"]} == {2, 3},
        "the others are observers",
        seconds=60,
    )
    config = growing.node(2).config_file
    added = way.json("quorum", "add-voter", "--config", config)
    assert voters(added) == [1, 2]
    (info,) = [voter for voter in added["voters"] if voter["id"] == 2]
    folder = quorate.json("storage", "info", "-c", config)
    assert info["directoryId"] == folder["directory.id"]
    assert info["endpoint"] == f"{growing.host}:{growing.node(2).controller_port}"

    assert way.json("quorum", "transfer", 2)["leaderId"] == 2
    assert way.json("quorum", "transfer", 2)["leaderId"] == 2, "once more is no harm"
    # It leads, and resigns as it goes.
    removed = way.json("quorum", "remove-voter", 2)
    assert (voters(removed), removed["leaderId"]) == ([1], 1)


@pytest.mark.slow
@pytest.mark.costly
def test_a_refusal_of_the_quorum_has_an_exit_code_for_scripts(way: Quorate) -> None:
    own = way.json("quorum", "describe")["voters"][0]
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
        assert says in " ".join(way.error("quorum", *arguments, code=code).split()), arguments
    assert voters(way.json("quorum", "describe")) == [1]


def test_both_kinds_of_servers_at_once_are_refused_and_a_wrong_listener_is_named(
    quorate: Quorate, growing: LocalCluster, controllers: str
) -> None:
    describe = ("quorum", "describe", "-C")
    quorate.at(growing).error(*describe, controllers, code=ExitCode.USAGE)
    wrong = quorate.error(*describe, growing.bootstrap, code=ExitCode.UNAVAILABLE)
    assert "give the address of a controller listener" in wrong
    # Controllers serve DescribeQuorum to clients too (KIP-919).
    quorate.at(controllers).output("quorum", "describe")
    nobody = quorate.error(*describe, f"127.0.0.1:{free_ports(1)[0]}", code=ExitCode.UNAVAILABLE)
    assert "no controller answered" in nobody
    assert "--bootstrap-controller" in quorate.error(*describe, "here", code=ExitCode.USAGE)


@pytest.mark.costly
def test_a_snapshot_is_taken_on_the_leader_or_on_the_voter_that_is_named(
    quorate: Quorate, way: Quorate, growing: LocalCluster
) -> None:
    taken = way.json("snapshot", "take")
    assert taken["nodeId"] == 1
    listed = quorate.json("snapshot", "list", growing.node(1).folder / "data")
    assert (taken["endOffset"], taken["epoch"]) in [(each["endOffset"], each["epoch"]) for each in listed]
    assert way.output("snapshot", "take", "--node", 1).startswith("node 1 ")
    assert "node 3 is no voter" in way.error("snapshot", "take", "--node", 3)


def test_a_static_set_is_adopted_once_and_then_changed(ask: Quorate) -> None:
    refused = ask.error("quorum", "remove-voter", 1, "--directory-id", NOBODY)
    assert "UNSUPPORTED_VERSION" in refused
    for _ in range(2):
        assert voters(ask.json("quorum", "adopt-voters")) == [1]
    assert "the last voter" in ask("quorum", "remove-voter", 1).stderr


@pytest.mark.slow
def test_a_quorum_that_a_service_embeds_is_looked_after_without_any_broker(tmp_path: Path) -> None:
    http, port = free_ports(2)
    at = Quorate(("-C", f"127.0.0.1:{port}"))
    service = subprocess.Popen(
        [sys.executable, EXAMPLE, "1", str(http), str(tmp_path / "1"), f"1@127.0.0.1:{port}"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        wait_until(lambda: at("quorum", "describe").exit_code == 0, "the quorum answers", seconds=60)
        assert at.json("quorum", "describe")["leaderId"] == 1
        assert "leader 1, epoch 1" in at("quorum", "describe").output
        assert voters(at.json("quorum", "adopt-voters")) == [1]
        assert at.json("quorum", "transfer", 1)["leaderId"] == 1
    finally:
        service.kill()
        service.wait()


def test_a_cluster_keeps_where_its_voters_are_kept(quorate: Quorate, tmp_path: Path) -> None:
    LocalCluster.plan(tmp_path / "c", nodes=1, client_port=0, voters=1).prepare()
    start = ("cluster", "start", "--nodes", 1, "--data")
    refused = quorate.error(*start, tmp_path / "c", "--port", 0, code=ExitCode.USAGE)
    assert "start it with --voters" in refused
    many = quorate.error(*start, tmp_path / "d", "--voters", 2, code=ExitCode.USAGE)
    assert "there are only 1 nodes" in many
