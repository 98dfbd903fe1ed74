"""Each cause that lets a waiting request go on, as the only thing that happens. And what requests cost while
they wait."""

import pytest
import trio
import trio.testing

from quorate.broker.replication.foundation.purgatory import Purgatory, Waiter
from quorate.broker.replication.foundation.requests import FetchItem, FetchOptions, ProduceItem
from quorate.broker.replication.serving.plain_fetch import ParkedFetch
from tests.broker.replication.conftest import Answer, batch

LONG_MS = 20_000
"""Less than the lag time, so that nothing but the trigger ends a wait."""


@pytest.fixture
async def leader(make_cluster):
    """A leader whose follower, broker 2, is heard only where a test fetches in its name."""
    cluster = await make_cluster(2)
    await cluster.caught_up()
    cluster.cut_off(2)
    await trio.testing.wait_all_tasks_blocked()
    return cluster[1]


async def follower_fetches(leader, offset, *, max_wait_ms=0):
    return await leader.fetch(offset, replica_id=2, last_fetched_epoch=-1, max_wait_ms=max_wait_ms)


async def test_a_high_watermark_that_moves_completes_the_fetch_of_a_consumer(leader, nursery, autojump_clock):
    consumer = Answer(nursery, lambda: leader.fetch(0, max_wait_ms=LONG_MS))
    assert not await consumer.is_there()
    leader.produce("a")
    assert not await consumer.is_there(), "the record is not committed yet"
    await follower_fetches(leader, 1)
    assert await consumer.is_there()
    assert (consumer.result.high_watermark, consumer.result.size > 0) == (1, True)


async def test_an_append_completes_the_fetch_of_a_follower(leader, nursery, autojump_clock):
    follower = Answer(nursery, lambda: follower_fetches(leader, 0, max_wait_ms=LONG_MS))
    assert not await follower.is_there()
    leader.produce("a")
    assert await follower.is_there()
    assert (follower.result.high_watermark, follower.result.size > 0) == (0, True)


async def test_a_high_watermark_that_moves_completes_a_produce_with_acks_all(leader, autojump_clock):
    one, two = leader.produce("a", timeout_ms=LONG_MS), leader.produce("b", timeout_ms=LONG_MS)
    assert (one.done, two.done) == (False, False)
    partition = leader.partition()
    partition.leading.remotes[2].fetched(
        1, log_start_offset=0, leader_end_offset=2, broker_epoch=-1, now=trio.current_time()
    )
    assert not one.done, "nobody has looked at the high watermark yet"
    assert partition.advance_high_watermark()
    assert (one.done, two.done) == (True, False)


async def test_the_fetch_of_a_follower_completes_a_produce_with_acks_all(leader, autojump_clock):
    pending = leader.produce("a", timeout_ms=LONG_MS)
    await follower_fetches(leader, 0)
    assert not pending.done, "it has asked for the record, and does not have it"
    await follower_fetches(leader, 1)
    assert (pending.done, pending.results()[0].error) == (True, 0)


@pytest.mark.parametrize(
    ("acks", "partitions", "waits"),
    [(-1, (0,), True), (-1, (0, 9), True), (1, (0,), False), (0, (0,), False), (-1, (9,), False)],
)
async def test_a_produce_waits_for_acks_all_where_anything_was_appended(
    leader, autojump_clock, acks, partitions, waits
):
    """There is no partition 9."""
    items = [ProduceItem("t", each, batch("a")) for each in partitions]
    pending = leader.replicas.produces.append(items, acks=acks, timeout_ms=LONG_MS)
    assert pending.done == (not waits)
    if waits:
        await follower_fetches(leader, 1)
    assert [result.error == 0 for result in pending.results()] == [each == 0 for each in partitions]


async def test_a_produce_whose_time_is_up_leaves_nothing_at_its_partition(leader, autojump_clock):
    """It would be kept until the high watermark moves, with its results."""
    pending = [leader.produce("a", timeout_ms=100) for _ in range(3)]
    await trio.sleep(1)
    assert [each.done for each in pending] == [True] * 3
    assert not leader.partition().watchers._produces


async def test_a_follower_learns_the_high_watermark_with_the_next_answer(make_cluster, autojump_clock):
    """Only the leader moves it. A follower that leads next has it then."""
    cluster = await make_cluster(2)
    await cluster[1].produced("a")
    await cluster.until(lambda: cluster[2].partition().high_watermark == 1)
    cluster.cut_off(2)
    cluster.controller.fence(2)
    assert not (await cluster[1].produced("b")).error
    assert (cluster[1].partition().high_watermark, cluster[2].partition().high_watermark) == (2, 1)
    cluster.heal()
    await cluster.until(lambda: cluster[2].partition().high_watermark == 2)


async def test_an_isr_that_shrinks_moves_the_high_watermark(make_cluster, nursery, autojump_clock):
    cluster = await make_cluster(2)
    await cluster.caught_up()
    cluster.cut_off(2)
    pending = cluster[1].produce("a", timeout_ms=LONG_MS)
    consumer = Answer(nursery, lambda: cluster[1].fetch(0, max_wait_ms=LONG_MS))
    assert not await consumer.is_there()
    began = trio.current_time()
    cluster.controller.change(isr=(1,))
    assert await consumer.is_there()
    assert (pending.done, cluster[1].partition().high_watermark) == (True, 1)
    assert trio.current_time() == began


async def test_the_log_end_of_a_follower_moves_the_high_watermark(leader, autojump_clock):
    leader.produce("a", "b")
    partition = leader.partition()
    await follower_fetches(leader, 1)
    assert partition.high_watermark == 1
    await follower_fetches(leader, 2)
    assert partition.high_watermark == 2


async def test_the_log_end_of_a_leader_alone_moves_the_high_watermark(make_cluster, autojump_clock):
    cluster = await make_cluster(1)
    pending = cluster[1].produce("a", timeout_ms=LONG_MS)
    assert (pending.done, cluster[1].partition().high_watermark) == (True, 1)


# While nothing happens


class Steps(trio.abc.Instrument):
    """Counts the steps of all tasks."""

    def __init__(self):
        self.count = 0

    def before_task_step(self, task):
        self.count += 1


async def test_ten_thousand_waiters_take_one_step_of_one_task_for_each_deadline(nursery, autojump_clock):
    purgatory, steps = Purgatory(), Steps()
    nursery.start_soon(purgatory.run)
    ends = trio.current_time() + 300
    waiters = [Waiter() for _ in range(10_000)]
    for number, each in enumerate(waiters):
        purgatory.hold(each, ends + number % 10)
    await trio.testing.wait_all_tasks_blocked()
    trio.lowlevel.add_instrument(steps)
    await trio.sleep(299)
    idle = steps.count
    await trio.sleep(20)
    trio.lowlevel.remove_instrument(steps)
    assert idle <= 2, "only this test's own sleep"
    assert all(each.done for each in waiters)
    assert steps.count - idle <= 10 + 2, "one step for all that end at the same time"


@pytest.mark.slow
@pytest.mark.long
async def test_ten_thousand_parked_fetches_take_no_step_until_their_partition_changes(
    make_cluster, nursery, autojump_clock
):
    cluster = await make_cluster(1)
    manager, told = cluster[1].manager, []
    request = FetchOptions(items=[FetchItem("t", 0, 0, 1 << 20)], max_wait_ms=300_000)
    for _ in range(10_000):
        parked = await manager.replicas.fetches.begin(request)
        assert isinstance(parked, ParkedFetch)
        parked.notify(lambda: told.append(trio.current_time()))
    steps = Steps()
    trio.lowlevel.add_instrument(steps)
    await trio.sleep(0.05)
    before = steps.count
    trio.lowlevel.remove_instrument(steps)
    cluster[1].produce("a", acks=1)
    assert len(told) == 10_000
    assert before < 100
