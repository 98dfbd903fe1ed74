"""Long work of many tasks, and what it leaves to others."""

import pytest
import trio

from quorate.runtime.slices import SLICE_SECONDS, Slices


class Passes(trio.abc.Instrument):
    """The steps of tasks that began with `name`, by pass of the event loop."""

    def __init__(self, name: str) -> None:
        self._name = name
        self.steps = [0]

    def before_io_wait(self, timeout: float) -> None:
        self.steps.append(0)

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        self.steps[-1] += task.name == self._name


async def test_of_much_long_work_one_slice_runs_in_a_pass_and_all_have_their_turns(
    mock_clock: trio.testing.MockClock,
) -> None:
    order: list[int] = []

    async def work(number: int) -> None:
        slices = Slices()
        for _ in range(4):
            order.append(number)
            mock_clock.jump(SLICE_SECONDS)
            await slices.pause()

    passes = Passes("long work")
    trio.lowlevel.add_instrument(passes)
    async with trio.open_nursery() as nursery:
        for number in range(5):
            nursery.start_soon(work, number, name="long work")
    trio.lowlevel.remove_instrument(passes)
    steps = [each for each in passes.steps if each]
    assert steps == [5] + 20 * [1], "the first slices are together, as the work began"
    rounds = [order[start : start + 5] for start in range(0, 20, 5)]
    assert all(sorted(each) == list(range(5)) for each in rounds)


@pytest.mark.parametrize("given_up", [0, 1, 2])
async def test_a_cancelled_waiter_does_not_delay_the_others(
    mock_clock: trio.testing.MockClock, given_up: int
) -> None:
    done: list[int] = []
    scopes = [trio.CancelScope() for _ in range(3)]

    async def work(number: int) -> None:
        with scopes[number]:
            slices = Slices()
            for _ in range(3):
                mock_clock.jump(SLICE_SECONDS)
                await slices.pause()
                if number == 1:
                    scopes[given_up].cancel()
            done.append(number)

    with trio.fail_after(1):
        async with trio.open_nursery() as nursery:
            for number in range(3):
                nursery.start_soon(work, number)
    assert set(done) >= {0, 1, 2} - {given_up}
