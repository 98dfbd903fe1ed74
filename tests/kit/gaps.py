"""The time for which a piece of work holds the event loop, in tests by real time.

Mark the test `@pytest.mark.real_time` (`pytest -m "not real_time"` leaves it out), run the coroutine on data
that is large, and let it fail if nothing else would have run for too long:

    from gaps import within_gap

    @pytest.mark.real_time
    async def test_opening_a_long_log_lets_others_run(tmp_path):
        log = await within_gap(Log.open(RealDisk(sync=SyncStrategy.THREAD), ...), what="Log.open")

`within_gap` returns the coroutine's result. The budget is 100 ms, or that of the environment variable
QUORATE_GAP_MS: 25 holds on a quiet machine. The measure is the processor's time of the loop's thread between
two looks at the outside world (trio's I/O waits), the steps of all tasks together, so busy neighbours make no
test fail. Time in which the thread waits for a device isn't seen: use a disk whose syncs have a thread.
Wrap a plain call in a coroutine. Garbage is collected before, so that the test's own objects are not charged
to the work.
"""

import gc
import os
import time
from collections.abc import Awaitable
from dataclasses import dataclass
from typing import Generic, TypeVar

import trio

from quorate.runtime.real.slow_steps import waiting_place_of

T = TypeVar("T")

BUDGET_MS = float(os.environ.get("QUORATE_GAP_MS", "100"))


@dataclass(frozen=True)
class Gap(Generic[T]):
    """The result of a coroutine, and the longest time for which it let nothing else run."""

    result: T
    ms: float
    place: str
    """The end of the longest step of that time: the task's name, and its frames from the inside out."""
    passes: int
    """The number of times that others could run."""


class _Meter(trio.abc.Instrument):
    def __init__(self) -> None:
        self.longest = 0.0
        self.place = ""
        self.passes = 0
        self._pass_began = self._step_began = time.thread_time()
        self._longest_step = 0.0
        self._step_place = ""

    def after_io_wait(self, timeout: float) -> None:
        self._pass_began = time.thread_time()
        self._longest_step, self._step_place = 0.0, ""
        self.passes += 1

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        self._step_began = time.thread_time()

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        taken = time.thread_time() - self._step_began
        if taken > self._longest_step:
            self._longest_step = taken
            if taken > 0.005:
                self._step_place = f"{task.name}: {waiting_place_of(task)}"

    def before_io_wait(self, timeout: float) -> None:
        taken = time.thread_time() - self._pass_began
        if taken > self.longest:
            self.longest, self.place = taken, self._step_place


async def longest_gap(work: Awaitable[T]) -> Gap[T]:
    """Run `work`, and measure."""
    gc.collect()
    meter = _Meter()
    trio.lowlevel.add_instrument(meter)
    try:
        await trio.lowlevel.checkpoint()
        meter.longest, meter.passes = 0.0, 0
        result = await work
        last = time.thread_time() - meter._pass_began
        if last > meter.longest:
            meter.longest, meter.place = last, "the last step"
    finally:
        trio.lowlevel.remove_instrument(meter)
    return Gap(result, meter.longest * 1000, meter.place, meter.passes)


async def within_gap(work: Awaitable[T], *, what: str, budget_ms: float = BUDGET_MS) -> T:
    """Run `work` and return its result. Fail if it held the event loop for longer than `budget_ms`."""
    gap = await longest_gap(work)
    assert gap.ms <= budget_ms, (
        f"{what} held the event loop for {gap.ms:.1f} ms in one piece, {budget_ms:g} are allowed; "
        f"others could run {gap.passes} times; the longest step: {gap.place}"
    )
    return gap.result
