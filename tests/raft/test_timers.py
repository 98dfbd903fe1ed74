import random

import trio
from hypothesis import given, settings
from hypothesis import strategies as st

from quorate.runtime.timers import Timers


class Fired(list):
    """What fired, and when."""

    def __init__(self):
        self.timers = Timers(lambda name: self.append((name, round(trio.current_time() - self.started, 3))))
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


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_random_lives_fire_as_a_naive_twin_does(seed):
    draw = random.Random(seed)
    # Whole tenths for the steps, odd hundredths for the durations: no deadline falls on a step.
    steps = [
        (draw.choice("abc"), draw.choice(("arm", "arm", "cancel")), draw.randint(0, 9) / 10 + 0.05)
        for _ in range(40)
    ]

    async def main():
        fired = Fired()
        expected, deadlines = [], {}

        def pass_time(now):
            for name, deadline in sorted(deadlines.items(), key=lambda item: item[1]):
                if deadline <= now:
                    expected.append((name, round(deadline, 3)))
                    del deadlines[name]

        async with trio.open_nursery() as nursery:
            nursery.start_soon(fired.timers.run)
            for number, (name, action, seconds) in enumerate(steps):
                now = number / 10
                pass_time(now)
                if action == "arm":
                    fired.timers.arm(name, seconds)
                    deadlines[name] = now + seconds
                else:
                    fired.timers.cancel(name)
                    deadlines.pop(name, None)
                await trio.sleep(0.1)
            await trio.sleep(5)
            pass_time(100)
            nursery.cancel_scope.cancel()
        assert sorted(fired) == sorted(expected)

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))
