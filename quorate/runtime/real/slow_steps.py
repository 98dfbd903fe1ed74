"""The log of slow steps: each step of a task that takes too long, with its place."""

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final

import trio

from quorate.runtime.event_log import get_logger

log = get_logger(__name__)

_FRAMES_MAX: Final = 4


def place_of(frame: FrameType | None) -> str:
    """Return the innermost frames outside of trio, from the inside out: `walk.py:96 next < reads.py:12
    find`."""
    places: list[str] = []
    while frame is not None and len(places) < _FRAMES_MAX:
        code = frame.f_code
        if "/trio/" not in code.co_filename:
            places.append(f"{code.co_filename.rpartition('/')[2]}:{frame.f_lineno} {code.co_qualname}")
        frame = frame.f_back
    return " < ".join(places)


def waiting_place_of(task: trio.lowlevel.Task) -> str:
    """Return the frames in which a task waits, from the inside out."""
    frames = [
        f"{frame.f_code.co_filename.rpartition('/')[2]}:{line} {frame.f_code.co_qualname}"
        for frame, line in task.iter_await_frames()
        if "/trio/" not in frame.f_code.co_filename
    ]
    return " < ".join(reversed(frames[-_FRAMES_MAX:]))


class SlowSteps(trio.abc.Instrument):
    """Times each step, from one await that waits to the next. Use `watch_slow_steps`."""

    def __init__(self, limit_ms: float) -> None:
        self._limit_s = limit_ms / 1000
        self._began = 0.0
        """The time at which the step under way began; 0 between steps."""
        self._seen = (0.0, "")
        """The step that the watching thread caught: the time at which it began, and its place."""
        self._loop_thread = threading.get_ident()
        self._stopped = threading.Event()

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        self._began = time.perf_counter()

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        began, self._began = self._began, 0.0
        if not began:
            return
        taken = time.perf_counter() - began
        if taken < self._limit_s:
            return
        seen, place = self._seen
        log.warning(
            "a step held the event loop",
            ms=round(taken * 1000, 1),
            limit_ms=round(self._limit_s * 1000, 1),
            task=task.name,
            place=place if seen == began else waiting_place_of(task),
        )

    def _watch(self) -> None:
        # Twice in the time that is allowed: a step that goes on past it is caught in the act.
        while not self._stopped.wait(self._limit_s / 2):
            began = self._began
            if began and began != self._seen[0] and time.perf_counter() - began >= self._limit_s:
                self._seen = (began, place_of(sys._current_frames().get(self._loop_thread)))

    @contextmanager
    def running(self) -> Iterator[None]:
        thread = threading.Thread(target=self._watch, name="quorate-slow-steps", daemon=True)
        thread.start()
        trio.lowlevel.add_instrument(self)
        try:
            yield
        finally:
            trio.lowlevel.remove_instrument(self)
            self._stopped.set()
            thread.join()


@contextmanager
def watch_slow_steps(limit_ms: float) -> Iterator[None]:
    """Within the block, log each step of this event loop that takes `limit_ms` or longer: the task's name,
    and where it was when that time was over. `limit_ms` of 0 watches nothing and costs nothing."""
    if limit_ms <= 0:
        yield
        return
    with SlowSteps(limit_ms).running():
        yield
