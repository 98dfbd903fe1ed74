"""A waiting request is told once, in order, and costs nothing when done."""

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from quorate.broker.replication.foundation.purgatory import ParkedBatch, Purgatory, Waiter, Watchers
from quorate.broker.replication.replica.roles import RemoteReplica
from quorate.error_code import ErrorCode


@pytest.mark.bug("KAFKA-6653")
@given(
    steps=st.lists(
        st.one_of(
            st.tuples(st.just("expect"), st.integers(0, 50)), st.tuples(st.just("moved"), st.integers(0, 50))
        ),
        max_size=60,
    )
)
def test_a_produce_is_settled_when_the_high_watermark_reaches_it_whatever_the_order(steps):
    watchers, waiting, settled, high_watermark = Watchers(), {}, [], 0
    for number, (what, offset) in enumerate(steps):
        if what == "expect" and offset > high_watermark:
            waiting[number] = offset
            watchers.expect(ParkedBatch(offset, lambda error, number=number: settled.append((number, error))))
        elif what == "moved" and offset > high_watermark:
            high_watermark = offset
            watchers.high_watermark_moved(offset)
        done = {number for number, end in waiting.items() if end <= high_watermark}
        assert {number for number, _ in settled} == done
    watchers.leadership_lost(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert sorted(number for number, _ in settled) == sorted(waiting)


async def test_deadlines_are_kept_in_order_and_done_waiters_leave(autojump_clock, nursery):
    purgatory = Purgatory()
    nursery.start_soon(purgatory.run)
    late, soon, done = Waiter(), Waiter(), Waiter()
    told = []
    late.notify(lambda: told.append(("late", trio.current_time())))
    soon.notify(lambda: told.append(("soon", trio.current_time())))
    begun = trio.current_time()
    purgatory.hold(late, begun + 2)
    purgatory.hold(done, begun + 1.5)
    await trio.sleep(0.5)
    purgatory.hold(soon, begun + 1)
    assert purgatory.count(Waiter) == 3
    done.complete()
    await trio.sleep(3)
    assert [(name, round(when - begun, 1)) for name, when in told] == [("soon", 1), ("late", 2)]
    assert (purgatory.count(Waiter), purgatory.expired) == (0, 2)


async def test_long_waits_that_end_within_a_tick_end_together_and_not_before_their_time(
    autojump_clock, nursery
):
    purgatory, told = Purgatory(), []
    nursery.start_soon(purgatory.run)
    begun = trio.current_time()
    waits = [0.5 + number / 10_000 for number in range(50)]
    for wait in waits:
        waiter = Waiter()
        waiter.notify(lambda wait=wait: told.append(trio.current_time() - begun - wait))
        purgatory.hold(waiter, begun + wait)
    await trio.sleep(1)
    assert len(told) == 50
    assert min(told) >= -1e-9, "none before its time"
    assert max(told) <= 0.0051
    assert len({round(late + wait, 4) for late, wait in zip(told, waits, strict=True)}) <= 2


async def test_a_short_wait_ends_within_a_millisecond_of_its_time(autojump_clock, nursery):
    purgatory, told = Purgatory(), []
    nursery.start_soon(purgatory.run)
    begun = trio.current_time()
    waiter = Waiter()
    waiter.notify(lambda: told.append(trio.current_time() - begun))
    purgatory.hold(waiter, begun + 0.0123)
    await trio.sleep(1)
    assert 0.0123 - 1e-9 <= told[0] <= 0.0133 + 1e-9


async def test_a_waiter_is_told_once(autojump_clock):
    waiter, told = Waiter(), []
    waiter.notify(lambda: told.append(1))
    waiter.complete()
    waiter.complete()
    await waiter.wait()
    waiter.notify(lambda: told.append(2))
    assert told == [1, 2]


@pytest.mark.parametrize(
    ("fetches", "now", "expected"),
    [
        pytest.param([], 9, True, id="given the lag time to come for the first time"),
        pytest.param([], 11, False, id="never came"),
        pytest.param([(1, 5, 5)], 100, True, id="at the end of an idle partition"),
        pytest.param([(1, 5, 5), (5, 5, 9)], 11, True, id="was at the end a while ago"),
        pytest.param([(1, 5, 5), (5, 5, 9)], 12, False, id="was at the end too long ago"),
        pytest.param([(1, 5, 6), (8, 6, 9)], 10, True, id="at what was the end at its last fetch"),
        pytest.param([(1, 4, 6), (20, 5, 9)], 21, False, id="fetches, and falls behind"),
    ],
)
def test_a_follower_is_caught_up_by_what_it_fetched_and_when(fetches, now, expected):
    remote, end = RemoteReplica(2, in_sync=True, now=0), 1
    for at, offset, end in fetches:
        remote.fetched(offset, log_start_offset=0, leader_end_offset=end, broker_epoch=1, now=at)
    assert remote.caught_up(leader_end_offset=end, now=now, lag_s=10) is expected
