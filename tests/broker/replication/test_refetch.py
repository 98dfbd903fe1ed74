"""Damaged replicas are fetched anew: the log is set aside, and nothing acknowledged is lost by it."""

import pytest
import trio
from captured_logs import captured_logs

from quorate.broker.controller.rpc import AlterPartitionResponse
from quorate.broker.metadata.metadata_records import LOST, LeaderRecoveryState
from quorate.broker.replication.foundation.errors import PartitionError
from quorate.error_code import ErrorCode
from tests.broker.replication.conftest import FIRST, batch_size, refused_with, with_old_segments


def damage(broker):
    broker.disk.flip(FIRST, 3 * batch_size(broker) + 70, bit=2)


def damaged_folders(broker):
    return [name for name in broker.disk.list("data") if name.endswith("-damaged")]


async def whole_again(cluster, broker):
    await cluster.in_sync(1, 2, 3)
    await cluster.caught_up()
    logs = [await each.log_bytes() for each in cluster.brokers.values()]
    assert logs[0] == logs[1] == logs[2]
    assert cluster.controller.state().directory_of(broker.id) == broker.replicas.directories.online_ids[0]


@pytest.mark.costly
@pytest.mark.parametrize("broker_id", [1, 2])
async def test_a_leader_or_follower_is_fetched_anew_and_the_old_log_is_kept(
    make_cluster, autojump_clock, broker_id
):
    cluster = await with_old_segments(make_cluster)
    broker = cluster[broker_id]
    damage(broker)
    bad = broker.disk.content(FIRST)
    epoch = cluster.controller.state().leader_epoch
    path = await broker.replicas.refetches.refetch("t", 0)
    after = cluster.controller.state()
    assert after.leader != 1 or broker_id != 1
    assert after.leader_epoch > epoch
    await cluster.opened()
    await whole_again(cluster, broker)
    assert [f"data/{each}" for each in damaged_folders(broker)] == [path]
    assert broker.disk.content(f"{path}/{FIRST.rpartition('/')[2]}") == bad
    assert [each.path for each in broker.replicas.directories.folders.damaged_folders()] == [path]
    leader = cluster[cluster.controller.state().leader]
    assert len(await leader.consumed()) == 60
    # It is no replica, and stays there.
    await broker.stop()
    await broker.start()
    await cluster.opened()
    assert damaged_folders(broker) == [path.rpartition("/")[2]]


async def test_a_replica_whose_log_can_not_be_opened_is_fetched_anew(make_cluster, autojump_clock):
    cluster = await with_old_segments(make_cluster)
    await cluster[2].stop()
    file = cluster[2].disk.open(FIRST)
    file.truncate(file.size - 7)
    await cluster[2].start()
    await cluster.until(lambda: cluster[2].replicas.counts().damaged_replica_count == 1)
    await cluster[2].replicas.refetches.refetch("t", 0)
    await whole_again(cluster, cluster[2])
    assert cluster[2].replicas.counts().damaged_replica_count == 0


@pytest.mark.slow
async def test_the_configuration_may_have_it_done_by_itself(make_cluster, autojump_clock):
    cluster = await with_old_segments(make_cluster, replica_refetch_damaged=True)
    damage(cluster[2])
    await cluster.until(lambda: damaged_folders(cluster[2]))
    await whole_again(cluster, cluster[2])
    await trio.sleep(60)
    assert len(damaged_folders(cluster[2])) == 1
    assert cluster[2].replicas.counts().damaged_replica_count == 0


@pytest.mark.slow
async def test_nothing_is_set_aside_unless_it_is_configured(make_cluster, autojump_clock):
    cluster = await with_old_segments(make_cluster)
    damage(cluster[2])
    await cluster.until(lambda: cluster[2].replicas.counts().damaged_replica_count == 1)
    await trio.sleep(60)
    assert damaged_folders(cluster[2]) == []


@pytest.mark.slow
async def test_the_only_member_of_the_isr_keeps_what_it_has(make_cluster, autojump_clock):
    cluster = await with_old_segments(make_cluster, min_isr=1)
    for each in (2, 3):
        await cluster[each].stop()
    await cluster.in_sync(1)
    damage(cluster[1])
    with refused_with(ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE):
        await cluster[1].replicas.refetches.refetch("t", 0)
    assert damaged_folders(cluster[1]) == []
    assert cluster[1].partition().leading is not None
    assert not (await cluster[1].produced("more", acks=1)).error
    for each in (2, 3):
        await cluster[each].start()
    await cluster.in_sync(1, 2, 3)


async def test_a_member_without_which_too_few_are_in_sync_keeps_what_it_has(make_cluster, autojump_clock):
    cluster = await with_old_segments(make_cluster)
    await cluster[3].stop()
    await cluster.in_sync(1, 2)
    with pytest.raises(PartitionError) as refused:
        await cluster[2].replicas.refetches.refetch("t", 0)
    assert refused.value.code is ErrorCode.NOT_ENOUGH_REPLICAS
    assert "min.insync.replicas" in refused.value.message
    assert sorted(cluster.controller.state().isr) == [1, 2]
    assert not (await cluster[1].produced("more")).error
    await cluster[3].start()
    await cluster.in_sync(1, 2, 3)
    await cluster[2].replicas.refetches.refetch("t", 0)
    await whole_again(cluster, cluster[2])


async def test_beside_a_leader_that_may_lack_records_nothing_is_set_aside(make_cluster, autojump_clock):
    cluster = await with_old_segments(make_cluster)
    cluster.controller.answer = lambda request: AlterPartitionResponse(error=ErrorCode.NOT_CONTROLLER)
    cluster.controller.change(leader_recovery_state=LeaderRecoveryState.RECOVERING, isr=(1,), leader=1)
    with refused_with(ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE):
        await cluster[2].replicas.refetches.refetch("t", 0)


async def test_without_a_controller_the_replica_goes_on(make_cluster, autojump_clock):
    cluster = await with_old_segments(make_cluster)
    cluster.controller.unreachable = True
    with refused_with(ErrorCode.REQUEST_TIMED_OUT):
        await cluster[2].replicas.refetches.refetch("t", 0)
    cluster.controller.unreachable = False
    assert not (await cluster[1].produced("more")).error
    await cluster.caught_up()
    assert damaged_folders(cluster[2]) == []


@pytest.mark.costly
@pytest.mark.parametrize("power", [False, True])
async def test_a_crash_after_the_isr_was_left_loses_nothing(make_cluster, autojump_clock, power):
    """The old log is still there: it is opened, and follows."""
    cluster = await with_old_segments(make_cluster)
    cluster[2].hold_metadata()
    async with trio.open_nursery() as nursery:

        async def refetch():
            with pytest.raises(PartitionError):
                await cluster[2].replicas.refetches.refetch("t", 0)

        nursery.start_soon(refetch)
        await cluster.until(lambda: cluster.controller.state().directory_of(2) == LOST)
        await cluster[2].crash(power=power)
    await cluster[2].start()
    await cluster.opened()
    await whole_again(cluster, cluster[2])
    assert damaged_folders(cluster[2]) == []


async def test_a_fetch_that_tells_of_the_old_log_counts_for_nothing(make_cluster, autojump_clock):
    """It was sent before the log was set aside, and arrives when the empty one is reported already."""
    cluster = await with_old_segments(make_cluster)
    epoch = cluster.controller.state().leader_epoch
    broker_epoch = cluster.controller.image.broker(2).epoch
    cluster[2].hold_metadata()
    cluster.cut_off(2)
    cluster.nursery.start_soon(cluster[2].replicas.refetches.refetch, "t", 0)
    await cluster.until(lambda: cluster.controller.state().directory_of(2) == LOST)
    cluster[2].release_metadata()
    await cluster.until(lambda: cluster.controller.state().directory_of(2) != LOST)
    late = await cluster[1].fetch(60, replica_id=2, replica_epoch=broker_epoch, current_leader_epoch=epoch)
    assert late.error is ErrorCode.FENCED_LEADER_EPOCH
    await trio.sleep(1)
    assert 2 not in cluster.controller.state().isr
    cluster.heal()
    await whole_again(cluster, cluster[2])


async def test_a_topic_that_is_deleted_meanwhile_leaves_nothing_behind(make_cluster, autojump_clock):
    cluster = await with_old_segments(make_cluster)
    cluster[2].disk.stall()
    cluster.nursery.start_soon(cluster[2].replicas.refetches.refetch, "t", 0)
    await trio.sleep(1)
    cluster.controller.delete()
    cluster[2].disk.release()
    await cluster.until(lambda: not cluster[2].disk.exists("data/t-0"))
    with pytest.raises(PartitionError):
        cluster[2].partition()
    with pytest.raises(PartitionError), captured_logs():
        await cluster[2].replicas.refetches.refetch("t", 0)
