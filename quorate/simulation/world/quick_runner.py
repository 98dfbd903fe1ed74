"""Cheaper parts for trio's loop under virtual time: a pass runs about one task, so a pass has to be cheap."""

from collections.abc import Callable
from typing import Final

import trio
from trio._core import _run as trio_run
from trio._core._instrumentation import Instruments

from quorate.simulation.world.step_costs import StepCosts

_POLL_EVERY: Final = 64
"""Passes between two looks at the files that trio waits for: only signals come unannounced."""


class _Steps(trio.abc.Instrument):
    """The costs of steps beside other instruments."""

    def __init__(self, costs: StepCosts) -> None:
        self._costs = costs

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        self._costs.begin(task)

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        self._costs.end(task)


class _StepHooks(dict[str, Callable[[trio.lowlevel.Task], None]]):
    """The hooks of steps alone, until an instrument is added. trio asks for each of its hooks by name several
    times a step, and its own collection answers that in Python."""

    def __init__(self, runner: trio_run.Runner, costs: StepCosts) -> None:
        super().__init__(before_task_step=costs.begin, after_task_step=costs.end)
        self._runner = runner
        self._costs = costs

    def call(self, hookname: str, task: trio.lowlevel.Task) -> None:
        self[hookname](task)

    def add_instrument(self, instrument: trio.abc.Instrument) -> None:
        self._runner.instruments = Instruments([_Steps(self._costs), instrument])


class _NoFiles:
    """trio's wait for files, of a program that has none but trio's own wake-up socket."""

    def __init__(self, runner: trio_run.Runner) -> None:
        self._real = runner.io_manager
        self._entries = runner.entry_queue
        self._passes = 0

    def get_events(self, timeout: float) -> object:
        self._passes += 1
        entries = self._entries
        if entries.queue or entries.idempotent_queue or self._passes % _POLL_EVERY == 0:
            return self._real.get_events(timeout)
        return ()

    def process_events(self, events: object) -> None:
        if events:
            self._real.process_events(events)  # type: ignore[arg-type]

    def __getattr__(self, name: str) -> object:
        found: object = getattr(self._real, name)
        return found


def quicken(runner: trio_run.Runner, costs: StepCosts) -> None:
    """Replace the parts of the runner whose program has just begun; `costs` sees each step of a task from the
    next one on."""
    runner.instruments = _StepHooks(runner, costs)  # type: ignore[assignment]
    runner.io_manager = _NoFiles(runner)  # type: ignore[assignment]
