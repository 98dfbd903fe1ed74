"""The run of explorations, one by one or several at once, and its report."""

import enum
import multiprocessing
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace

from tests.simulator.explorer import counterexample
from tests.simulator.explorer.core_model.actions import Action as CoreAction
from tests.simulator.explorer.core_model.bounds import SUITES
from tests.simulator.explorer.core_model.core_model import CoreModel
from tests.simulator.explorer.core_model.coverage import Coverage
from tests.simulator.explorer.isr_model.isr_bounds import ISR_SUITES
from tests.simulator.explorer.isr_model.isr_model import IsrModel
from tests.simulator.explorer.model import Action, Model, Violation
from tests.simulator.explorer.retold_counterexample import retell_counterexample
from tests.simulator.explorer.search import explore
from tests.simulator.retelling.teller import CannotRetell


class Subject(enum.Enum):
    """The model that is explored."""

    CORE = "core"
    ISR = "isr"

    @property
    def names(self) -> dict[str, tuple[str, ...]]:
        """Return the names of the explorations of each bound."""
        suites = SUITES if self is Subject.CORE else ISR_SUITES
        return {bound: tuple(suite) for bound, suite in suites.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """An exploration to be run."""

    subject: Subject = Subject.CORE
    suite: str
    name: str
    reduce: bool = True
    symmetric: bool = True
    states_max: int | None = None

    @property
    def command(self) -> str:
        """Return the command that runs this exploration."""
        return (
            f"python -m tests.simulator.explorer{' --isr' if self.subject is Subject.ISR else ''} "
            f"--bound {self.suite} --only '{self.name}'{'' if self.reduce else ' --no-reduction'}"
        )

    def core_model(self) -> CoreModel:
        return CoreModel(SUITES[self.suite][self.name], reduce=self.reduce)

    def isr_model(self) -> IsrModel:
        return IsrModel(ISR_SUITES[self.suite][self.name])


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The result of one exploration; goes from process to process."""

    name: str
    states: int
    stands_for: int
    """States without the reduction by symmetry."""
    transitions: int
    depth: int
    cut: int
    """Transitions out of bounds."""
    seconds: float
    complete: bool
    coverage: Coverage | None = None
    """The core's."""
    counterexample: tuple[str, ...] = ()
    """The steps to a violation; empty if there is none."""
    script: str = ""
    """The same for teaching mode; empty if there is none."""

    def line(self) -> str:
        """Return the report in one line."""
        rate = self.states / self.seconds if self.seconds else 0.0
        stands_for = f"for {self.stands_for:>10,} " if self.coverage is not None else ""
        return (
            f"{self.name:38} {self.states:>10,} states {stands_for}{self.transitions:>11,} transitions  "
            f"depth {self.depth:>3} {self.seconds:7.1f} s {rate:>8,.0f} states/s  "
            f"{self.cut:>9,} cut by the bound{'' if self.complete else '  NOT COMPLETE'}"
        )


@dataclass(slots=True)
class Total:
    """The total of a suite."""

    states: int = 0
    stands_for: int = 0
    transitions: int = 0
    broken: int = 0
    coverage: Coverage = field(default_factory=Coverage)

    def add(self, report: Report) -> None:
        self.states += report.states
        self.stands_for += report.stands_for
        self.transitions += report.transitions
        self.broken += bool(report.counterexample)
        if report.coverage is not None:
            self.coverage.add(report.coverage)


def run(task: Task, *, say: Callable[[str], None] | None = None) -> Report:
    """Run one exploration. `say` gets a line for each level."""
    if task.subject is Subject.ISR:
        return _run(task, task.isr_model(), say)[0]
    model = task.core_model()
    report, violation = _run(task, model, say)
    lines, script = ((), "") if violation is None else _retold(task, model, violation)
    return replace(
        report, coverage=model.coverage, counterexample=(*report.counterexample, *lines), script=script
    )


def _run(
    task: Task, model: Model[Action], say: Callable[[str], None] | None
) -> tuple[Report, Violation[Action] | None]:
    started = time.monotonic()

    def progress(states: int, transitions: int, depth: int) -> None:
        if say is not None:
            say(f"{task.name}: depth {depth}, {states:,} states, {transitions:,} transitions")

    found = explore(model, states_max=task.states_max, progress=progress, symmetric=task.symmetric)
    report = Report(
        name=task.name,
        states=found.states,
        stands_for=found.stands_for,
        transitions=found.transitions,
        depth=found.depth,
        cut=model.cut,
        seconds=time.monotonic() - started,
        complete=found.complete,
        counterexample=() if found.violation is None else _told(task, model, found.violation),
    )
    return report, found.violation


def _told(task: Task, model: Model[Action], violation: Violation[Action]) -> tuple[str, ...]:
    path = counterexample.path_of(model, violation)
    again = f"See it again: {task.command}{f' --replay {path}' if path else ''}"
    return (*counterexample.lines_of(model, violation), again)


def _retold(task: Task, model: CoreModel, violation: Violation[CoreAction]) -> tuple[tuple[str, ...], str]:
    """Return what to say of the script, and the script; empty if teaching mode can't play it."""
    try:
        title = f"A counterexample: {violation.invariant}"
        script = retell_counterexample(model, violation, title=title, source=task.command)
    except CannotRetell as error:
        return (f"quorate raft play can't play it: {error}",), ""
    return (), script


def replay(task: Task, path: str) -> tuple[tuple[str, ...], str]:
    """Repeat the path to a violation. Return its description and its script; empty if nothing is broken on
    it. Raises ValueError if this code has no such path."""
    if task.subject is Subject.ISR:
        isr = task.isr_model()
        found = counterexample.replay(isr, path)
        return () if found is None else tuple(counterexample.lines_of(isr, found)), ""
    model = task.core_model()
    violation = counterexample.replay(model, path)
    if violation is None:
        return (), ""
    lines, script = _retold(task, model, violation)
    return (*counterexample.lines_of(model, violation), *lines), script


def run_all(
    tasks: Iterable[Task], *, jobs: int, say: Callable[[str], None] | None = None
) -> Iterator[Report]:
    """Yield reports as they come. With one job, `say` gets the progress too."""
    if jobs == 1:
        yield from (run(task, say=say) for task in tasks)
        return
    with multiprocessing.get_context("spawn").Pool(jobs, maxtasksperchild=1) as pool:
        yield from pool.imap_unordered(run, tasks, chunksize=1)
