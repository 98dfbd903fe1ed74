"""Replicas that are added and removed while brokers serve (KIP-455), and die at every step of it."""

import pytest
import trio

from quorate.broker.controller.operations.reassignments import alter_partition_reassignments
from quorate.broker.controller.rpc import AlterPartitionReassignmentsRequest, ReassignmentItem
from quorate.error_code import ErrorCode
from tests.broker.replication.conftest import Answer

QUICK = {"replica_lag_time_max_ms": 1000}


def ask(cluster, target, *, name="t", partition_id=0):
    request = AlterPartitionReassignmentsRequest(
        partitions=(ReassignmentItem(topic=name, partition_id=partition_id, replicas=target),)
    )
    controller = cluster.controller
    outcome = alter_partition_reassignments(controller.image, request, static=controller.static)
    controller.commit_groups(outcome.groups)
    controller.finish()
    (result,) = outcome.response.partitions
    assert result.error is ErrorCode.NONE, result.error_message


async def ended(cluster, target, *, name="t", partition_id=0):
    def has():
        state = cluster.controller.state(name, partition_id)
        return state.replicas == target and not state.is_reassigning and sorted(state.isr) == sorted(target)

    await cluster.until(has)


def folders(cluster, name="t-0"):
    """The brokers that have a folder of the partition."""
    return [each.id for each in cluster.brokers.values() if f"data/{name}" in _folders(each)]


def _folders(broker):
    return {f"data/{name}" for name in broker.disk.list("data")}


async def test_a_replica_that_is_added_starts_empty_and_one_that_is_removed_is_deleted(
    make_cluster, autojump_clock
):
    cluster = await make_cluster(4, replicas=(1, 2), **QUICK)
    await cluster[1].produced("a", "b")
    ask(cluster, (3, 4))
    await ended(cluster, (3, 4))
    await cluster.until(lambda: folders(cluster) == [3, 4])
    assert await cluster[3].consumed() == ["a", "b"]
    # What comes back is not what it left.
    await cluster[3].produced("c")
    ask(cluster, (1, 4))
    await ended(cluster, (1, 4))
    await cluster.until(lambda: folders(cluster) == [1, 4])
    assert await cluster[1].consumed() == ["a", "b", "c"]


@pytest.mark.bug("KAFKA-10371")
async def test_an_answer_for_a_partition_that_was_moved_away_leaves_the_others_followed(
    make_brokers, autojump_clock
):
    cluster = make_brokers(**QUICK)
    await cluster.start()
    cluster.controller.create(replicas=(1, 2), partitions=50)
    await cluster.all_opened()
    await cluster.in_sync(1, 2)
    # The fetch is under way when the partition goes: its answer has records of it.
    pending = [cluster[1].produce(f"{each}", partition_id=each) for each in range(50)]
    cluster.controller.change(partition_id=7, replicas=(1,), isr=(1,), leader=1)
    for each in pending:
        await each.wait()
        assert not each.results()[0].error
    await cluster.until(lambda: "t-7" not in cluster[2].disk.list("data"))
    assert not (await cluster[1].produced("later", partition_id=8)).error
    assert cluster[2].running


@pytest.mark.bug("KAFKA-9171")
async def test_a_fetch_that_waits_is_answered_when_its_partition_is_moved_away(make_cluster, autojump_clock):
    cluster = await make_cluster(replicas=(1, 2), **QUICK)
    answer = Answer(cluster.nursery, lambda: cluster[1].fetch(0, max_wait_ms=30_000))
    await trio.sleep(0.5)
    began = trio.current_time()
    ask(cluster, (2, 3))
    await ended(cluster, (2, 3))
    await cluster.until(lambda: answer.result is not None)
    assert trio.current_time() - began < 5
    assert answer.result.error in (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


@pytest.mark.slow
@pytest.mark.bug("KAFKA-9212")
async def test_while_a_move_is_open_metadata_names_the_epoch_that_the_leader_uses(
    make_brokers, autojump_clock
):
    cluster = make_brokers(brokers=4, **QUICK)
    await cluster.start(1, 2, 3)
    cluster.controller.create(replicas=(1, 2))
    await cluster.opened()
    cluster.cut_off(3)
    ask(cluster, (3, 2))
    for number in range(5):
        await cluster[1].produced(f"{number}")
        state = cluster.controller.state()
        assert state.is_reassigning
        assert cluster[1].partition().leader_epoch == state.leader_epoch
        item = await cluster[1].fetch(number, current_leader_epoch=state.leader_epoch)
        assert item.error is ErrorCode.NONE
        await trio.sleep(30)
    cluster.heal()
    await ended(cluster, (3, 2))


STEPS = 8
STEP_S = 0.03


@pytest.mark.slow
@pytest.mark.costly
@pytest.mark.parametrize("killed", [1, 2, 3, 4])
@pytest.mark.parametrize("power", [False, True])
async def test_a_broker_may_die_at_every_step_of_a_move(make_cluster, autojump_clock, killed, power):
    """1 leads and goes, 2 stays, 3 and 4 come: each may die. No acknowledged record is lost, and it ends."""
    target = (3, 4, 2)
    for step in range(STEPS):
        cluster = await make_cluster(4, replicas=(1, 2), seed=step, **QUICK)
        await cluster[1].produce_each(f"{number}" for number in range(5))
        ask(cluster, target)
        await trio.sleep(step * STEP_S)
        await cluster[killed].crash(power=power)
        cluster.controller.fence(killed)
        await trio.sleep(1)
        await cluster[killed].start()
        await ended(cluster, target)
        await cluster.until(lambda cluster=cluster: folders(cluster) == [2, 3, 4])
        await cluster.opened()
        await cluster.caught_up(*target)
        leader = cluster.controller.state().leader
        assert await cluster[leader].consumed() == [f"{number}" for number in range(5)]
        for each in cluster.brokers.values():
            await each.crash()


async def test_bytes_that_a_move_copies_are_counted_on_both_sides_and_no_others(
    make_cluster, autojump_clock
) -> None:
    cluster = await make_cluster(replicas=(1, 2), min_isr=1)
    await cluster[1].produced("x" * 10_000)
    copied = cluster[1].partition().log.size_bytes

    def counted() -> list[tuple[int, int, int]]:
        found = [cluster[each].replicas for each in (1, 2, 3)]
        return [
            (
                each.counts().reassigning_partitions,
                each.stats.reassignment_bytes_in,
                each.stats.reassignment_bytes_out,
            )
            for each in found
        ]

    assert counted() == [(0, 0, 0)] * 3
    cluster.controller.change(replicas=(1, 2, 3), adding_replicas=(3,))
    assert [moving for moving, _, _ in counted()] == [1, 0, 0], "its leader counts it"
    # The replica that has caught up ends the move.
    await cluster.until(lambda: cluster.controller.state().isr == (1, 2, 3))
    await cluster.until(lambda: counted()[0][0] == 0)
    assert counted() == [(0, 0, copied), (0, 0, 0), (0, copied, 0)]
    await cluster[1].produced("x" * 10_000)
    await cluster.until(lambda: cluster[3].partition().log.end_offset == 2)
    assert counted() == [(0, 0, copied), (0, 0, 0), (0, copied, 0)], "what comes after the move is no part"
