"""The threads that wait for devices."""

import contextlib
import queue
import threading
from collections.abc import Callable
from typing import TypeVar

import outcome
import trio

_Result = TypeVar("_Result")


class DiskThreads:
    """Long-lived threads that run blocking calls, and wake the task that waits for each. Belongs to one event
    loop.

    Calls begin in the order in which they came. A long call does not delay others while there are threads: a
    thread is started when all are busy, up to `most`. Syncs that are under way together share the
    commits of the file system's journal.

    The threads end with this object.

    Half the cost of `trio.to_thread` (reference figures in docs/explanation/performance.md): no limiter, no
    context copy, no change of thread.
    """

    __slots__ = ("_calls", "_most", "_started", "_under_way")

    def __init__(self, *, most: int) -> None:
        self._most = most
        self._calls: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._started = 0
        self._under_way = 0

    def post(self, function: Callable[[], None]) -> None:
        """Run `function` on a thread without waiting for it. It must not raise."""
        if not self._started:
            self._start()
        self._calls.put(function)

    async def call(self, function: Callable[[], _Result]) -> _Result:
        """Run `function` on a thread. Cancellation waits for it: a sync under way can't be recalled."""
        token = trio.lowlevel.current_trio_token()
        task = trio.lowlevel.current_task()

        def on_thread() -> None:
            outcome_of_call = outcome.capture(function)
            with contextlib.suppress(trio.RunFinishedError):
                token.run_sync_soon(trio.lowlevel.reschedule, task, outcome_of_call)

        await trio.lowlevel.checkpoint_if_cancelled()
        self._under_way += 1
        try:
            if self._started < min(self._under_way, self._most):
                self._start()
            self._calls.put(on_thread)
            result: _Result = await trio.lowlevel.wait_task_rescheduled(lambda _: trio.lowlevel.Abort.FAILED)
        finally:
            self._under_way -= 1
        return result

    def _start(self) -> None:
        self._started += 1
        threading.Thread(target=_run, args=(self._calls,), name="quorate-disk", daemon=True).start()

    def __del__(self) -> None:
        self._calls.put(None)


def _run(calls: "queue.SimpleQueue[Callable[[], None] | None]") -> None:
    # The threads know the queue alone, so that they end with the last reference to its owner.
    while (call := calls.get()) is not None:
        call()
        del call
    calls.put(None)
