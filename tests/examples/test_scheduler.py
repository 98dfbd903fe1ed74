"""The example scheduler: each job is run once at each of its times, whoever leads."""

import importlib.util
import signal
import sqlite3
import sys
import time
from contextlib import closing
from pathlib import Path
from types import ModuleType

import pytest

from quorate.raft import Epoch
from tests.kit.services import PATIENCE_S, Nodes, running
from tests.kit.waiting import wait_until

EXAMPLES = Path(__file__).parents[2] / "examples"
JOBS = ("mail", "report")
PROGRESS = 5
"""The runs of each job that show a leader at work."""
PAUSE_S = 4.0
"""Longer than the fetch timeout, after which the others elect another leader."""

pytestmark = [pytest.mark.system, pytest.mark.slow]


class Runs:
    """The database of the jobs."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def all(self, job: str) -> list[tuple[int, int]]:
        """Return the numbers and epochs of a job's runs, in their order."""
        with closing(sqlite3.connect(f"file:{self.file}?mode=ro", uri=True, timeout=30)) as database:
            try:
                return database.execute(
                    "SELECT number, epoch FROM runs WHERE job = ? ORDER BY rowid", [job]
                ).fetchall()
            except sqlite3.OperationalError as error:
                if "no such table" in str(error):
                    return []
                raise

    def wait_progress(self) -> None:
        """Return when each job was run some times more."""
        before = {job: len(self.all(job)) for job in JOBS}
        wait_until(
            lambda: all(len(self.all(job)) >= before[job] + PROGRESS for job in JOBS),
            lambda: f"each job is run again, after {before}",
            seconds=PATIENCE_S,
        )

    def missing(self, job: str) -> set[int]:
        """Return the numbers that were left out."""
        numbers = {number for number, _ in self.all(job)}
        return set(range(min(numbers), max(numbers))) - numbers


@pytest.fixture
def runs(tmp_path: Path) -> Runs:
    file = tmp_path / "jobs.db"
    sqlite3.connect(file).close()
    return Runs(file)


def scheduler(folder: Path, runs: Runs, program: Path = EXAMPLES / "scheduler.py") -> Nodes:
    return Nodes(folder, program, lambda _: str(runs.file))


@pytest.mark.slow
def test_no_run_is_left_out_or_repeated_when_leaders_are_killed_and_paused(
    tmp_path: Path, runs: Runs
) -> None:
    with running(scheduler(tmp_path, runs)) as nodes:
        for node in (nodes.leader, nodes.follower, nodes.leader):
            runs.wait_progress()
            killed = node()
            nodes.kill(killed)
            runs.wait_progress()
            nodes.start(killed)
        paused = nodes.processes[str(nodes.leader())]
        paused.send_signal(signal.SIGSTOP)
        time.sleep(PAUSE_S)
        runs.wait_progress()
        paused.send_signal(signal.SIGCONT)
        runs.wait_progress()
    for job in JOBS:
        assert runs.missing(job) == set(), f"runs of {job} that were left out"
        numbers, epochs = zip(*runs.all(job), strict=True)
        assert list(numbers) == sorted(numbers), f"runs of {job}, in their order"
        assert list(epochs) == sorted(epochs), f"a leader that was deposed ran {job}"
        assert len(set(epochs)) >= 4, "three leaders were replaced"


@pytest.mark.slow
def test_a_leader_that_forgets_the_runs_of_the_last_one_is_found(tmp_path: Path, runs: Runs) -> None:
    text = (EXAMPLES / "scheduler.py").read_text()
    remembers = "schedule.done.get(job, due - 1)"
    assert text.count(remembers) == 1
    begins_now = "max(schedule.done.get(job, 0), due - 1)"
    (tmp_path / "planted.py").write_text(text.replace(remembers, begins_now))
    (tmp_path / "three_nodes.py").write_text((EXAMPLES / "three_nodes.py").read_text())
    with running(scheduler(tmp_path, runs, tmp_path / "planted.py")) as nodes:
        runs.wait_progress()
        # Without a majority nobody leads for some runs, however quick an election is.
        killed = nodes.leader(), nodes.follower()
        for node in killed:
            nodes.kill(node)
        time.sleep(PAUSE_S)
        for node in killed:
            nodes.start(node)
        runs.wait_progress()
    assert [job for job in JOBS if runs.missing(job)] == list(JOBS)


@pytest.fixture
def example(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The example as a module."""
    monkeypatch.syspath_prepend(EXAMPLES)
    spec = importlib.util.spec_from_file_location("scheduler", EXAMPLES / "scheduler.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "scheduler", module)  # for its dataclass
    spec.loader.exec_module(module)
    return module


def test_the_database_refuses_a_run_that_it_has_and_a_leader_that_is_deposed(
    example: ModuleType, runs: Runs
) -> None:
    with closing(example.opened(str(runs.file))) as database:
        example.run(database, "mail", 7, Epoch(3))
        example.run(database, "mail", 7, Epoch(4))
        assert runs.all("mail") == [(7, 3)], "a run that is repeated after its leader's end"
        example.run(database, "report", 8, Epoch(4))
        example.run(database, "mail", 8, Epoch(3))
        assert runs.all("mail") == [(7, 3)], "a run of a deposed leader"
        example.run(database, "mail", 8, Epoch(4))
        assert runs.all("mail") == [(7, 3), (8, 4)]
