"""The meter of gaps, and the switch that logs slow steps, see what they are for."""

import time

import pytest
import trio
from gaps import longest_gap, within_gap

from quorate.runtime.real.slow_steps import watch_slow_steps
from quorate.runtime.slices import Slices

pytestmark = pytest.mark.real_time


def burn(seconds: float) -> None:
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass


async def burn_in_one_piece() -> str:
    await trio.lowlevel.checkpoint()
    burn(0.15)
    await trio.lowlevel.checkpoint()
    return "done"


async def burn_in_slices() -> str:
    slices = Slices()
    for _ in range(150):
        burn(0.001)
        await slices.pause()
    return "done"


async def test_work_in_one_piece_is_measured_and_refused() -> None:
    gap = await longest_gap(burn_in_one_piece())
    assert gap.result == "done"
    assert 150 <= gap.ms < 1000
    with pytest.raises(AssertionError, match=r"it held the event loop for \d+\.\d ms in one piece, 100 are"):
        await within_gap(burn_in_one_piece(), what="it", budget_ms=100)


async def test_the_end_of_a_coroutine_counts_too() -> None:
    async def burn_last() -> None:
        await trio.lowlevel.checkpoint()
        burn(0.1)

    assert (await longest_gap(burn_last())).ms >= 100


async def test_the_same_work_in_slices_passes() -> None:
    assert await within_gap(burn_in_slices(), what="it") == "done"
    assert (await longest_gap(burn_in_slices())).passes >= 10


async def test_steps_of_several_tasks_in_one_pass_count_together() -> None:
    async def burn_a_little() -> None:
        burn(0.04)

    async def three() -> None:
        async with trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(burn_a_little)

    assert (await longest_gap(three())).ms >= 120


async def test_waiting_is_no_gap() -> None:
    async def wait() -> None:
        await trio.sleep(0.2)

    assert (await longest_gap(wait())).ms < 100


def logged(caplog: pytest.LogCaptureFixture) -> list[dict[str, object]]:
    return [vars(record)["quorate"] for record in caplog.records if hasattr(record, "quorate")]


async def test_a_slow_step_is_logged_with_its_task_and_place(caplog: pytest.LogCaptureFixture) -> None:
    with watch_slow_steps(50):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(burn_in_one_piece, name="the slow one")
        await burn_in_slices()
    # On a busy machine others may be slow too.
    (line,) = [entry for entry in logged(caplog) if entry["task"] == "the slow one"]
    assert line["event"] == "a step held the event loop"
    assert line["ms"] >= 150
    assert "test_gaps.py" in line["place"]
    assert "burn_in_one_piece" in line["place"]


async def test_a_limit_of_zero_watches_nothing(caplog: pytest.LogCaptureFixture) -> None:
    with watch_slow_steps(0):
        await burn_in_one_piece()
    assert logged(caplog) == []
