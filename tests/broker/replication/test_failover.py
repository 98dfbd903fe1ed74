"""Logs diverge at failovers and become equal again."""

from types import SimpleNamespace
from unittest.mock import Mock

import pytest
import trio
from kio.schema.errors import ErrorCode as KafkaErrorCode

from quorate.broker.apis.context import Broker
from quorate.broker.apis.log_offsets import handle_list_offsets
from quorate.broker.replication.following.taking_in import (
    append_replicated,
    raise_log_start,
    restart_at,
    truncate,
    truncation_offset,
)
from quorate.broker.replication.foundation.errors import PartitionError, ReplicaFailedError
from quorate.broker.replication.foundation.requests import FetchItem
from quorate.broker.replication.serving import incremental_fetch
from quorate.broker.replication.serving.partition_fetch import take_in_fetch
from quorate.broker.wire.api import APIS, ApiKey
from quorate.broker.wire.codecs.entities import decode_entity, response_type
from quorate.broker.wire.request_codec import encode_response
from quorate.error_code import ErrorCode
from quorate.runtime.disk import DiskError
from quorate.simulation.world.simulated_disk import DiskOperation
from tests.broker.replication.conftest import refused_with


async def equal(cluster, *broker_ids):
    await cluster.caught_up(*broker_ids)
    logs = [await cluster[each].log_bytes() for each in broker_ids]
    assert all(each == logs[0] for each in logs)


async def parted(make_cluster, **options):
    """Ten records on 1 and 2; then 2 leads epoch 1 alone and appends three more; then 1 leads epoch 2."""
    cluster = await make_cluster(2, **options)
    await cluster[1].produce_each(f"first-{number}" for number in range(10))
    await cluster.caught_up()
    cluster.cut_off(1)
    await cluster.lead(2)
    for number in range(3):
        cluster[2].produce(f"lost-{number}", acks=1)
    await cluster.lead(1)
    return cluster


@pytest.mark.bug("KAFKA-7415")
async def test_a_leader_knows_where_epochs_end_that_it_never_saw(make_cluster, autojump_clock):
    cluster = await parted(make_cluster)
    told = cluster[1].replicas.queries.offset_for_leader_epoch("t", 0, leader_epoch=1)
    assert (told.leader_epoch, told.end_offset) == (0, 10)
    assert cluster[2].partition().log.end_offset == 13
    cluster.heal()
    await cluster.until(lambda: cluster[2].partition().log.end_offset == 10)
    await cluster[1].produced("next")
    await equal(cluster, 1, 2)
    assert (await cluster[1].consumed())[10:] == ["next"]


@pytest.mark.parametrize("leader_epoch", [3, 1000, -1])
async def test_an_epoch_that_has_not_begun_has_no_end(make_cluster, autojump_clock, leader_epoch):
    """Kafka's answer. A client that is told of an earlier epoch instead takes its position for good."""
    cluster = await parted(make_cluster)
    asked = cluster[1].replicas.queries.offset_for_leader_epoch
    assert (asked("t", 0, leader_epoch=2).leader_epoch, asked("t", 0, leader_epoch=2).end_offset) == (2, 10)
    told = asked("t", 0, leader_epoch=leader_epoch)
    assert (told.error, told.leader_epoch, told.end_offset) == (ErrorCode.NONE, -1, -1)


@pytest.mark.bug("KAFKA-6361")
async def test_two_fast_failovers_leave_equal_logs(make_cluster, autojump_clock):
    cluster = await make_cluster(2)
    await cluster[1].produced("both")
    await cluster.caught_up()
    cluster.cut_off(2)
    cluster[1].produce("only on 1", acks=1)
    await cluster[1].crash()
    await cluster.lead(2, isr=(2,))
    cluster[2].produce("only on 2", acks=1)
    await cluster[2].crash()
    cluster.heal()
    await cluster[1].start()
    await cluster.lead(1, isr=(1,))
    cluster[1].produce("after", acks=1)
    await cluster[2].start()
    await cluster.in_sync(1, 2)
    await equal(cluster, 1, 2)
    assert await cluster[1].consumed() == ["both", "only on 1", "after"]


@pytest.mark.bug("KAFKA-7164")
async def test_a_follower_that_missed_an_epoch_of_another_leader_still_truncates(
    make_cluster, autojump_clock
):
    cluster = await make_cluster(min_isr=1)
    await cluster[1].produced("all")
    await cluster.caught_up()
    cluster.cut_off(3)
    cluster[1].produce("replaced", acks=1)
    await cluster.until(lambda: cluster[2].partition().log.end_offset == 2)
    cluster[2].hold_metadata()
    cluster.network.heal()
    cluster.network.partition(["b2"], ["b1", "b3"])
    cluster.controller.elect(3)
    await cluster.until(lambda: cluster[1].partition().log.end_offset == 1)
    cluster.controller.elect(1)
    await cluster.until(lambda: cluster[1].partition().leading is not None)
    cluster[1].produce("kept", acks=1)
    cluster[2].release_metadata()
    cluster.heal()
    await equal(cluster, 1, 2, 3)
    assert await cluster[1].consumed() == ["all", "kept"]


@pytest.mark.bug("platformatic/kafka PR 321")
@pytest.mark.bug("KAFKA-13207")
async def test_an_answer_that_comes_after_the_partition_has_moved_is_ignored(make_cluster, autojump_clock):
    cluster = await make_cluster(min_isr=1)
    await cluster[1].produced("all")
    await cluster.caught_up()
    cluster.network.block("b1", "b2")
    cluster.network.block("b1", "b3")
    cluster[1].produce("late", acks=1)
    await trio.sleep(1)
    await cluster.lead(3)
    cluster.heal()
    await cluster[3].produced("next")
    await equal(cluster, 1, 2, 3)
    assert await cluster[3].consumed() == ["all", "next"]


@pytest.mark.bug("KAFKA-13266")
@pytest.mark.bug("KAFKA-13207")
async def test_neither_records_nor_a_cut_of_a_past_role_are_taken_in(make_cluster, autojump_clock):
    cluster = await make_cluster(min_isr=1)
    await cluster[1].produced("a")
    await cluster.caught_up()
    held = cluster[2].partition()
    past, records = held.following, await cluster[1].log_bytes()
    await cluster.lead(3)
    assert await append_replicated(held, past, records, high_watermark=99) == 0
    await truncate(held, past, 0, None)
    await restart_at(held, past, 100, None)
    await raise_log_start(held, past, 1)
    assert (held.log.log_start_offset, held.log.end_offset, held.high_watermark) == (0, 1, 1)


@pytest.mark.bug("KAFKA-15510")
async def test_an_empty_answer_leaves_the_last_fetched_epoch(make_cluster, autojump_clock, monkeypatch):
    cluster = await make_cluster(2)
    await cluster.lead(1)
    await cluster[1].produced("a")
    await cluster.caught_up()
    leader, asked = cluster[1].partition(), []

    def noted(partition, item, **fields):
        if partition is leader:
            asked.append(item)
        take_in_fetch(partition, item, **fields)

    monkeypatch.setattr(incremental_fetch, "take_in_fetch", noted)
    # The session's fetches say nothing of a partition that is idle, and were answered with nothing for it.
    await trio.sleep(3)
    assert not asked
    await cluster[1].produced("b")
    await cluster.caught_up()
    assert {item.last_fetched_epoch for item in asked} == {1}


@pytest.mark.bug("KAFKA-13141")
async def test_the_offset_of_a_follower_that_diverges_counts_for_nothing(make_cluster, autojump_clock):
    cluster = await make_cluster(2)
    await cluster[1].produce_each("ab")
    cluster.cut_off(1)
    cluster.controller.elect(1)
    cluster[1].produce("c", acks=1)
    leader = cluster[1].partition()
    before = leader.leading.remotes[2].log_end_offset
    item = FetchItem("t", 0, 3, 1 << 20, 1, last_fetched_epoch=0)
    take_in_fetch(leader, item, replica_id=2, replica_epoch=-1)
    assert leader.leading.remotes[2].log_end_offset == before
    assert leader.high_watermark == 2
    answer = await cluster[1].fetch(3, replica_id=2, last_fetched_epoch=0, max_wait_ms=500)
    assert answer.diverging_epoch == (0, 2)
    assert leader.high_watermark == 2


@pytest.mark.bug("KAFKA-9491")
async def test_a_follower_below_the_leaders_start_begins_there_with_its_high_watermark(
    make_cluster, autojump_clock
):
    cluster = await make_cluster(2, log_retention_check_interval_ms=1000)
    cluster.controller.configure(segment_bytes=300, retention_bytes=300)
    await cluster[1].produced("old")
    await cluster.caught_up()
    await cluster[2].crash()
    cluster.controller.fence(2)
    await cluster[1].produce_each(["x" * 200] * 10)
    await trio.sleep(2)
    start = cluster[1].partition().log.log_start_offset
    assert start > 1
    await cluster[2].start()
    await cluster.until(lambda: cluster[2].partition().log.log_start_offset == start)
    held = cluster[2].partition()
    assert start <= held.high_watermark <= held.log.end_offset
    await cluster.lead(2, isr=(2,))
    assert not (await cluster[2].produced("new")).error
    assert (await cluster[2].consumed(start))[-1] == "new"


@pytest.mark.bug("KAFKA-12996")
async def test_a_fetch_below_the_log_start_is_out_of_range_whatever_its_epoch(make_cluster, autojump_clock):
    cluster = await make_cluster(2)
    await cluster[1].produce_each(["a"] * 5)
    await cluster.lead(1)
    leader = cluster[1].partition()
    await leader.log.advance_log_start(4)
    await cluster[1].produced("b")
    result = await cluster[1].fetch(2, replica_id=2, last_fetched_epoch=0)
    assert (result.error, result.log_start_offset) == (ErrorCode.OFFSET_OUT_OF_RANGE, 4)


@pytest.mark.bug("KAFKA-16541")
@pytest.mark.parametrize("seed", range(20))
async def test_power_lost_while_a_follower_truncates_leaves_a_log_that_opens(
    make_cluster, autojump_clock, seed
):
    cluster = await parted(make_cluster, seed=seed)
    await cluster[2].partition().log.flush()
    await cluster[2].manager._logs.store_recovery_points()
    cluster[2].host.disk_speed.sync_min_s = cluster[2].host.disk_speed.sync_max_s = 0.01
    cluster.heal()
    await cluster.until(lambda: cluster[2].partition().lock.locked())
    await trio.sleep(cluster.random.uniform(0, 0.08))
    await cluster[2].crash(power=True)
    await cluster[2].start()
    assert not cluster[2].errors
    await cluster[1].produced("next")
    await equal(cluster, 1, 2)


@pytest.mark.bug("KAFKA-12181")
async def test_a_follower_that_lost_its_disk_comes_back_and_the_high_watermark_stays(
    make_cluster, autojump_clock
):
    cluster = await make_cluster()
    await cluster[1].produce_each(f"{number}" for number in range(20))
    await cluster[2].crash()
    cluster[2].disk.remove_folder("data")
    await cluster[2].start()
    await cluster[1].produced("next")
    assert cluster[1].partition().high_watermark == 21
    await equal(cluster, 1, 2, 3)
    await cluster.in_sync(1, 2, 3)


@pytest.mark.bug("KAFKA-6492")
async def test_a_log_cut_to_the_start_of_a_segment_takes_records_again(make_cluster, autojump_clock):
    cluster = await make_cluster(2)
    cluster.controller.configure(segment_bytes=300)
    await cluster[1].produced("x" * 200)
    await cluster.caught_up()
    cluster.cut_off(2)
    cluster[1].produce("y" * 200, acks=1)
    assert cluster[1].partition().log.segment_count == 2
    await cluster.lead(2)
    cluster.heal()
    await cluster[2].produced("z" * 200)
    await equal(cluster, 1, 2)
    assert await cluster[2].consumed() == ["x" * 200, "z" * 200]


@pytest.mark.bug("KAFKA-12460")
async def test_a_member_of_the_isr_refuses_to_lose_what_is_committed(make_cluster, autojump_clock):
    """The leader of the partition has lost its log, and says that it has not."""
    cluster = await make_cluster(2)
    await cluster[1].produce_each("abc")
    await cluster.caught_up()
    held = cluster[2].partition()
    with pytest.raises(ReplicaFailedError, match="high watermark"):
        truncation_offset(held, held.following, 0, 1)
    with pytest.raises(ReplicaFailedError, match="committed"):
        await restart_at(held, held.following, 0, None)
    assert held.log.end_offset == 3


async def test_a_partition_that_was_refused_a_cut_goes_on_in_the_next_epoch(make_cluster, autojump_clock):
    cluster = await make_cluster(2)
    await cluster[1].produce_each("abc")
    await cluster.caught_up()
    await cluster[1].crash()
    cluster[1].disk.remove_folder("data/t-0")
    # The controller has not noticed: 1 still leads, and 2 is in sync.
    await cluster[1].start()
    cluster.controller.elect(1, isr=(1, 2))
    await cluster.until(lambda: cluster[1].partition().leading is not None)
    cluster[1].produce("d", acks=1)
    await trio.sleep(2)
    assert await cluster[2].log_bytes() != b""
    assert cluster[2].partition().log.end_offset == 3
    cluster.controller.elect(2, isr=(2,))
    await equal(cluster, 1, 2)
    assert await cluster[2].consumed() == ["a", "b", "c"]


async def test_a_new_leader_answers_no_end_below_the_one_of_the_last_leader(make_cluster, autojump_clock):
    cluster = await make_cluster()
    await cluster[1].produced("a")
    await cluster.until(lambda: cluster[2].partition().log.end_offset == 1)
    await cluster.until(lambda: cluster[3].partition().log.end_offset == 1)
    held = cluster[2].partition()
    held.log.high_watermark = 0
    cluster.cut_off(2)
    await cluster.lead(2)
    ask = cluster[2].replicas.queries.list_offset
    assert (await ask("t", 0, timestamp=-1)).error is ErrorCode.OFFSET_NOT_AVAILABLE
    assert (await ask("t", 0, timestamp=500)).error is ErrorCode.OFFSET_NOT_AVAILABLE
    assert (await ask("t", 0, timestamp=-2)).offset == 0
    api = Mock(Broker, replicas=cluster[2].replicas, later=lambda work: work)
    for version, known in (
        (4, KafkaErrorCode.leader_not_available),
        (5, KafkaErrorCode.offset_not_available),
    ):
        item = SimpleNamespace(partition_index=0, timestamp=-1, current_leader_epoch=-1)
        request = SimpleNamespace(topics=[SimpleNamespace(name="t", partitions=[item])])
        context = SimpleNamespace(api=APIS[ApiKey.LIST_OFFSETS], version=version)
        answered = await handle_list_offsets(api, context, request)()
        body = memoryview(b"".join(encode_response(answered)))
        told = decode_entity(response_type(ApiKey.LIST_OFFSETS, version), body)
        assert told.topics[0].partitions[0].error_code is known
    cluster.heal()
    await cluster.until(lambda: held.high_watermark == 1)
    assert (await ask("t", 0, timestamp=-1)).offset == 1
    assert (await ask("t", 0, timestamp=500)).offset == 0
    assert (await ask("t", 0, timestamp=5000)).offset == -1
    assert (await ask("t", 0, timestamp=-3)).timestamp == 1000


async def test_an_unclean_leader_recovers_before_others_join(make_cluster, autojump_clock):
    from quorate.broker.metadata.metadata_records import LeaderRecoveryState

    cluster = await make_cluster(2, isr=(1,))
    cluster.controller.elect(2, isr=(2,), leader_recovery_state=LeaderRecoveryState.RECOVERING)
    await cluster.in_sync(1, 2)
    recoveries = [each.partitions[0] for each in cluster.controller.requests]
    assert [member.broker_id for member in recoveries[0].new_isr] == [2]
    assert recoveries[0].leader_recovery_state is LeaderRecoveryState.RECOVERED
    assert cluster.controller.state().leader_recovery_state is LeaderRecoveryState.RECOVERED


async def test_a_partition_of_another_broker_is_refused_by_name_and_by_id(make_cluster, autojump_clock):
    cluster = await make_cluster(replicas=(1, 2))
    with pytest.raises(PartitionError) as refused:
        cluster[3].partition()
    assert refused.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
    with refused_with(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION):
        cluster[3].partition(name="nothing")


async def test_a_cut_in_the_middle_of_a_batch_takes_the_batch_with_it(make_cluster, autojump_clock):
    """The log starts inside of its first batch, as it may after DeleteRecords; the leader has none of it."""
    cluster = await make_cluster(2, replicas=(2, 1))
    assert not (await cluster[2].produced("first")).error
    await cluster.caught_up()
    cluster.cut_off(1)
    await cluster.lead(1, isr=(1,))
    assert not (await cluster[1].produced("a", "b", "c", "d", "e")).error
    held = cluster[1].partition()
    await held.log.advance_log_start(3)
    await cluster.lead(2, isr=(2,))
    cluster.heal()
    assert not (await cluster[2].produced("x", "y", "z")).error
    await cluster.caught_up()
    assert cluster[1].replicas.stats.truncations == 1
    # Offset 3, where it has to go on, is in the middle of the leader's batch too.
    assert (held.log.log_start_offset, held.log.end_offset) == (1, 4)
    assert held.log.high_watermark == 4
    await cluster.lead(1)
    assert await cluster[1].consumed(1) == ["x", "y", "z"]


async def test_a_disk_that_fails_while_offsets_are_looked_up_is_out(make_cluster, autojump_clock):
    cluster = await make_cluster(1)
    await cluster[1].produced("a")
    await cluster[1].crash()
    await cluster[1].start(log_dirs=("data", "more"))
    await cluster.opened()  # nothing of it is in memory
    ask = cluster[1].replicas.queries.list_offset
    cluster[1].disk.fail(DiskOperation.READ, path_part=".log")
    assert (await ask("t", 0, timestamp=500)).error is ErrorCode.KAFKA_STORAGE_ERROR
    assert (await ask("t", 0, timestamp=-1)).error is ErrorCode.KAFKA_STORAGE_ERROR
    with pytest.raises(PartitionError):
        cluster[1].partition().check_leading()


async def test_a_log_that_goes_while_offsets_are_looked_up_has_moved(
    make_cluster, autojump_clock, monkeypatch
):
    cluster = await make_cluster(2)
    await cluster[1].produced("a")
    held = cluster[1].partition()

    async def read(*args, **options):
        cluster.controller.elect(2)
        await trio.sleep(1)
        raise DiskError("closed", path="t-0")

    monkeypatch.setattr(held.log, "read", read)
    found = await cluster[1].replicas.queries.list_offset("t", 0, timestamp=500)
    assert found.error is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert held.failure is None
