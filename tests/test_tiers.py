"""The tests that the commands run, and their order."""

import random
import re
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import cast

import pytest
from trio._core import _run as trio_run
from xdist.remote import Producer
from xdist.workermanage import WorkerController

from tests.conftest import TURNS, WaitingBesideComputing

ROOT = Path(__file__).parent.parent
LEFT_OUT = {"slow", "real_time", "long"}
PROCESSES = {"subprocess", "multiprocessing", "LocalCluster"}


def test_quick_tests_start_no_processes(request: pytest.FixtureRequest) -> None:
    quick = [
        item
        for item in request.session.items
        if isinstance(item, pytest.Function) and not LEFT_OUT & {mark.name for mark in item.iter_markers()}
    ]
    assert quick
    modules: set[ModuleType] = {item.module for item in quick} - {request.module}
    starting = {module.__name__: sorted(PROCESSES & set(vars(module))) for module in modules}
    assert not {name: found for name, found in starting.items() if found}


def test_quick_and_test_name_the_markers_that_pyproject_has() -> None:
    makefile = (ROOT / "Makefile").read_text()
    named = set(re.findall(r"not (\w+)", " ".join(re.findall(r'-m "([^"]+)"', makefile))))
    assert named == LEFT_OUT
    declared = set(re.findall(r'^  "(\w+):', (ROOT / "pyproject.toml").read_text(), re.M))
    assert named <= declared


def test_every_test_that_takes_turns_exists() -> None:
    pages = {page.name for page in (ROOT / "docs").rglob("*.md")}
    for place in (each for part in TURNS for each in part):
        file, _, function = place.partition("::")
        name, _, case = function.partition("[")
        assert f"def {name}" in (ROOT / file).read_text(), place
        assert not case or case.rstrip("]:").rpartition("/")[2] in pages, place


def test_the_order_of_tasks_is_drawn_from_the_printed_seed(request: pytest.FixtureRequest) -> None:
    seed = request.config.getoption("randomly_seed")
    assert trio_run._ALLOW_DETERMINISTIC_SCHEDULING
    assert trio_run._r.getstate() == random.Random(f"{seed} {request.node.nodeid}").getstate()


def test_the_tests_take_no_longer_than_the_page_says() -> None:
    """`scripts/test_times` writes the measured time beside the bound."""
    page = (ROOT / "CONTRIBUTING.md").read_text()
    rows = re.findall(r"`make (\w+)`: under (\d+) s; (\d+) s measured", page)
    assert [name for name, _, _ in rows] == ["quick", "test"]
    assert not [row for row in rows if int(row[2]) >= int(row[1])]


class FakeWorker:
    """A worker that keeps what it is told to run, by index."""

    shutting_down = False

    def __init__(self, name: str) -> None:
        self.gateway = SimpleNamespace(id=name)
        self.told: list[int] = []

    def send_runtest_some(self, indices: list[int]) -> None:
        self.told += indices

    def shutdown(self) -> None:
        """It gets no more."""


def test_few_tests_wait_behind_a_long_one() -> None:
    tests = [
        "tests/pipelines/test_kills.py::test_spark_is_killed_again_and_again",
        *(f"tests/raft/test_many.py::test_{number}" for number in range(50)),
        *(f"tests/raft/test_as_many.py::test_{number}" for number in range(50)),
        "tests/raft/test_few.py::test_one",
        "tests/raft/test_few.py::test_two",
    ]
    option = SimpleNamespace(loadscopereorder=True)
    config = SimpleNamespace(getvalue=lambda _: ["2*popen"], option=option)
    scheduling = WaitingBesideComputing(cast("pytest.Config", config), Producer("", enabled=False))
    workers = [FakeWorker("gw0"), FakeWorker("gw1")]
    for each in cast("list[WorkerController]", workers):
        scheduling.add_node(each)
        scheduling.add_node_collection(each, tests)
    scheduling.schedule()
    # With fifty of its own it would run them when all others have ended.
    assert [tests[index] for index in workers[0].told] == [tests[0], *tests[-2:]]
    assert len(workers[1].told) == 50
