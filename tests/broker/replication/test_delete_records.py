"""DeleteRecords (KIP-107): the log start of a leader, its followers, and the next life of both."""

import pytest
import trio

from quorate.broker.replication.foundation.errors import PartitionError
from quorate.broker.replication.storage.proofs import PAGE_CACHE
from quorate.error_code import ErrorCode
from quorate.log.checkpoints import LOG_STARTS, RECOVERY_POINTS, UnreadableCheckpointError, load_offsets
from quorate.simulation.world.disk_faults import DiskOperation
from quorate.types import Offset
from tests.broker.replication.conftest import Answer

VALUES = tuple("abcdefgh")


async def filled(make_cluster, brokers=3, *, min_isr=None, values=VALUES, **config):
    """A topic with a batch for each value, which every replica has."""
    cluster = await make_cluster(brokers, min_isr=min_isr)
    if config:
        cluster.controller.configure(**config)
    await cluster[1].produce_each(values)
    await cluster.caught_up()
    return cluster


def starts(cluster, *brokers):
    return [cluster[each].partition().log.log_start_offset for each in brokers]


async def test_the_answer_waits_until_every_live_follower_has_deleted_too(make_cluster, autojump_clock):
    cluster = await filled(make_cluster)
    cluster.cut_off(3)
    deletion = Answer(cluster.nursery, lambda: cluster[1].deleted(5))
    await cluster.until(lambda: starts(cluster, 1, 2) == [5, 5])
    await trio.sleep(1)
    assert deletion.result is None, "broker 3 has not heard of it"
    cluster.heal()
    await cluster.until(lambda: deletion.result is not None)
    assert (deletion.result.error, deletion.result.low_watermark) == (ErrorCode.NONE, 5)
    assert starts(cluster, 1, 2, 3) == [5, 5, 5]
    assert await cluster[1].consumed(5) == list("fgh")
    below = await cluster[1].fetch(4)
    assert (below.error, below.log_start_offset) == (ErrorCode.OFFSET_OUT_OF_RANGE, 5)


async def test_followers_learn_of_the_log_start_before_their_long_poll_ends(make_cluster, autojump_clock):
    cluster = await filled(make_cluster)
    began = trio.current_time()
    assert not (await cluster[1].deleted(5)).error
    assert trio.current_time() - began < 0.1


async def test_a_deletion_that_times_out_is_done_on_the_leader_and_may_be_repeated(
    make_cluster, autojump_clock
):
    cluster = await filled(make_cluster)
    cluster.cut_off(3)
    late = await cluster[1].deleted(5, timeout_ms=200)
    assert (late.error, late.low_watermark) == (ErrorCode.REQUEST_TIMED_OUT, -1)
    assert starts(cluster, 1, 3) == [5, 0]
    cluster.heal()
    again = await cluster[1].deleted(5)
    assert (again.error, again.low_watermark) == (ErrorCode.NONE, 5)
    assert starts(cluster, 3) == [5]


async def test_no_time_to_wait_is_enough_without_followers_only(make_cluster, autojump_clock):
    cluster = await filled(make_cluster)
    # They would answer in no time.
    for follower in (2, 3):
        cluster.cut_off(follower)
    assert (await cluster[1].deleted(5, timeout_ms=0)).error is ErrorCode.REQUEST_TIMED_OUT
    alone = await filled(make_cluster, 1)
    assert (await alone[1].deleted(5, timeout_ms=0)).low_watermark == 5


async def test_a_dead_follower_is_not_waited_for_and_deletes_when_it_is_back(make_cluster, autojump_clock):
    cluster = await filled(make_cluster)
    await cluster[3].crash()
    cluster.controller.fence(3)
    assert (await cluster[1].deleted(5)).low_watermark == 5
    await cluster[3].start()
    await cluster.until(lambda: starts(cluster, 3) == [5])


@pytest.mark.parametrize("isr", [(1, 2, 3), (1, 2)])
async def test_a_follower_that_dies_meanwhile_ends_the_wait(make_cluster, autojump_clock, isr):
    cluster = await filled(make_cluster)
    cluster.cut_off(3)
    cluster.controller.change(isr=isr)
    deletion = Answer(cluster.nursery, lambda: cluster[1].deleted(5))
    await cluster.until(lambda: starts(cluster, 2) == [5])
    cluster.controller.fence(3)
    await cluster.until(lambda: deletion.result is not None)
    assert deletion.result.low_watermark == 5


async def test_an_eligible_leader_replica_is_waited_for_though_it_is_dead(make_cluster, autojump_clock):
    """It may lead next, with all that was deleted. Kafka answers."""
    cluster = await filled(make_cluster, min_isr=3)
    cluster.controller.fence(3)
    await cluster.opened()
    cluster.cut_off(3)
    assert (await cluster[1].deleted(5, timeout_ms=500)).error is ErrorCode.REQUEST_TIMED_OUT


async def test_a_lower_offset_succeeds_and_changes_nothing(make_cluster, autojump_clock):
    cluster = await filled(make_cluster)
    await cluster[1].deleted(5)
    result = await cluster[1].deleted(3)
    assert (result.error, result.low_watermark) == (ErrorCode.NONE, 5)
    assert starts(cluster, 1, 2, 3) == [5, 5, 5]


@pytest.mark.bug("redpanda PR 22968")
async def test_offsets_that_cannot_be_meant_are_refused(make_cluster, autojump_clock):
    cluster = await filled(make_cluster)
    for offset in (-2, 9, 2**62):
        result = await cluster[1].deleted(Offset(offset))
        assert (result.error, result.low_watermark) == (ErrorCode.OFFSET_OUT_OF_RANGE, -1), offset
    assert (await cluster[2].deleted(5)).error is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert starts(cluster, 1, 2, 3) == [0, 0, 0]
    everything = await cluster[1].deleted(-1)
    assert (everything.error, everything.low_watermark) == (ErrorCode.NONE, 8)
    assert await cluster[1].consumed(8) == []
    assert (await cluster[1].produced("i")).base_offset == 8


async def test_records_that_are_not_committed_cannot_be_deleted(make_cluster, autojump_clock):
    cluster = await filled(make_cluster)
    cluster.cut_off(2)
    cluster.cut_off(3)
    cluster[1].produce("i", acks=1)
    assert (await cluster[1].deleted(9)).error is ErrorCode.OFFSET_OUT_OF_RANGE
    assert (await cluster[1].deleted(-1, timeout_ms=1)).error is ErrorCode.REQUEST_TIMED_OUT
    assert starts(cluster, 1) == [8]


async def test_records_of_a_compacted_topic_are_not_deleted_by_offset(make_cluster, autojump_clock):
    cluster = await filled(make_cluster, cleanup_policy="compact")
    assert (await cluster[1].deleted(5)).error is ErrorCode.POLICY_VIOLATION
    cluster.controller.configure(cleanup_policy="compact,delete")
    assert (await cluster[1].deleted(5)).low_watermark == 5


async def test_a_partition_on_a_failed_disk_says_so(make_cluster, autojump_clock):
    cluster = await make_cluster(1, log_dirs=("data", "more"))
    await cluster[1].produced("a")
    cluster[1].disk.fail(DiskOperation.SYNC, path_part=LOG_STARTS)
    assert (await cluster[1].deleted(1)).error is ErrorCode.KAFKA_STORAGE_ERROR
    assert (await cluster[1].deleted(1)).error is ErrorCode.KAFKA_STORAGE_ERROR
    assert cluster[1].replicas.directories.unused_dirs == ("data",)


async def test_losing_the_lead_ends_the_wait(make_cluster, autojump_clock):
    cluster = await filled(make_cluster)
    cluster.cut_off(3)
    deletion = Answer(cluster.nursery, lambda: cluster[1].deleted(5))
    await cluster.until(lambda: starts(cluster, 2) == [5])
    cluster.controller.elect(2)
    await cluster.until(lambda: deletion.result is not None)
    assert deletion.result.error is ErrorCode.NOT_LEADER_OR_FOLLOWER


@pytest.mark.parametrize("power", [False, True])
async def test_an_answered_deletion_outlives_the_death_of_every_replica(make_cluster, autojump_clock, power):
    cluster = await filled(make_cluster)
    assert (await cluster[1].deleted(5)).low_watermark == 5
    for each in (1, 2, 3):
        await cluster[each].crash(power=power)
    for each in (1, 2, 3):
        await cluster[each].start()
        await cluster.until(lambda each=each: cluster[each].manager._parts.base.hosted.settled)
        assert starts(cluster, each)[0] >= 5


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(8))
async def test_no_new_leader_goes_back_below_an_answered_log_start(make_cluster, autojump_clock, seed):
    """Deletions at random offsets, and after each answer the leader dies, with or without its page cache."""
    cluster = await make_cluster(seed=seed)
    cluster.controller.configure(segment_bytes=300)
    draw = cluster.random
    leader, answered = 1, 0
    for turn in range(8):
        for number in range(draw.randint(1, 6)):
            values = (f"{turn}-{number}", *"abc"[: draw.randint(0, 3)])
            assert not (await cluster[leader].produced(*values)).error
        offset = draw.randint(answered, cluster[leader].partition().high_watermark)
        result = await cluster[leader].deleted(offset)
        assert not result.error
        assert result.low_watermark >= offset
        answered = max(answered, offset)
        died, leader = leader, draw.choice([each for each in (1, 2, 3) if each != leader])
        await cluster[died].crash(power=draw.random() < 0.5)
        cluster.controller.fence(died)
        if cluster.controller.state().leader != leader:
            cluster.controller.elect(leader)
        await cluster.opened()
        assert starts(cluster, leader)[0] >= answered
        below = await cluster[leader].fetch(answered - 1)
        assert below.error is ErrorCode.OFFSET_OUT_OF_RANGE
        await cluster[died].start()
        await cluster.until(lambda: set(cluster.controller.state().isr) == {1, 2, 3})
        assert starts(cluster, died)[0] >= answered


async def test_whole_segments_below_go_and_their_space_with_them(make_cluster, autojump_clock):
    cluster = await filled(make_cluster, segment_bytes=150)
    before = [cluster[each].partition().log.segment_count for each in (1, 2, 3)]
    assert (await cluster[1].deleted(7)).low_watermark == 7
    await cluster.until(
        lambda: all(cluster[each].partition().log.first_base_offset > 4 for each in (1, 2, 3))
    )
    assert all(cluster[each].partition().log.segment_count < before[each - 1] for each in (1, 2, 3))


@pytest.mark.bug("KAFKA-9393")
async def test_the_answer_does_not_wait_for_thousands_of_files(make_cluster, autojump_clock):
    """Nor does a produce meanwhile: each removed segment costs a sync, here of 10 ms."""
    cluster = await filled(make_cluster, 1, values=["v"] * 300, segment_bytes=100)
    log = cluster[1].partition().log
    assert log.segment_count > 250
    cluster[1].disk.sync_delay = 0.01
    began = trio.current_time()
    assert (await cluster[1].deleted(299)).low_watermark == 299
    assert not (await cluster[1].produced("w", acks=1)).error
    assert trio.current_time() - began < 0.1
    await cluster.until(lambda: log.segment_count < 5)
    assert trio.current_time() - began > 2


async def test_records_that_power_loss_took_are_not_read_as_deleted_ones(make_cluster, autojump_clock):
    """The checkpoint has the log start, the log has lost what is below it: it is empty at the log start."""
    cluster = await filled(make_cluster, 1)
    assert not (await cluster[1].deleted(6)).error
    await cluster[1].crash()
    file = cluster[1].disk.open("data/t-0/00000000000000000000.log")
    file.truncate(100)
    await file.sync()
    assert not cluster[1].disk.exists(f"data/{RECOVERY_POINTS}")
    await cluster[1].start()
    await trio.sleep(5)
    with pytest.raises(PartitionError, match="starts at offset 6 by this file, and ends at"):
        cluster[1].partition()  # the host has run on, so that no power was lost
    await cluster[1].crash()
    cluster[1].disk.remove(f"data/{PAGE_CACHE}")
    await cluster[1].start()
    await cluster.opened()
    log = cluster[1].partition().log
    assert (log.log_start_offset, log.end_offset) == (6, 6)
    assert (await cluster[1].produced("new")).base_offset == 6


async def test_a_topic_of_the_same_name_does_not_inherit_the_log_start(make_cluster, autojump_clock):
    cluster = await filled(make_cluster, 1)
    assert not (await cluster[1].deleted(6)).error
    assert load_offsets(cluster[1].disk, f"data/{LOG_STARTS}") == {("t", 0): 6}
    cluster.controller.delete()
    cluster.controller.create(replicas=(1,), number=2)
    await cluster.opened()
    await cluster[1].produced("new")
    await cluster.restart(1)
    assert starts(cluster, 1) == [0]
    assert await cluster[1].consumed() == ["new"]


async def test_a_damaged_checkpoint_of_log_starts_is_told_with_its_remedy(make_cluster, autojump_clock):
    cluster = await filled(make_cluster, 1)
    assert not (await cluster[1].deleted(6)).error
    await cluster[1].stop()
    file = cluster[1].disk.open(f"data/{LOG_STARTS}")
    file.truncate(file.size - 2)
    with pytest.raises(UnreadableCheckpointError, match="move it away and repeat DeleteRecords"):
        await cluster[1].start()


@pytest.mark.bug("KAFKA-7190")
async def test_a_producer_whose_records_are_all_deleted_goes_on(make_cluster, autojump_clock):
    cluster = await filled(make_cluster, values=())
    assert not (await cluster[1].produced("a", producer=(7, 0, 0))).error
    assert not (await cluster[1].deleted(-1)).error
    assert not (await cluster[1].produced("b", producer=(7, 0, 1))).error
    repeated = await cluster[1].produced("a", producer=(7, 0, 0))
    assert (repeated.error, repeated.duplicate) == (ErrorCode.NONE, True)


@pytest.mark.bug("KAFKA-16452")
async def test_a_leader_that_lost_its_checkpoints_lets_its_followers_go_on(make_cluster, autojump_clock):
    cluster = await filled(make_cluster, segment_bytes=150)
    assert (await cluster[1].deleted(6)).low_watermark == 6
    await cluster.until(lambda: cluster[1].partition().log.first_base_offset > 4)
    for each in (3, 2, 1):
        await cluster[each].stop()
    for name in cluster[1].disk.list("data"):
        if name.endswith("checkpoint") or name.startswith("."):
            cluster[1].disk.remove(f"data/{name}")
    for each in (1, 2, 3):
        await cluster[each].start()
    await cluster.in_sync(1, 2, 3)
    await cluster.lead(1)
    assert cluster[1].partition().high_watermark >= cluster[1].partition().log.first_base_offset
    assert not (await cluster[1].produced("i")).error
    await cluster.caught_up()


async def test_a_consumer_that_waits_at_what_is_deleted_hears_of_it_at_once(make_cluster, autojump_clock):
    cluster = await filled(make_cluster)
    began = trio.current_time()
    consumer = Answer(cluster.nursery, lambda: cluster[1].fetch(7, max_wait_ms=60_000, min_bytes=1 << 20))
    await trio.sleep(1)
    assert not (await cluster[1].deleted(8)).error
    await cluster.until(lambda: consumer.result is not None)
    assert consumer.result.error is ErrorCode.OFFSET_OUT_OF_RANGE
    assert trio.current_time() - began < 5
