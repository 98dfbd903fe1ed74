"""The run of explorations, one by one or several at once, and its report."""

import multiprocessing
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from tests.simulator.explorer import counterexample
from tests.simulator.explorer.bounds import Bound
from tests.simulator.explorer.coverage import Coverage
from tests.simulator.explorer.search import explore
from tests.simulator.explorer.suites import SUITES
from tests.simulator.explorer.world import World


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    suite: str
    name: str
    reduce: bool = True
    symmetric: bool = True
    states_max: int | None = None

    @property
    def bound(self) -> Bound:
        return SUITES[self.suite][self.name]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplorationReport:
    """The result of one exploration; goes from process to process."""

    name: str
    states: int
    stands_for: int
    """States without the reduction by symmetry."""
    transitions: int
    depth: int
    cut: int
    """Transitions out of bounds."""
    machines: int
    seconds: float
    complete: bool
    coverage: Coverage
    counterexample: tuple[str, ...] = ()
    """The steps to a violation; empty if there is none."""

    def line(self) -> str:
        rate = self.states / self.seconds if self.seconds else 0.0
        end = "" if self.complete else "  NOT COMPLETE"
        return (
            f"{self.name:28} {self.states:>10,} states for {self.stands_for:>10,} "
            f"{self.transitions:>11,} transitions  "
            f"depth {self.depth:>3} "
            f"{self.seconds:7.1f} s {rate:>8,.0f} states/s  {self.cut:>9,} cut by the bound{end}"
        )


@dataclass(slots=True)
class Total:
    """The total of a suite."""

    states: int = 0
    stands_for: int = 0
    transitions: int = 0
    broken: int = 0
    coverage: Coverage = field(default_factory=Coverage)

    def add(self, report: ExplorationReport) -> None:
        self.states += report.states
        self.stands_for += report.stands_for
        self.transitions += report.transitions
        self.broken += bool(report.counterexample)
        self.coverage.add(report.coverage)


def run(task: Task, *, say: Callable[[str], None] | None = None) -> ExplorationReport:
    world = World(task.bound, reduce=task.reduce)
    started = time.monotonic()

    def progress(states: int, transitions: int, depth: int) -> None:
        if say is not None:
            say(f"{task.name}: depth {depth}, {states:,} states, {transitions:,} transitions")

    found = explore(world, states_max=task.states_max, progress=progress, symmetric=task.symmetric)
    lines: tuple[str, ...] = ()
    if found.violation is not None:
        path = counterexample.path_of(world, found.violation)
        reduction = "" if task.reduce else " --no-reduction"
        lines = (
            *counterexample.lines_of(world, found.violation),
            "See it again: python -m tests.simulator.explorer "
            f"--bound {task.suite} --only '{task.name}'{reduction}{f' --replay {path}' if path else ''}",
        )
    return ExplorationReport(
        name=task.name,
        states=found.states,
        stands_for=found.stands_for,
        transitions=found.transitions,
        depth=found.depth,
        cut=world.cut,
        machines=len(world.machines),
        seconds=time.monotonic() - started,
        complete=found.complete,
        coverage=world.coverage,
        counterexample=lines,
    )


def run_all(
    tasks: Iterable[Task], *, jobs: int, say: Callable[[str], None] | None = None
) -> Iterator[ExplorationReport]:
    """Yield reports as they come. With one job, `say` gets the progress too."""
    if jobs == 1:
        yield from (run(task, say=say) for task in tasks)
        return
    with multiprocessing.get_context("spawn").Pool(jobs, maxtasksperchild=1) as pool:
        yield from pool.imap_unordered(run, tasks, chunksize=1)
