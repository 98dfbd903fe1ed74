"""The ISR: its replicas, its changes, and the leader that may ask for them."""

import pytest
import trio
import trio.testing

from quorate.broker.controller.operations.alter_partition import alter_partition
from quorate.broker.controller.rpc import AlterPartitionResponse, AlterPartitionResult
from quorate.broker.replication.foundation.errors import PartitionError
from quorate.broker.replication.foundation.requests import FetchItem
from quorate.broker.replication.serving.partition_fetch import take_in_fetch
from quorate.error_code import ErrorCode
from quorate.runtime.network import NetworkError
from tests.broker.replication.conftest import Answer

QUICK = {"replica_lag_time_max_ms": 1000}


def proposed_isrs(cluster):
    return [
        tuple(sorted(member.broker_id for member in item.new_isr))
        for request in cluster.controller.requests
        for item in request.partitions
    ]


def refusal(request, error):
    return AlterPartitionResponse(
        partitions=tuple(
            AlterPartitionResult(topic_id=item.topic_id, partition_id=item.partition_id, error=error)
            for item in request.partitions
        )
    )


@pytest.mark.bug("KAFKA-7128")
async def test_a_follower_below_the_leader_epochs_start_does_not_join_the_isr(make_cluster, autojump_clock):
    cluster = await make_cluster(isr=(1, 2), min_isr=1, cut_off=(3,))
    await cluster[1].produce_each((f"{number}" for number in range(20)), acks=1)
    await cluster.until(lambda: cluster[2].partition().log.end_offset == 20)
    cluster.controller.fence(1)
    await cluster.opened()
    leader = cluster[2].partition()
    assert leader.leading.epoch_start_offset == 20
    # As if its own high watermark had been far behind when it took over.
    leader.log.high_watermark = 10
    item = FetchItem("t", 0, 12, 1 << 20, leader.leader_epoch, last_fetched_epoch=0)
    take_in_fetch(leader, item, replica_id=3, replica_epoch=-1)
    assert leader.leading.isr.pending is None
    item = FetchItem("t", 0, 20, 1 << 20, leader.leader_epoch, last_fetched_epoch=0)
    take_in_fetch(leader, item, replica_id=3, replica_epoch=-1)
    assert leader.leading.isr.pending.isr == (2, 3)


@pytest.mark.bug("KAFKA-13091")
async def test_a_shrink_of_the_isr_completes_produces_that_waited_for_the_removed_member(
    make_cluster, autojump_clock
):
    cluster = await make_cluster(min_isr=1, **QUICK)
    await cluster[1].produced("a")
    # The answer must do, metadata may come later.
    cluster[1].hold_metadata()
    await cluster[3].crash()
    begun = trio.current_time()
    pending = cluster[1].produce("b", timeout_ms=60_000)
    await pending.wait()
    assert not pending.results()[0].error
    assert 0.5 < trio.current_time() - begun < 3
    assert cluster.controller.state().isr == (1, 2)


@pytest.mark.bug("KAFKA-15583")
async def test_no_record_is_readable_while_the_isr_is_below_min_insync_replicas(make_cluster, autojump_clock):
    cluster = await make_cluster(replicas=(1, 2), isr=(1,))
    cluster.network.block("b2", "b1")
    assert (await cluster[1].produced("refused")).error is ErrorCode.NOT_ENOUGH_REPLICAS
    assert not (await cluster[1].produced("a", acks=1)).error
    await trio.sleep(2)
    assert await cluster[1].consumed() == []
    cluster.heal()
    await cluster.in_sync(1, 2)
    await cluster.until(lambda: cluster[1].partition().high_watermark == 1)
    assert await cluster[1].consumed() == ["a"]


@pytest.mark.bug("KAFKA-14144")
async def test_a_lost_answer_to_alter_partition_does_not_leave_the_leader_stale(make_cluster, autojump_clock):
    cluster = await make_cluster(min_isr=1, **QUICK)
    cluster[1].hold_metadata()
    cluster.controller.lost_answers = 1
    await cluster[3].crash()
    assert not (await cluster[1].produced("a", timeout_ms=60_000)).error
    assert len(cluster.controller.requests) >= 2
    assert cluster[1].partition().leading.isr.pending is None
    cluster[1].release_metadata()
    await cluster[3].start()
    await cluster.in_sync(1, 2, 3)


@pytest.mark.bug("KAFKA-14154")
async def test_a_leader_asks_again_after_the_refusal_of_a_deposed_controller(make_cluster, autojump_clock):
    cluster = await make_cluster(min_isr=1, **QUICK)
    asked = []

    def deposed(request):
        asked.append(request)
        return refusal(request, ErrorCode.NOT_CONTROLLER) if len(asked) < 4 else None

    cluster.controller.answer = deposed
    await cluster[3].crash()
    await cluster[1].produced("a", acks=1)
    await cluster.in_sync(1, 2)
    assert len(asked) >= 4
    assert {item.new_isr for request in asked[:4] for item in request.partitions} == {
        asked[0].partitions[0].new_isr
    }


@pytest.mark.bug("KAFKA-12686")
async def test_metadata_that_overtakes_an_isr_change_settles_it(make_cluster, autojump_clock):
    cluster = await make_cluster(min_isr=1, **QUICK)
    cluster.controller.rtt_s = 5.0
    await cluster[3].crash()
    await cluster[1].produced("a", acks=1)
    held = cluster[1].partition()
    await cluster.until(lambda: held.leading.isr.pending is not None)
    cluster.controller.change(isr=(1, 2, 3))
    assert held.leading.isr.pending is None
    assert held.leading.isr.partition_epoch == cluster.controller.state().partition_epoch
    cluster.controller.rtt_s = 0.01
    await cluster.in_sync(1, 2)


@pytest.mark.bug("KAFKA-12686")
async def test_an_answer_older_than_the_metadata_changes_nothing(make_cluster, autojump_clock):
    cluster = await make_cluster(min_isr=1, **QUICK)
    held = cluster[1].partition()
    proposal = held.leading._propose((1, 2))
    cluster.controller.change(isr=(1, 2, 3))
    result = AlterPartitionResult(
        topic_id=held.topic_id, partition_id=0, isr=(1,), partition_epoch=1, leader_epoch=held.leader_epoch
    )
    held.granted(proposal, result)
    assert held.leading.isr.committed == (1, 2, 3)


@pytest.mark.bug("KAFKA-7152")
async def test_followers_of_idle_partitions_stay_in_sync(make_cluster, autojump_clock):
    cluster = await make_cluster(replica_lag_time_max_ms=400, replica_fetch_wait_max_ms=500)
    await cluster[1].produced("a")
    await trio.sleep(10)
    assert cluster.controller.state().isr == (1, 2, 3)
    assert proposed_isrs(cluster) == []


@pytest.mark.bug("KAFKA-13790")
async def test_a_change_of_isr_or_replicas_keeps_positions_and_fetchers(make_cluster, autojump_clock):
    cluster = await make_cluster(4, replicas=(1, 2, 3))
    await cluster[1].produce_each("abc")
    await cluster.caught_up(1, 2, 3)
    leading, following = cluster[1].partition().leading, cluster[2].partition().following
    remote, fetcher = leading.remotes[2], cluster[2].manager._parts.roles.hosting._fetchers._fetchers[1]
    followed = dict(fetcher._followed)
    cluster.controller.change(replicas=(1, 2, 3, 4))
    cluster.controller.change(isr=(1, 2))
    assert cluster[1].partition().leading is leading
    assert leading.epoch_start_offset == 0
    assert leading.remotes[2] is remote
    assert sorted(leading.remotes) == [2, 3, 4]
    assert cluster[2].partition().following is following
    assert fetcher._followed == followed
    epoch = leading.isr.partition_epoch
    held = cluster[1].partition()
    held.apply(held.state._replace(isr=(1,), partition_epoch=epoch - 1))
    assert leading.isr.committed == (1, 2)


@pytest.mark.bug("KAFKA-13254")
async def test_waiting_produces_are_completed_after_the_state_has_changed(make_cluster, autojump_clock):
    cluster = await make_cluster(min_isr=1, **QUICK)
    await cluster[3].crash()
    held, seen = cluster[1].partition(), []
    waiting = [cluster[1].produce(f"{number}", timeout_ms=60_000) for number in range(500)]
    for pending in waiting:
        # A request that is told sees the new state, and may ask for more.
        pending.notify(lambda: seen.append((held.high_watermark, held.leading.isr.pending)))
    again = []
    waiting[0].notify(lambda: again.append(cluster[1].produce("again", timeout_ms=60_000)))
    await cluster.until(lambda: len(seen) == 499)
    assert seen == [(500, None)] * 499
    await again[0].wait()
    assert not again[0].results()[0].error


@pytest.mark.bug("KAFKA-13837")
async def test_epoch_errors_precede_the_check_of_the_fetching_replica(make_cluster, autojump_clock):
    cluster = await make_cluster(4, replicas=(1, 2, 3))
    await cluster.lead(1)

    async def code(**fields):
        return (await cluster[1].fetch(0, replica_id=4, **fields)).error

    assert await code(current_leader_epoch=0) is ErrorCode.FENCED_LEADER_EPOCH
    assert await code(current_leader_epoch=2) is ErrorCode.UNKNOWN_LEADER_EPOCH
    assert await code(current_leader_epoch=1) is ErrorCode.UNKNOWN_LEADER_EPOCH
    assert await code() is ErrorCode.UNKNOWN_LEADER_EPOCH
    assert (await cluster[2].fetch(0, current_leader_epoch=0)).error is ErrorCode.FENCED_LEADER_EPOCH
    assert (await cluster[2].fetch(0)).error is ErrorCode.NOT_LEADER_OR_FOLLOWER


@pytest.mark.bug("KAFKA-13916")
async def test_a_fenced_follower_is_not_proposed(make_cluster, autojump_clock):
    cluster = await make_cluster()
    cluster.controller.fence(2)
    await cluster[1].produced("a")
    await cluster.until(lambda: cluster[2].partition().log.end_offset == 1)
    await trio.sleep(3)
    assert cluster.controller.state().isr == (1, 3)
    assert proposed_isrs(cluster) == []
    cluster.controller.unfence(2)
    await cluster.in_sync(1, 2, 3)


@pytest.mark.bug("KAFKA-13916")
async def test_a_leader_that_does_not_know_of_the_fencing_is_told(make_cluster, autojump_clock):
    cluster = await make_cluster(isr=(1, 3))
    await cluster.in_sync(1, 2, 3)
    cluster.controller.change(isr=(1, 3))
    cluster[1].hold_metadata()
    cluster.controller.fence(2)
    await trio.sleep(2)
    assert (1, 2, 3) in proposed_isrs(cluster)
    assert cluster[1].replicas.stats.failed_isr_updates > 0
    assert cluster.controller.state().isr == (1, 3)
    # Its refusal is final: what is committed by 1 and 3 does not wait for 2.
    cluster.network.block("b2", "b1")
    cluster[1].release_metadata()
    assert not (await cluster[1].produced("a")).error


@pytest.mark.bug("KAFKA-9338")
async def test_every_fetch_is_checked_against_the_leader_epoch(make_cluster, autojump_clock):
    cluster = await make_cluster()
    assert not (await cluster[1].fetch(0, current_leader_epoch=0)).error
    parked = Answer(cluster.nursery, lambda: cluster[1].fetch(0, current_leader_epoch=0, max_wait_ms=60_000))
    assert not await parked.is_there()
    cluster.controller.elect(1)
    await cluster.until(lambda: parked.result is not None, within_s=1)
    assert parked.result.error is ErrorCode.FENCED_LEADER_EPOCH
    assert (await cluster[1].fetch(0, current_leader_epoch=0)).error is ErrorCode.FENCED_LEADER_EPOCH
    assert (await cluster[1].fetch(0, current_leader_epoch=2)).error is ErrorCode.UNKNOWN_LEADER_EPOCH


@pytest.mark.bug("KAFKA-15221")
async def test_a_fetch_of_an_earlier_incarnation_is_not_believed(make_cluster, autojump_clock):
    cluster = await make_cluster(min_isr=1)
    await cluster[2].crash()
    await cluster[2].start()
    await cluster.in_sync(1, 2, 3)
    leader = cluster[1].partition()
    remote = leader.leading.remotes[2]
    epoch = cluster.controller.image.broker(2).epoch
    assert remote.broker_epoch == epoch
    cluster.network.block("b2", "b1")
    cluster[1].produce("a", acks=1)
    item = FetchItem("t", 0, 1, 1 << 20, leader.leader_epoch)
    take_in_fetch(leader, item, replica_id=2, replica_epoch=epoch - 1)
    assert remote.log_end_offset == 0
    take_in_fetch(leader, item, replica_id=2, replica_epoch=epoch)
    assert remote.log_end_offset == 1


@pytest.mark.slow
async def test_a_broker_that_lost_power_leaves_the_isr_before_it_comes_back(make_cluster, autojump_clock):
    for seed in range(8):
        cluster = await make_cluster(seed=seed)
        acked = []
        for number in range(20):
            if not (await cluster[1].produced(f"{number}")).error:
                acked.append(f"{number}")
        await cluster[1].crash(power=True)
        await cluster[1].start()
        # The present leader has everything, and so has 1 once it is back.
        assert 1 not in cluster.controller.state().isr
        await cluster.in_sync(1, 2, 3)
        await cluster.lead(1)
        await cluster.until(lambda c=cluster: c[1].partition().high_watermark >= 20)
        assert await cluster[1].consumed() == acked
        for each in (1, 2, 3):
            await cluster[each].crash()


async def test_a_produce_that_waits_is_refused_when_leadership_is_lost(make_cluster, autojump_clock):
    cluster = await make_cluster()
    cluster.cut_off(1)
    pending = cluster[1].produce("a", timeout_ms=60_000)
    assert cluster[1].replicas.counts().delayed_produces == 1
    cluster.controller.elect(2)
    assert pending.done
    assert pending.results()[0].error is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert (await cluster[1].produced("a")).error is ErrorCode.NOT_LEADER_OR_FOLLOWER


async def test_a_produce_goes_on_waiting_through_a_new_epoch_of_the_same_leader(make_cluster, autojump_clock):
    cluster = await make_cluster()
    cluster.cut_off(1)
    pending = cluster[1].produce("a", timeout_ms=60_000)
    await cluster.lead(1)
    assert not pending.done
    cluster.heal()
    await pending.wait()
    assert not pending.results()[0].error
    assert await cluster[1].consumed() == ["a"]


async def test_time_runs_out_for_a_produce_and_says_whether_too_few_are_in_sync(make_cluster, autojump_clock):
    cluster = await make_cluster()
    cluster.cut_off(1)
    assert (await cluster[1].produced("a", timeout_ms=100)).error is ErrorCode.REQUEST_TIMED_OUT
    pending = cluster[1].produce("b", timeout_ms=100)
    cluster.controller.change(isr=(1,))
    await pending.wait()
    assert pending.results()[0].error is ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
    assert cluster[1].replicas.stats.expired_produces == 2
    assert (await cluster[1].produced("c")).error is ErrorCode.NOT_ENOUGH_REPLICAS


async def test_the_controller_may_be_away_for_long(make_cluster, autojump_clock):
    cluster = await make_cluster(min_isr=1, **QUICK)
    cluster.controller.unreachable = True
    await cluster[3].crash()
    pending = cluster[1].produce("a", timeout_ms=60_000)
    await trio.sleep(20)
    assert not pending.done
    cluster.controller.unreachable = False
    await pending.wait()
    assert not pending.results()[0].error


async def test_a_partition_that_a_follower_lacks_does_not_hold_up_the_others(make_cluster, autojump_clock):
    cluster = await make_cluster(2, partitions=2, min_isr=2)
    cluster[1].partition(partition_id=1).fail("as if its disk were gone")
    begun = trio.current_time()
    await cluster[1].produce_each(["a"] * 20)
    assert trio.current_time() - begun < 1


async def test_a_partitions_refusal_states_the_reason(make_cluster, autojump_clock):
    cluster = await make_cluster(isr=(1, 2), min_isr=3)
    cluster.cut_off(1)
    with pytest.raises(PartitionError, match=r"\[1, 2\], fewer than min.insync.replicas=3"):
        cluster[1].partition().check_appendable(-1)


async def test_a_leader_commits_nothing_while_the_elr_has_members(make_cluster, autojump_clock):
    """The controller has put them there by a min.insync.replicas that this broker may not know of yet."""
    cluster = await make_cluster(replicas=(1, 2), isr=(1,), min_isr=1)
    cluster.cut_off(1)
    cluster.controller.change(eligible_leader_replicas=(2,))
    assert cluster[1].produce("a", acks=1).done
    assert await cluster[1].consumed() == []
    assert (await cluster[1].produced("b")).error is ErrorCode.NOT_ENOUGH_REPLICAS
    cluster.controller.change(eligible_leader_replicas=())
    assert await cluster[1].consumed() == ["a"]


@pytest.mark.slow
async def test_the_answer_about_a_smaller_isr_names_the_eligible_replicas(make_cluster, autojump_clock):
    """It does so before metadata, and by the controller's min.insync.replicas."""
    cluster = await make_cluster(replicas=(1, 2))
    cluster[1].hold_metadata()
    cluster[1].partition().min_isr = 1
    await cluster[2].crash()
    await cluster.until(lambda: cluster[1].partition().leading.isr.committed == (1,))
    assert cluster[1].partition().leading.isr.elr == (2,)
    cluster[1].produce("a", acks=1)
    assert cluster[1].partition().high_watermark == 0


# Leaders that the controller doesn't hear


async def test_a_leader_that_is_cut_off_sends_its_clients_away(make_cluster, autojump_clock):
    cluster = await make_cluster(broker_session_timeout_ms=5000)
    await cluster[1].produced("a")
    await cluster.caught_up()
    manager = cluster[1].manager
    silent_since = trio.current_time()
    manager.replicas.lookups._controller_silent_s = lambda: trio.current_time() - silent_since
    await trio.sleep(10)
    assert not manager.replicas.lookups.any_cut_off, "the followers fetch, though the quorum has no leader"
    cluster.cut_off(1)
    await trio.sleep(4)
    assert not manager.replicas.lookups.any_cut_off
    await trio.sleep(2)
    assert manager.replicas.lookups.sends_clients_away("t", 0)
    refused = await cluster[1].produced("b")
    assert refused.error is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert cluster[1].partition().log.end_offset == 1
    assert (await cluster[1].fetch(0)).records, "what is committed can still be read"
    at_the_end = await cluster[1].fetch(1, max_wait_ms=1000)
    assert (at_the_end.error, at_the_end.leader) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, None)
    cluster.heal()
    await cluster.until(lambda: not manager.replicas.lookups.any_cut_off)
    assert not (await cluster[1].produced("b")).error


async def test_a_leader_without_followers_serves_without_a_controller(make_cluster, autojump_clock):
    cluster = await make_cluster(1)
    cluster[1].replicas.lookups._controller_silent_s = lambda: 1000.0
    await trio.sleep(1000)
    assert not (await cluster[1].produced("a")).error


async def test_a_request_that_arrives_after_its_repetition_was_refused_changes_nothing(
    make_cluster, autojump_clock
):
    """The first try is delayed on its way. The second is refused, because the member is fenced. By the time
    that the first arrives it is unfenced, and lacks what was committed without it."""
    cluster = await make_cluster(isr=(1, 2))
    controller, held = cluster.controller, cluster[1].partition()
    await cluster.in_sync(1, 2, 3)
    controller.change(isr=(1, 2))
    delayed = []

    def delay(request):
        delayed.append(request)
        controller.answer = lambda request: None
        cluster[1].hold_metadata()
        controller.fence(3)
        raise NetworkError("outcome unknown")

    controller.answer = delay
    await cluster.until(lambda: delayed)
    requests = len(controller.requests)
    await cluster.until(lambda: held.leading.isr.maximal == {1, 2})
    assert proposed_isrs(cluster)[requests:] == [(1, 2, 3), (1, 2)], "asked again, refused, taken back"
    await trio.sleep(5)
    assert len(controller.requests) == requests + 2, "as long as metadata does not say why, nobody asks again"
    controller.unfence(3)
    late = alter_partition(controller.image, delayed[0], static=controller.static)
    assert late.response.partitions[0].error is ErrorCode.INVALID_UPDATE_VERSION
    cluster[1].release_metadata()
    await cluster.in_sync(1, 2, 3)


async def test_replicas_that_are_being_added_do_not_count_for_min_insync_replicas(
    make_cluster, autojump_clock
) -> None:
    cluster = await make_cluster(replicas=(1,), cut_off=(2, 3), **QUICK)
    assert not (await cluster[1].produced("one replica")).error
    # Twice: the leader learns of it as an update of its epoch, and as the begin of one.
    for changes in ({}, {"leader": 1}):
        cluster.controller.change(replicas=(1, 2, 3), adding_replicas=(2, 3), **changes)
        assert not (await cluster[1].produced("while two are added")).error
    cluster.heal()
    await cluster.in_sync(1, 2, 3)


async def test_of_two_leaders_at_once_the_old_one_commits_nothing(make_cluster, autojump_clock):
    """Split brain: A was away, the controller made B the leader, and A does not know it yet.
    It can't commit with ISR members that follow B, and the controller refuses to let it shrink the ISR."""
    cluster = await make_cluster(min_isr=1, replica_lag_time_max_ms=1000)
    await cluster[1].produced("both")
    await cluster.caught_up()
    cluster[1].hold_metadata()
    cluster.controller.elect(2)
    await cluster.until(lambda: {cluster[each].partition().leader_epoch for each in (2, 3)} == {1})
    cluster[1].partition().check_leading()
    to_old, to_new = (cluster[each].produce(f"to {each}", timeout_ms=20_000) for each in (1, 2))
    with trio.move_on_after(10):
        await to_old.wait()
    assert not to_old.done, "the old leader acknowledged"
    assert cluster[1].partition().high_watermark == 1
    assert any(request.broker_id == 1 for request in cluster.controller.requests), "it asked for fewer"
    assert cluster.controller.state().leader == 2
    await to_new.wait()
    assert not to_new.results()[0].error
    cluster[1].release_metadata()
    await to_old.wait()
    assert to_old.results()[0].error is ErrorCode.NOT_LEADER_OR_FOLLOWER
    await cluster.in_sync(1, 2, 3)
    await cluster.caught_up()
    assert [await cluster[each].log_bytes() for each in (1, 3)] == [await cluster[2].log_bytes()] * 2
    assert await cluster[2].consumed() == ["both", "to 2"]
