"""A node's folder: its identity, and why it can't be used."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import Result

from quorate.cli.errors import ExitCode

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


def test_a_formatted_folder_says_whose_it_is(quorate: Quorate, node: Any) -> None:
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
