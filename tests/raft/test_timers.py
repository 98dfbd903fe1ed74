import random

import trio
from hypothesis import given
from hypothesis import strategies as st

from quorate.runtime.timers import Timers


class Fired(list):
    """The timers that fired, and their times."""

    def __init__(self):
        self.timers = Timers(lambda name: self.append((name, round(trio.current_time() - self.started, 5))))
        self.started = trio.current_time()


async def test_a_timer_fires_once_after_its_time(autojump_clock, nursery):
    fired = Fired()
    nursery.start_soon(fired.timers.run)
    fired.timers.arm("a", 2)
    await trio.sleep(10)
    assert fired == [("a", 2)]


async def test_arming_again_later_moves_the_deadline(autojump_clock, nursery):
    fired = Fired()
    nursery.start_soon(fired.timers.run)
    fired.timers.arm("a", 2)
    await trio.sleep(1)
    fired.timers.arm("a", 5)
    await trio.sleep(10)
    assert fired == [("a", 6)]


async def test_arming_again_sooner_moves_the_deadline(autojump_clock, nursery):
    fired = Fired()
    nursery.start_soon(fired.timers.run)
    fired.timers.arm("a", 5)
    await trio.sleep(0.5)
    fired.timers.arm("a", 1)
    await trio.sleep(10)
    assert fired == [("a", 1.5)]


async def test_a_cancelled_timer_does_not_fire_until_armed_again(autojump_clock, nursery):
    fired = Fired()
    nursery.start_soon(fired.timers.run)
    fired.timers.arm("a", 1)
    fired.timers.cancel("a")
    fired.timers.cancel("never armed")
    await trio.sleep(3)
    assert fired == []
    fired.timers.arm("a", 1)
    await trio.sleep(3)
    assert fired == [("a", 4)]


async def test_a_timer_may_arm_itself_when_it_fires(autojump_clock, nursery):
    times = []

    def tick(name):
        times.append(round(trio.current_time() - started, 3))
        timers.arm(name, 1)

    started = trio.current_time()
    timers = Timers(tick)
    nursery.start_soon(timers.run)
    timers.arm("tick", 1)
    await trio.sleep(3.5)
    assert times == [1, 2, 3]


async def test_moving_a_deadline_back_and_forth_keeps_no_leftovers(autojump_clock, nursery):
    fired = Fired()
    nursery.start_soon(fired.timers.run)
    for _ in range(1000):
        fired.timers.arm("fetch", 2)
        await trio.sleep(0.001)
    assert len(fired.timers._heap) <= 2
    await trio.sleep(5)
    assert len(fired) == 1


class Steps(trio.abc.Instrument):
    """Counts the steps of one task."""

    def __init__(self):
        self.task, self.count = None, 0

    def before_task_step(self, task):
        self.count += task is self.task


async def test_arming_short_timers_again_and_again_does_not_wake_the_task(autojump_clock, nursery):
    """As each commit does with what it waits 2 ms for: two timers, armed in either order."""
    fired, steps = Fired(), Steps()

    async def run():
        steps.task = trio.lowlevel.current_task()
        await fired.timers.run()

    trio.lowlevel.add_instrument(steps)
    nursery.start_soon(run)
    for number in range(1000):
        for name in ("one", "other")[:: 1 if number % 3 else -1]:
            fired.timers.arm(name, 0.002)
        await trio.sleep(0.001)
    assert steps.count <= 2
    await trio.sleep(5)
    assert sorted(fired) == [("one", 1.001), ("other", 1.001)]
    trio.lowlevel.remove_instrument(steps)


@given(seed=st.integers(0, 2**32), step=st.sampled_from((0.1, 0.001)))
def test_random_lives_fire_as_a_naive_twin_does(seed, step):
    """In steps of a tenth of a second, and of a ms, where an armed timer is about to wake the task."""
    draw = random.Random(seed)
    # Whole steps to wait, odd halves of one for the durations: no deadline falls on a step.
    steps = [
        (draw.choice("abc"), draw.choice(("arm", "arm", "cancel")), (draw.randint(0, 9) + 0.5) * step)
        for _ in range(40)
    ]

    async def main():
        fired = Fired()
        expected, deadlines = [], {}

        def pass_time(now):
            for name, deadline in sorted(deadlines.items(), key=lambda item: item[1]):
                if deadline <= now:
                    expected.append((name, round(deadline, 5)))
                    del deadlines[name]

        async with trio.open_nursery() as nursery:
            nursery.start_soon(fired.timers.run)
            for number, (name, action, seconds) in enumerate(steps):
                now = number * step
                pass_time(now)
                if action == "arm":
                    fired.timers.arm(name, seconds)
                    deadlines[name] = now + seconds
                else:
                    fired.timers.cancel(name)
                    deadlines.pop(name, None)
                await trio.sleep(step)
            await trio.sleep(5)
            pass_time(100)
            nursery.cancel_scope.cancel()
        assert sorted(fired) == sorted(expected)

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))
