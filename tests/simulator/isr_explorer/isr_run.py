"""The run of explorations of the ISR protocol, one by one or several at once, and its report."""

import multiprocessing
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from tests.simulator.isr_explorer import isr_counterexample
from tests.simulator.isr_explorer.isr_search import explore_isr
from tests.simulator.isr_explorer.isr_suites import ISR_SUITES


@dataclass(frozen=True, slots=True, kw_only=True)
class IsrTask:
    """An exploration to be run."""

    suite: str
    name: str
    states_max: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class IsrReport:
    """The result of one exploration; goes from process to process."""

    name: str
    states: int
    transitions: int
    depth: int
    cut: int
    """Steps out of bounds."""
    seconds: float
    complete: bool
    counterexample: tuple[str, ...] = ()
    """The steps to a violation; empty if there is none."""

    def line(self) -> str:
        """Return the report in one line."""
        rate = self.states / self.seconds if self.seconds else 0.0
        end = "" if self.complete else "  NOT COMPLETE"
        return (
            f"{self.name:32} {self.states:>10,} states {self.transitions:>11,} transitions  "
            f"depth {self.depth:>3} {self.seconds:7.1f} s {rate:>8,.0f} states/s  "
            f"{self.cut:>9,} cut by the bound{end}"
        )


def run_isr(task: IsrTask, *, say: Callable[[str], None] | None = None) -> IsrReport:
    """Run one exploration. `say` gets a line for each level."""
    started = time.monotonic()

    def progress(states: int, transitions: int, depth: int) -> None:
        if say is not None:
            say(f"{task.name}: depth {depth}, {states:,} states, {transitions:,} transitions")

    found = explore_isr(ISR_SUITES[task.suite][task.name], states_max=task.states_max, progress=progress)
    lines: tuple[str, ...] = ()
    if found.breach is not None:
        way = isr_counterexample.way_of(found.world, found.breach)
        lines = (
            *isr_counterexample.lines_of(found.world, found.breach),
            "See it again: python -m tests.simulator.isr_explorer "
            f"--bound {task.suite} --only '{task.name}' --replay {way}",
        )
    return IsrReport(
        name=task.name,
        states=found.states,
        transitions=found.transitions,
        depth=found.depth,
        cut=found.world.cut,
        seconds=time.monotonic() - started,
        complete=found.complete,
        counterexample=lines,
    )


def run_all_isr(
    tasks: Iterable[IsrTask], *, jobs: int, say: Callable[[str], None] | None = None
) -> Iterator[IsrReport]:
    """Yield reports as they come. With one job, `say` gets the progress too."""
    if jobs == 1:
        yield from (run_isr(task, say=say) for task in tasks)
        return
    with multiprocessing.get_context("spawn").Pool(jobs, maxtasksperchild=1) as pool:
        yield from pool.imap_unordered(run_isr, tasks, chunksize=1)
