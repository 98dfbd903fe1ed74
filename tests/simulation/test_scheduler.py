"""Virtual time and the seed's schedule. If trio moves its private parts, the first test says so."""

import itertools
import random

import pytest
import trio
from trio._core import _run as trio_run

from quorate.runtime.slices import Slices
from quorate.runtime.work import WORK
from quorate.simulation.world.scheduler import Scheduler, StuckError, run


def test_trio_still_has_the_private_parts_that_determinism_needs() -> None:
    assert trio_run._ALLOW_DETERMINISTIC_SCHEDULING in (False, True)
    assert isinstance(trio_run._r, random.Random)
    shuffled: list[int] = []

    class Watching(Scheduler):
        def shuffle(self, x: list[trio.lowlevel.Task]) -> None:
            counters = [task._counter for task in x]
            assert counters == sorted(counters), "trio no longer sorts before it shuffles"
            shuffled.append(len(x))
            super().shuffle(x)

    async def program() -> None:
        async with trio.open_nursery() as nursery:
            for _ in range(5):
                nursery.start_soon(trio.sleep, 0)

    before = trio_run._r, trio_run._ALLOW_DETERMINISTIC_SCHEDULING
    trio_run._r, trio_run._ALLOW_DETERMINISTIC_SCHEDULING = Watching(1), True
    try:
        trio.run(program)
    finally:
        trio_run._r, trio_run._ALLOW_DETERMINISTIC_SCHEDULING = before
    assert max(shuffled) >= 5


def order_of_tasks(seed: int) -> list[int]:
    order: list[int] = []

    async def note(number: int) -> None:
        for _ in range(3):
            await trio.sleep(1)
            order.append(number)

    async def program(scheduler: Scheduler) -> None:
        async with trio.open_nursery() as nursery:
            for number in range(8):
                nursery.start_soon(note, number)

    run(seed, program)
    return order


def test_the_seed_decides_the_order_of_tasks() -> None:
    assert order_of_tasks(1) == order_of_tasks(1)
    assert order_of_tasks(1) != order_of_tasks(2)


def test_a_run_leaves_trio_as_it_was() -> None:
    before = trio_run._r, trio_run._ALLOW_DETERMINISTIC_SCHEDULING
    order_of_tasks(3)
    assert (trio_run._r, trio_run._ALLOW_DETERMINISTIC_SCHEDULING) == before


def test_a_day_passes_at_once() -> None:
    async def program(scheduler: Scheduler) -> float:
        await trio.sleep(86_400)
        return trio.current_time()

    assert run(1, program, limit_seconds=100_000) == 86_400


def test_a_deadlock_is_reported_with_what_each_task_waits_for() -> None:
    async def waits_for_good() -> None:
        await trio.Event().wait()

    async def program(scheduler: Scheduler) -> None:
        with scheduler.process("node-7"):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(waits_for_good)

    with pytest.raises(StuckError, match=r"(?s)deadlock.*node-7: .*waits_for_good"):
        run(1, program)


def test_a_program_that_never_ends_is_stopped_by_the_limit() -> None:
    async def program(scheduler: Scheduler) -> None:
        for _ in itertools.count():
            await trio.sleep(1)

    with pytest.raises(StuckError, match="not finished after 50 s"):
        run(1, program, limit_seconds=50)


@pytest.mark.slow
def test_a_busy_loop_is_noticed() -> None:
    async def program(scheduler: Scheduler) -> None:
        for _ in itertools.count():
            await trio.lowlevel.checkpoint()

    with pytest.raises(StuckError, match="busy loop"):
        run(1, program)


def test_a_paused_process_does_nothing_and_then_sees_what_it_missed() -> None:
    seen: list[tuple[str, float]] = []

    async def ticks(name: str) -> None:
        for _ in range(4):
            await trio.sleep(1)
            seen.append((name, trio.current_time()))

    async def program(scheduler: Scheduler) -> None:
        async with trio.open_nursery() as nursery:
            for name in ("paused", "other"):
                with scheduler.process(name):
                    nursery.start_soon(ticks, name)
            await trio.sleep(1.5)
            scheduler.pause("paused")
            await trio.sleep(10)
            assert scheduler.is_paused("paused")
            scheduler.resume("paused")

    run(1, program)
    assert [time for name, time in seen if name == "other"] == [1, 2, 3, 4]
    assert [time for name, time in seen if name == "paused"] == [1, 11.5, 12.5, 13.5]


def test_a_paused_process_can_be_cancelled_once_it_runs_again() -> None:
    async def program(scheduler: Scheduler) -> float:
        async with trio.open_nursery() as nursery:
            with scheduler.process("paused"):
                nursery.start_soon(trio.sleep_forever)
            await trio.sleep(1)
            scheduler.pause("paused")
            nursery.cancel_scope.cancel()
            with trio.CancelScope(shield=True):
                await trio.sleep(1)
                scheduler.resume("paused")
        return trio.current_time()

    assert run(1, program) == 2


def test_a_step_that_touches_much_holds_up_its_process_and_no_other() -> None:
    seen: list[tuple[str, float]] = []

    async def ticks(name: str) -> None:
        for _ in range(4):
            await trio.sleep(1)
            seen.append((name, trio.current_time()))

    async def walk() -> None:
        await trio.sleep(0.5)
        began = trio.current_time()
        for _ in range(100):
            WORK.partitions += 1000
        assert trio.current_time() - began == pytest.approx(2.0)
        await trio.lowlevel.checkpoint()

    async def program(scheduler: Scheduler) -> float:
        async with trio.open_nursery() as nursery:
            for name in ("busy", "other"):
                with scheduler.process(name):
                    nursery.start_soon(ticks, name)
            with scheduler.process("busy"):
                nursery.start_soon(walk)
        return scheduler.longest_step_seconds

    assert run(1, program) == pytest.approx(2.0)
    assert [time for name, time in seen if name == "other"] == [1, 2, 3, 4]
    # What was due at 1 runs when the step is over, at 2.5.
    assert [time for name, time in seen if name == "busy"] == pytest.approx([2.5, 3.5, 4.5, 5.5])


def test_the_same_work_in_slices_holds_up_nobody() -> None:
    late: list[float] = []

    async def ticks() -> None:
        for _ in range(20):
            asked = trio.current_time()
            await trio.sleep(0.1)
            late.append(trio.current_time() - asked - 0.1)

    async def walk() -> None:
        slices = Slices()
        for _ in range(100_000):
            WORK.partitions += 1
            await slices.pause()

    async def program(scheduler: Scheduler) -> float:
        with scheduler.process("busy"):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(ticks)
                nursery.start_soon(walk)
        return scheduler.busy_seconds

    assert run(1, program) == pytest.approx(2.0, rel=0.01)
    assert 0 < max(late) < 0.006


def test_short_steps_and_the_harness_take_no_simulated_time() -> None:
    async def short() -> None:
        for _ in range(100):
            WORK.batches += 200
            await trio.lowlevel.checkpoint()

    async def program(scheduler: Scheduler) -> float:
        WORK.records += 10**9
        await trio.lowlevel.checkpoint()
        with scheduler.process("node"):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(short)
        return trio.current_time()

    assert run(1, program) == 0


def test_a_busy_process_can_be_killed_and_paused() -> None:
    async def walk() -> None:
        WORK.partitions += 500_000  # 10 s
        await trio.sleep_forever()

    async def program(scheduler: Scheduler) -> list[float]:
        times = []
        for name in ("killed", "paused"):
            async with trio.open_nursery() as nursery:
                with scheduler.process(name):
                    nursery.start_soon(walk)
                await trio.sleep(1)
                if name == "killed":
                    scheduler.kill(name)
                else:
                    scheduler.pause(name)
                    with trio.CancelScope(shield=True):
                        nursery.cancel_scope.cancel()
                        await trio.sleep(20)
                    scheduler.resume(name)
                nursery.cancel_scope.cancel()
            times.append(trio.current_time())
        return times

    assert run(1, program) == [1, 22]


def test_slower_machines_take_longer() -> None:
    async def walk() -> None:
        WORK.batches += 10
        await trio.lowlevel.checkpoint()

    async def program(scheduler: Scheduler) -> float:
        with scheduler.process("node"):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(walk)
        return trio.current_time()

    assert run(1, program) == 0
    assert run(1, program, slowness=1000) == pytest.approx(0.08)


def test_long_work_of_a_stopped_process_holds_up_no_other() -> None:
    """In each process one slice of long work runs at a time, and the next waits for it."""
    done: dict[str, float] = {}

    async def work(name: str) -> None:
        slices = Slices()
        for _ in range(20):
            WORK.records += 20_000
            await slices.pause()
        done[name] = trio.current_time()

    async def program(scheduler: Scheduler) -> None:
        async with trio.open_nursery() as nursery:
            for name in ("stopped", "stopped", "running", "running"):
                with scheduler.process(name):
                    nursery.start_soon(work, name)
            await trio.sleep(0.05)
            scheduler.pause("stopped")
            await trio.sleep(60)
            scheduler.resume("stopped")

    run(1, program)
    assert done["running"] < 60 < done["stopped"]
