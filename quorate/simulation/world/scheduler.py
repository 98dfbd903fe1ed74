"""The schedule of a seed: `run` is `trio.run` under virtual time, with an order of tasks that the seed
draws."""

import gc
import math
import random
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final, TypeVar

import trio
from trio._core import _run as trio_run

from quorate.runtime import own_turns
from quorate.simulation.violations import StuckError as StuckError
from quorate.simulation.world.quick_runner import quicken
from quorate.simulation.world.step_costs import StepCosts, forget_work


class VirtualClock(trio.abc.Clock):
    """A clock for one `trio.run`. Seconds, from 0.

    trio asks for the time to sleep only when nothing is runnable, so that is where time passes. If there is
    no deadline either, or none before `limit_seconds`, `stuck` is called with what is wrong; it must make
    something runnable.
    """

    __slots__ = ("_limit_seconds", "_next_due", "_spent", "_stuck", "now")

    def __init__(
        self,
        *,
        limit_seconds: float,
        stuck: Callable[[str], None],
        spent: Callable[[], float] = lambda: 0.0,
        next_due: Callable[[float], float] = lambda now: math.inf,
    ) -> None:
        """`spent`: by the step under way, which its own task sees as time that has passed. `next_due`: called
        of the time, makes what is due by then runnable, and says when the next is due."""
        self.now = 0.0
        """The time without the step under way."""
        self._spent = spent
        self._next_due = next_due
        self._limit_seconds = limit_seconds
        self._stuck = stuck

    def start_clock(self) -> None:
        pass

    def current_time(self) -> float:
        return self.now + self._spent()

    def deadline_to_sleep_time(self, deadline: float) -> float:
        due = self._next_due(self.now)
        if due < deadline:
            deadline = due
        if deadline > self._limit_seconds:
            if math.isinf(deadline):
                self._stuck("deadlock: every task waits for another one, for good")
            else:
                self._stuck(f"not finished after {self._limit_seconds:g} s of virtual time")
        elif deadline > self.now:
            self.now = deadline
            self._next_due(deadline)
        return 0.0


T = TypeVar("T")

_PROCESS: Final[ContextVar[str | None]] = ContextVar("quorate_simulated_process", default=None)
"""The simulated process of a task. Tasks inherit it from the task that starts them."""
_PASSES_MAX: Final = 30_000
"""Passes of the scheduler without time passing that are taken for a busy loop."""


def current_process() -> str | None:
    """Name of the simulated process that the running task belongs to."""
    return _PROCESS.get()


class Scheduler(random.Random):
    """The scheduler that `run` gives to the program. Stands in for trio's own `random.Random`."""

    def __init__(self, seed: int, *, limit_seconds: float = math.inf) -> None:
        super().__init__(seed)
        self._paused: dict[str, list[trio.lowlevel.Task]] = {}
        self._busy: dict[str, float] = {}
        """Processes whose last step took virtual time, and when it ends."""
        self._waiting: dict[str, list[trio.lowlevel.Task]] = {}
        """The tasks that each pause holds back."""
        self.costs = StepCosts(process_of=lambda task: task.context.get(_PROCESS), busy=self.make_busy)
        self.clock = VirtualClock(
            limit_seconds=limit_seconds,
            stuck=self.stuck,
            spent=self.costs.spent_seconds,
            next_due=self.next_due,
        )
        self.busy_seconds = 0.0
        """The busy time of all processes together."""
        self.longest_step_seconds = 0.0
        self._awaited: list[tuple[str, list[int], trio.Event]] = []
        """Processes with the number of their passes that are still to come, and the events to set then."""
        self._passes = 0
        self._pass_time = -1.0
        self._scope = trio.CancelScope()
        self._stuck: str | None = None
        self._ended = False

    # Processes

    @contextmanager
    def process(self, name: str) -> Iterator[None]:
        """Tasks that are started in this block, and those that they start, belong to process `name`."""
        token = _PROCESS.set(name)
        try:
            with own_turns():
                yield
        finally:
            _PROCESS.reset(token)

    def pause(self, name: str) -> None:
        """Run no task of the process from the next pass on. Idempotent."""
        self._paused.setdefault(name, [])

    def resume(self, name: str) -> None:
        """Run the delayed tasks in the next pass. Idempotent."""
        held = self._paused.pop(name, None)
        if held:
            trio_run.GLOBAL_RUN_CONTEXT.runner.runq.extend(held)  # pyright: ignore[reportAttributeAccessIssue]

    def is_paused(self, name: str) -> bool:
        """Return whether `pause` holds the process."""
        return name in self._paused

    def make_busy(self, name: str, seconds: float) -> None:
        """A step of the process, just done, took so long: until then none of its tasks runs."""
        now = self.clock.now
        self._busy[name] = max(self._busy.get(name, now), now) + seconds
        self.busy_seconds += seconds
        self.longest_step_seconds = max(self.longest_step_seconds, seconds)

    def kill(self, name: str) -> None:
        """The process neither sleeps nor computes any more: its tasks may be cancelled. Idempotent."""
        self.resume(name)
        if name in self._busy:
            self._end_busy(name)

    def _end_busy(self, name: str) -> None:
        del self._busy[name]
        runner = trio_run.GLOBAL_RUN_CONTEXT.runner  # pyright: ignore[reportAttributeAccessIssue]
        runner.runq.extend(self._waiting.pop(name, ()))

    def next_due(self, now: float) -> float:
        """Steps that are over by `now` free their processes; when the next one is."""
        if not self._busy:
            return math.inf
        for name in [name for name, end in self._busy.items() if end <= now]:
            self._end_busy(name)
        return min(self._busy.values(), default=math.inf)

    async def wait_passes(self, name: str, count: int) -> None:
        """Return after `count` passes in which a task of the process ran: as each task runs from one await to
        the next in a pass, there is such a moment between any two awaits."""
        event = trio.Event()
        entry = (name, [count], event)
        self._awaited.append(entry)
        try:
            await event.wait()
        finally:
            self._awaited.remove(entry)

    # For trio

    def shuffle(self, x: Any) -> None:
        """Shuffle the tasks that trio is about to run; it names them in the order of their creation."""
        now = self.clock.now
        if now != self._pass_time:
            self._pass_time = now
            self._passes = 0
        else:
            self._passes += 1
            if self._passes > _PASSES_MAX:
                self.stuck(f"busy loop: {_PASSES_MAX} passes of the scheduler at {now:.6f} s")
        if self._paused or self._busy:
            x[:] = [task for task in x if not self._hold(task)]
        if self._awaited:
            self._count_passes(x)
        if len(x) > 1:
            super().shuffle(x)

    def _count_passes(self, batch: list[trio.lowlevel.Task]) -> None:
        running = {task.context.get(_PROCESS) for task in batch}
        for name, left, event in self._awaited:
            if name in running:
                left[0] -= 1
                if left[0] == 0:
                    event.set()

    def _hold(self, task: trio.lowlevel.Task) -> bool:
        name = task.context.get(_PROCESS)
        if name is None:
            return False
        held = self._paused.get(name)
        if held is None:
            if name not in self._busy:
                return False
            held = self._waiting.setdefault(name, [])
        held.append(task)
        return True

    def stuck(self, reason: str) -> None:
        """Note where each task waits, and cancel the program."""
        if self._ended:
            # trio's own last tasks may wait for its wake-up socket, which is quicker than any deadline.
            return
        if self._stuck is not None:
            raise StuckError(f"{self._stuck}\nand the program did not end when it was cancelled")
        self._stuck = "\n".join((reason, *waiting_tasks()))
        self._passes = 0
        for name in {**self._paused, **self._busy}:
            self.kill(name)
        self._scope.cancel()

    async def main(self, program: "Callable[[Scheduler], Awaitable[T]]") -> T:
        """Run the program until it ends or is stuck. Raises `StuckError`."""
        quicken(trio_run.GLOBAL_RUN_CONTEXT.runner, self.costs)  # pyright: ignore[reportAttributeAccessIssue]
        try:
            with self._scope:
                result = await program(self)
                if self._stuck is None:
                    return result
            raise StuckError(self._stuck)
        finally:
            self._ended = True


def run(
    seed: int,
    program: Callable[[Scheduler], Awaitable[T]],
    *,
    limit_seconds: float = 3600.0,
    slowness: float = 1.0,
) -> T:
    """Run `program` to its end under virtual time; the same seed gives the same schedule. `slowness`: of the
    machines, see `StepCosts`.

    Raises `StuckError` if all tasks wait for good, time runs past `limit_seconds`, or they spin without time
    passing. No garbage is collected meanwhile: when a collection comes is not the seed's to say.
    """
    scheduler = Scheduler(seed, limit_seconds=limit_seconds)
    scheduler.costs.slowness = slowness
    with _deterministic(scheduler):
        try:
            return trio.run(scheduler.main, program, clock=scheduler.clock)
        finally:
            forget_work()


@contextmanager
def _deterministic(source: random.Random) -> Iterator[None]:
    before = trio_run._ALLOW_DETERMINISTIC_SCHEDULING, trio_run._r
    collecting = gc.isenabled()
    trio_run._ALLOW_DETERMINISTIC_SCHEDULING = True  # type: ignore[misc]
    trio_run._r = source
    gc.disable()
    try:
        yield
    finally:
        trio_run._ALLOW_DETERMINISTIC_SCHEDULING, trio_run._r = before  # type: ignore[misc]
        if collecting:
            gc.enable()


def waiting_tasks() -> Iterator[str]:
    """A line for each task that waits: its process, and its frames from the outside in."""
    root = trio.lowlevel.current_root_task()
    todo = [] if root is None else [root]
    while todo:
        task = todo.pop()
        nurseries = task.child_nurseries
        children = sorted((child for nursery in nurseries for child in nursery.child_tasks), key=repr)
        todo.extend(children)
        frames = [
            f"{frame.f_code.co_qualname}:{line}"
            for frame, line in task.iter_await_frames()
            if "/trio/" not in frame.f_code.co_filename
        ]
        process = task.context.get(_PROCESS)
        if frames:
            yield f"  {process or '-'}: {' > '.join(frames)}"
