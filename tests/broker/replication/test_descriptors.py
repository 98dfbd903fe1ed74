"""A process that may open no more files has a whole disk, and goes on with what is open."""

import pytest
import trio
from captured_logs import captured_logs

from quorate.error_code import ErrorCode


async def test_a_log_that_can_not_be_opened_for_want_of_descriptors_is_opened_later(
    make_cluster, autojump_clock
):
    cluster = await make_cluster(1)
    cluster[1].disk.descriptors = 5
    with captured_logs() as lines:
        cluster.controller.create("late", replicas=(1,), number=2)
        await trio.sleep(35)
    said = [line for line in lines if line["event"] == "a replica can't be opened for now"]
    assert 2 <= len(said) <= 5
    assert "raise the limit" in said[0]["reason"]
    assert cluster[1].running
    assert not cluster[1].manager._logs.failed_dirs, "the disk is fine"
    assert (await cluster[1].produced("a")).error is ErrorCode.NONE, "what is open goes on"
    cluster[1].disk.descriptors = 100
    await trio.sleep(11)
    assert (await cluster[1].produced("b", name="late")).error is ErrorCode.NONE


async def test_an_append_that_can_not_begin_a_segment_is_refused_and_the_next_one_tries_again(
    make_cluster, autojump_clock
):
    cluster = await make_cluster(1)
    cluster.controller.configure(segment_bytes=200)
    await cluster[1].produced("a" * 150)
    cluster[1].disk.descriptors = 0
    refused = await cluster[1].produced("b" * 150)
    assert refused.error is ErrorCode.KAFKA_STORAGE_ERROR
    assert "raise the limit" in refused.error_message
    await trio.sleep(120)  # checkpoints and flushes meanwhile
    cluster[1].disk.descriptors = None
    assert not cluster[1].manager._logs.failed_dirs, "the disk is fine"
    assert (await cluster[1].produced("c" * 150)).error is ErrorCode.NONE
    assert await cluster[1].consumed() == ["a" * 150, "c" * 150]
    await cluster.restart(1)
    assert await cluster[1].consumed() == ["a" * 150, "c" * 150]


async def test_a_follower_without_descriptors_fetches_again_once_it_has_some(make_cluster, autojump_clock):
    cluster = await make_cluster(2)
    cluster.controller.configure(segment_bytes=200)
    await cluster[1].produced("a" * 150)
    cluster[2].disk.descriptors = 0
    await cluster[1].produced("b" * 150, acks=1)
    await trio.sleep(5)
    assert cluster[2].partition().log.end_offset == 1
    cluster[2].disk.descriptors = None
    await trio.sleep(5)
    assert cluster[2].partition().log.end_offset == 2
    assert not cluster[2].manager._logs.failed_dirs


@pytest.mark.slow
async def test_a_leader_that_can_not_open_its_log_gives_up_the_lead_in_time(make_cluster, autojump_clock):
    """Until then it says what is wrong; it follows when it has descriptors again."""
    cluster = await make_cluster(replicas=(1, 2), min_isr=1)
    cluster[1].disk.descriptors = 5
    cluster.controller.create("late", replicas=(1, 2, 3), number=2)
    cluster.controller.create("alone", replicas=(1,), number=3)
    await trio.sleep(25)
    assert cluster.controller.state("late").leader == 1, "they may be free in a moment"
    refused = await cluster[1].produced("a", name="late")
    assert refused.error is ErrorCode.KAFKA_STORAGE_ERROR
    assert "file descriptors" in refused.error_message
    assert (await cluster[1].fetch(0, name="late")).error is ErrorCode.KAFKA_STORAGE_ERROR
    await trio.sleep(20)
    state = cluster.controller.state("late")
    assert (state.leader, state.isr) == (2, (2, 3))
    assert cluster.controller.state("alone").leader == 1, "nobody else can lead it"
    assert cluster.controller.state("t").leader == 1, "what is open goes on"
    assert (await cluster[2].produced("a", name="late")).error is ErrorCode.NONE
    cluster[1].disk.descriptors = 100
    await trio.sleep(15)
    assert cluster.controller.state("late").isr == (2, 3, 1)
    assert (await cluster[1].produced("b", name="alone")).error is ErrorCode.NONE
    assert cluster[1].partition("late").log.end_offset == 1


@pytest.mark.slow
async def test_a_leader_that_is_the_last_in_sync_keeps_a_lead_that_it_can_not_serve(
    make_cluster, autojump_clock
):
    cluster = await make_cluster(2)
    cluster[1].disk.descriptors = 5
    cluster.controller.create("late", replicas=(1, 2), isr=(1,), number=2)
    await trio.sleep(100)
    state = cluster.controller.state("late")
    assert (state.leader, state.isr) == (1, (1,))
    cluster[1].disk.descriptors = 100
    await trio.sleep(15)
    assert (await cluster[1].produced("a", name="late")).error is ErrorCode.NONE


async def test_a_topic_that_is_made_again_waits_for_descriptors_anew(make_cluster, autojump_clock):
    """The time that its predecessor waited does not count for it."""
    cluster = await make_cluster(2)
    cluster[1].disk.descriptors = 5
    cluster.controller.create("late", replicas=(1, 2), number=2)
    await trio.sleep(25)
    cluster.controller.delete("late")
    cluster.controller.create("late", replicas=(1, 2), number=3)
    await trio.sleep(15)
    assert cluster.controller.state("late").leader == 1
    await trio.sleep(30)
    assert cluster.controller.state("late").leader == 2
