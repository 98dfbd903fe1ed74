"""The cost of a simulated step, by the data that it touched (`quorate.runtime.work`).

A step of a simulated process that touches much holds up that process in virtual time, as it would hold up the
event loop of a real one, so that it loses elections and sessions. What is short is free: seeds don't change
their schedules by it.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

import trio

from quorate.runtime import WORK

BATCH_SECONDS: Final = 8e-6
RECORD_SECONDS: Final = 4e-6
PARTITION_SECONDS: Final = 20e-6
BYTE_SECONDS: Final = 0.5e-9
"""The cost of a byte on a machine of today, roughly; bytes are copied and their CRC is computed."""
FREE_SECONDS: Final = 0.002
"""Steps that are shorter take no virtual time."""


def forget_work() -> None:
    WORK.batches = WORK.records = WORK.partitions = WORK.bytes = 0


@contextmanager
def uncounted() -> Iterator[None]:
    """Exclude the harness's work within a process's step."""
    kept = WORK.batches, WORK.records, WORK.partitions, WORK.bytes
    try:
        yield
    finally:
        WORK.batches, WORK.records, WORK.partitions, WORK.bytes = kept


class StepCosts:
    """Prices each step of a simulated process, between `begin` and `end`."""

    def __init__(
        self, *, process_of: Callable[[trio.lowlevel.Task], str | None], busy: Callable[[str, float], None]
    ) -> None:
        self._process_of = process_of
        self._busy = busy
        self._process: str | None = None
        self.slowness = 1.0
        """The factor by which the machines are slower than usual, so that little data stands for much."""

    def spent_seconds(self) -> float:
        """Return the time of the step under way, so far. 0 for free steps, and for the harness's own."""
        if self._process is None:
            return 0.0
        spent = self.slowness * (
            WORK.batches * BATCH_SECONDS
            + WORK.records * RECORD_SECONDS
            + WORK.partitions * PARTITION_SECONDS
            + WORK.bytes * BYTE_SECONDS
        )
        return spent if spent >= FREE_SECONDS else 0.0

    def begin(self, task: trio.lowlevel.Task) -> None:
        """The task's next step begins."""
        WORK.batches = WORK.records = WORK.partitions = WORK.bytes = 0
        self._process = self._process_of(task)

    def end(self, task: trio.lowlevel.Task) -> None:
        """The step of the task is over."""
        process = self._process
        if process is None:
            return
        spent = self.spent_seconds()
        self._process = None
        if spent:
            self._busy(process, spent)
