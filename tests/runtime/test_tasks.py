"""Tasks that synchronous code starts."""

import pytest
import trio

from quorate.runtime import Tasks


async def test_a_task_runs_whether_it_was_started_before_or_in_the_block() -> None:
    tasks, early, late = Tasks(), trio.Event(), trio.Event()

    async def run_early() -> None:
        early.set()

    async def run_late() -> None:
        late.set()

    tasks.start(run_early)
    with trio.fail_after(5):
        async with tasks.running():
            await early.wait()
            tasks.start(run_late)
            await late.wait()
            assert not tasks.ended


async def test_the_block_ends_with_its_tasks_and_none_starts_afterwards() -> None:
    tasks, cleaned = Tasks(), trio.Event()

    async def task() -> None:
        try:
            await trio.sleep_forever()
        finally:
            assert tasks.ended
            cleaned.set()

    async with tasks.running() as nursery:
        nursery.cancel_scope.cancel()
        tasks.start(task)
    assert cleaned.is_set()
    with pytest.raises(RuntimeError):
        tasks.start(task)
