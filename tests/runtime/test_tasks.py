"""Tasks that synchronous code starts."""

from contextvars import ContextVar

import pytest
import trio
import trio.testing

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


async def test_a_task_has_the_context_of_its_runner_and_not_of_its_starter() -> None:
    """What an embedder's request notes in its context must not be in the log lines of a node for good."""
    tasks, request = Tasks(), ContextVar[str]("request", default="none")
    seen: list[str] = []

    async def task() -> None:
        seen.append(request.get())
        request.set("of the task")

    async with tasks.running():
        token = request.set("of a caller")
        tasks.start(task)
        await trio.testing.wait_all_tasks_blocked()
        tasks.start(task)
        await trio.testing.wait_all_tasks_blocked()
        assert request.get() == "of a caller"
        request.reset(token)
    assert seen == ["none", "none"]
