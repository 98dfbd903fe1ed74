"""How many files a request crosses, and that docs/explanation/ways.md names them. `tests/kit/ways.py` says
what counts."""

import re
from collections.abc import Mapping
from pathlib import Path

import pytest
from ways import Way, active_controller, another_broker, traced, way_of_a_record, way_of_creation

PAGE = Path(__file__).parents[2] / "docs/explanation/ways.md"
_ITEM = re.compile(r"^\d+\. \[`([^`]+)`\]\(\.\./\.\./quorate/([^)]+)\)", re.M)


@pytest.fixture(scope="module")
def created() -> tuple[Way, Mapping[str, Way]]:
    """CreateTopics at the active controller's own broker."""
    return way_of_creation(active_controller)


@pytest.fixture(scope="module")
def forwarded() -> tuple[Way, Mapping[str, Way]]:
    return way_of_creation(another_broker)


@pytest.fixture(scope="module")
def produced() -> Way:
    return way_of_a_record()


def walk(heading: str) -> list[str]:
    """The files that the page names under a heading, in order."""
    section = PAGE.read_text().partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    found = _ITEM.findall(section)
    assert found
    assert all(name == target for name, target in found)
    return [name for name, _ in found]


def test_a_silent_cluster_calls_nothing() -> None:
    assert traced(None, of=active_controller).entered == set()


def test_a_metadata_change_crosses_few_files_and_enters_raft_once(created) -> None:
    way, to_nodes = created
    assert len(way.files) < 35, way.files
    assert {tuple(each.changes("broker", "raft")) for each in to_nodes.values()} == {
        ("broker", "raft", "broker")
    }


def test_a_forwarded_metadata_change_crosses_few_files(forwarded) -> None:
    """It passes through raft/ twice: in the tunnel to the active controller, and as a record."""
    way, to_nodes = forwarded
    assert len(way.files) < 35, way.files
    assert {tuple(each.changes("broker", "raft")) for each in to_nodes.values()} == {
        ("broker", "raft", "broker", "raft", "broker")
    }


def test_a_produced_record_crosses_few_files_and_never_raft(produced) -> None:
    assert len(produced.files) < 20, produced.files
    assert produced.changes("broker", "raft") == ["broker"]


def test_the_page_walks_the_way_of_a_metadata_change(created) -> None:
    assert walk("A metadata change") == created[0].files


def test_the_page_names_what_forwarding_adds(created, forwarded) -> None:
    added = [file for file in forwarded[0].files if file not in created[0].files]
    assert walk("A forwarded request") == added


def test_the_page_walks_the_way_of_a_produced_record(produced) -> None:
    assert walk("A produced record") == produced.files


def test_the_page_counts_right(created, forwarded, produced) -> None:
    counted = [
        (int(files), int(entered))
        for files, entered in re.findall(r"\| (\d+) \| about (\d+) \|", PAGE.read_text())
    ]
    for way, (files, entered) in zip((created[0], forwarded[0], produced), counted, strict=True):
        assert len(way.files) == files
        assert len(way.entered) == pytest.approx(entered, rel=0.1)
