"""A node's folder: its identity, and why it can't be used."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import trio
from typer.testing import Result

from quorate.cli.console.cli_errors import ExitCode
from quorate.log.snapshots.snapshots import SnapshotStore
from quorate.runtime.real import SyncStrategy, real_runtime
from quorate.types import Endpoint, NodeId, ReplicaKey, Voter, VoterSet

Quorate = Callable[..., Result]
CLUSTER = "q1Sh-9_ISia_zwGINzRvyQ"


def formatted(quorate: Quorate, node: Any, cluster_id: str = CLUSTER, *more: str) -> Result:
    return quorate("storage", "format", "-t", cluster_id, "-c", node.config, *more)


def refused(result: Result) -> str:
    assert result.exit_code == ExitCode.STORAGE, result.output
    assert "Traceback" not in result.stderr
    return result.stderr


def test_a_drawn_id_is_kafkas_form_of_a_uuid_and_differs_each_time(quorate: Quorate) -> None:
    drawn = {quorate("storage", "random-uuid").output.strip() for _ in range(5)}
    assert len(drawn) == 5
    assert {len(each) for each in drawn} == {22}


def test_storage_info_shows_the_identity_of_a_formatted_folder(quorate: Quorate, node: Any) -> None:
    assert formatted(quorate, node).exit_code == 0
    result = quorate("storage", "info", "-c", node.config, "--json")
    assert result.exit_code == 0
    shown = json.loads(result.output)
    directory = shown.pop("directory.id")
    assert len(directory) == 22
    assert shown == {
        "folder": str(node.folder),
        "cluster.id": CLUSTER,
        "node.id": 1,
        "leader.epoch": 0,
        "leader.id": -1,
        "voted.id": -1,
    }


def test_formatting_twice_is_refused_because_it_would_forget_the_vote(quorate: Quorate, node: Any) -> None:
    formatted(quorate, node)
    before = (node.folder / "meta.properties").read_bytes()
    assert "is formatted already" in refused(formatted(quorate, node))
    assert (node.folder / "meta.properties").read_bytes() == before
    assert formatted(quorate, node, CLUSTER, "--ignore-formatted").exit_code == 0
    assert (node.folder / "meta.properties").read_bytes() == before


def test_a_folder_of_another_cluster_is_not_ignored(quorate: Quorate, node: Any) -> None:
    formatted(quorate, node)
    said = refused(formatted(quorate, node, "another", "--ignore-formatted"))
    assert f"belongs to cluster {CLUSTER}, not another" in said


def test_a_folder_of_another_node_is_shown_and_refused(quorate: Quorate, node: Any) -> None:
    formatted(quorate, node)
    node.write(node_id="2", controller_quorum_voters="2@127.0.0.1:9")
    result = quorate("storage", "info", "-c", node.config)
    assert "node.id: 1" in result.output
    assert "the folder is node 1's: correct node.id" in refused(result)


@pytest.mark.parametrize("cluster_id", ["", "two words"])
def test_an_id_that_is_none_is_refused(quorate: Quorate, node: Any, cluster_id: str) -> None:
    result = formatted(quorate, node, cluster_id)
    assert result.exit_code == ExitCode.USAGE
    assert not node.folder.exists()


def test_a_folder_that_is_not_formatted_is_said_to_be_so(quorate: Quorate, node: Any) -> None:
    said = refused(quorate("storage", "info", "-c", node.config))
    assert "not formatted" in said
    assert "quorate storage format" in said


def test_a_file_in_the_folders_place_is_named(quorate: Quorate, node: Any) -> None:
    node.folder.write_text("in the way")
    assert str(node.folder) in refused(formatted(quorate, node))


@pytest.mark.parametrize("content", [b"", b'{"clusterId":"q1Sh', b"[]"])
def test_a_truncated_quorum_state_is_named_and_never_reset(
    quorate: Quorate, node: Any, content: bytes
) -> None:
    formatted(quorate, node)
    file = node.folder / "__cluster_metadata-0" / "quorum-state"
    file.write_bytes(content)
    said = refused(quorate("storage", "info", "-c", node.config))
    assert str(file) in said
    assert "docs/how-to/replace-a-disk.md" in said
    assert file.read_bytes() == content


def test_a_read_only_folder_is_named(quorate: Quorate, node: Any, small_disk: Callable[[str], Path]) -> None:
    node.folder = small_disk("ro") / "data"
    node.write()
    said = refused(formatted(quorate, node))
    assert str(node.folder) in said
    assert "Read-only" in said


def test_a_full_disk_is_named(quorate: Quorate, node: Any, small_disk: Callable[[str], Path]) -> None:
    disk = small_disk("size=16k")
    node.folder = disk / "data"
    node.write()
    (disk / "filler").write_bytes(bytes(16 * 1024))
    assert "no space left" in refused(formatted(quorate, node)).lower()


# Who votes at first

DIRECTORY = "AAAAAAAAAAAAAAAAAAAABw"
OTHERS = "AAAAAAAAAAAAAAAAAAAACA"


def in_the_log(node: Any, **more: str | None) -> None:
    """The node keeps its voters in the log."""
    node.write(controller_quorum_voters=None, controller_quorum_bootstrap_servers="one.example:9093", **more)


def first_voters(node: Any) -> VoterSet | None:
    async def read() -> VoterSet | None:
        disk = real_runtime(sync=SyncStrategy.INLINE).disk
        return (await SnapshotStore.open(disk, str(node.folder / "__cluster_metadata-0"))).bootstrap

    return trio.run(read)


def test_a_standalone_node_is_the_first_voter_with_its_own_directory_and_endpoint(
    quorate: Quorate, node: Any
) -> None:
    in_the_log(node, listeners="PLAINTEXT://:0,CONTROLLER://one.example:9093")
    result = formatted(quorate, node, CLUSTER, "--standalone", "--json")
    assert result.exit_code == 0, result.stderr
    said = json.loads(result.output)
    assert (said["clusterId"], said["nodeId"], said["folder"]) == (CLUSTER, 1, str(node.folder))
    assert first_voters(node) == VoterSet(
        (Voter(ReplicaKey(NodeId(1), said["directoryId"]), Endpoint("one.example", 9093)),)
    )


def test_initial_controllers_are_in_the_log_of_each_with_the_directories_that_were_drawn(
    quorate: Quorate, node: Any
) -> None:
    in_the_log(node)
    both = f"2@two.example:9093:{OTHERS},1@one.example:9093:{DIRECTORY}"
    result = formatted(quorate, node, CLUSTER, "--initial-controllers", both)
    assert result.exit_code == 0, result.stderr
    assert first_voters(node) == VoterSet(
        (
            Voter(ReplicaKey(NodeId(1), DIRECTORY), Endpoint("one.example", 9093)),
            Voter(ReplicaKey(NodeId(2), OTHERS), Endpoint("two.example", 9093)),
        )
    )
    shown = json.loads(quorate("storage", "info", "-c", node.config, "--json").output)
    assert shown["directory.id"] == DIRECTORY


def test_a_node_that_joins_later_has_no_first_voters(quorate: Quorate, node: Any) -> None:
    in_the_log(node)
    assert formatted(quorate, node, CLUSTER, "--no-initial-controllers").exit_code == 0
    assert first_voters(node) is None


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ((), "name the first voters: --standalone"),
        (("--standalone", "--no-initial-controllers"), "only one of"),
        (("-I", f"2@two.example:9093:{OTHERS}"), "does not name node 1"),
        (("-I", "1@one.example:9093"), "write id@host:port:directory-id"),
        (("-I", "1@one.example:9093:short"), "is no directory id"),
        (("-I", f"one@one.example:9093:{OTHERS}"), "must be a node id"),
        (("-I", ""), "no controller is named"),
        (("-I", f"1@a:1:{OTHERS},1@b:1:{DIRECTORY}"), "must be distinct"),
    ],
)
def test_first_voters_that_are_not_clear_are_refused_and_nothing_is_written(
    quorate: Quorate, node: Any, options: tuple[str, ...], says: str
) -> None:
    in_the_log(node)
    result = formatted(quorate, node, CLUSTER, *options)
    assert result.exit_code == ExitCode.USAGE, result.output
    assert says in " ".join(result.stderr.split())
    assert not node.folder.exists()


def test_formatting_refuses_first_voters_beside_static_voters(quorate: Quorate, node: Any) -> None:
    result = formatted(quorate, node, CLUSTER, "--standalone")
    assert result.exit_code == ExitCode.USAGE
    assert "remove it and set controller.quorum.bootstrap.servers" in result.stderr


def test_a_broker_alone_needs_no_first_voters_and_can_not_be_one(quorate: Quorate, node: Any) -> None:
    in_the_log(node, process_roles="broker", listeners="PLAINTEXT://:9092")
    refused = formatted(quorate, node, CLUSTER, "--standalone")
    assert refused.exit_code == ExitCode.USAGE
    assert "is no controller" in refused.stderr
    assert formatted(quorate, node).exit_code == 0
    assert first_voters(node) is None
