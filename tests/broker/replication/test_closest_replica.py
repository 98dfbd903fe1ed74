"""Consumers that read from the replica in their rack (KIP-392)."""

from dataclasses import replace
from types import SimpleNamespace

import pytest
import trio
import trio.testing

from quorate.broker.replication.foundation.requests import CONSUMER, FetchItem, FetchOptions
from quorate.broker.replication.serving.partition_reader import preferred_replica
from quorate.error_code import ErrorCode
from tests.broker.replication.conftest import Answer

RACKS = {1: "a", 2: "b", 3: "c"}


def consumer_in(rack=""):
    """Return the options of a consumer whose version knows of racks."""
    return {"any_replica": True, "rack_id": rack, "listener": "PLAINTEXT"}


async def brokers_in_racks(make_cluster, *, racks=RACKS, chooses=True):
    cluster = await make_cluster(min_isr=1, racks=racks, reads_from_closest_replica=chooses)
    await cluster[1].produced("a", "b")
    await cluster.caught_up()
    return cluster


@pytest.mark.parametrize(
    ("rack", "sent_to"), [("b", 2), ("c", 3), ("a", CONSUMER), ("d", CONSUMER), ("", CONSUMER)]
)
async def test_a_leader_names_the_replica_in_the_rack_of_the_consumer_and_sends_no_records(
    make_cluster, autojump_clock, rack, sent_to
):
    cluster = await brokers_in_racks(make_cluster)
    began = trio.current_time()
    told = await cluster[1].fetch(0, max_wait_ms=10_000, **consumer_in(rack))
    assert trio.current_time() == began
    assert (told.error, told.preferred_read_replica) == (ErrorCode.NONE, sent_to)
    assert (told.size > 0, told.high_watermark) == (sent_to == CONSUMER, 2)


async def test_without_the_setting_nobody_is_sent_anywhere_and_no_follower_serves(
    make_cluster, autojump_clock
):
    cluster = await brokers_in_racks(make_cluster, chooses=False)
    told = await cluster[1].fetch(0, **consumer_in("b"))
    assert (told.preferred_read_replica, told.size > 0) == (-1, True)
    assert (await cluster[2].fetch(0, **consumer_in("b"))).error is ErrorCode.NOT_LEADER_OR_FOLLOWER


async def test_a_consumer_of_a_version_before_racks_reads_from_the_leader_alone(make_cluster, autojump_clock):
    cluster = await brokers_in_racks(make_cluster)
    assert await cluster[1].consumed() == ["a", "b"]
    assert (await cluster[2].fetch(0)).error is ErrorCode.NOT_LEADER_OR_FOLLOWER


async def test_of_two_in_the_rack_the_one_with_the_longer_log_is_named(make_cluster, autojump_clock):
    cluster = await brokers_in_racks(make_cluster, racks={1: "a", 2: "b", 3: "b"})
    cluster.cut_off(3)
    await trio.sleep(1)
    pending = cluster[1].produce("c")
    await cluster.until(lambda: cluster[2].partition().log.end_offset == 3)
    assert (await cluster[1].fetch(0, **consumer_in("b"))).preferred_read_replica == 2
    assert not pending.done


@pytest.mark.bug("redpanda PR 16146")
async def test_a_replica_that_lacks_the_offset_is_not_named(make_cluster, autojump_clock):
    cluster = await brokers_in_racks(make_cluster)
    cluster.cut_off(2)
    await trio.sleep(1)
    cluster[1].produce("c", acks=1)
    assert (await cluster[1].fetch(2, **consumer_in("b"))).preferred_read_replica == 2
    assert (await cluster[1].fetch(3, **consumer_in("b"))).preferred_read_replica == -1


@pytest.mark.bug("KAFKA-14372")
async def test_a_fenced_replica_is_not_named_though_it_is_still_in_the_isr(make_cluster, autojump_clock):
    """It leaves the ISR by a record of its own, after that which fences it."""
    cluster = await brokers_in_racks(make_cluster)
    brokers = dict(cluster.controller.image.brokers)
    partition, item = cluster[1].partition(), FetchItem("t", 0, 0, 1 << 20)
    options = FetchOptions(items=[item], max_wait_ms=0, **consumer_in("b"))

    def preferred():
        return preferred_replica(partition, item, options, SimpleNamespace(brokers=brokers))

    assert preferred() == 2
    brokers[2] = replace(brokers[2], fenced=True)
    assert preferred() == -1


async def test_a_consumer_in_the_rack_of_the_leader_stays_though_a_follower_is_there_too(
    make_cluster, autojump_clock
):
    cluster = await brokers_in_racks(make_cluster, racks={1: "a", 2: "a", 3: "c"})
    told = await cluster[1].fetch(0, **consumer_in("a"))
    assert (told.preferred_read_replica, told.size > 0) == (-1, True)


async def test_a_replica_on_another_listener_is_not_named(make_cluster, autojump_clock):
    cluster = await brokers_in_racks(make_cluster)
    told = await cluster[1].fetch(0, **(consumer_in("b") | {"listener": "INTERNAL"}))
    assert told.preferred_read_replica == -1


async def test_a_follower_serves_consumers_up_to_the_high_watermark_that_it_knows(
    make_cluster, autojump_clock
):
    cluster = await brokers_in_racks(make_cluster)
    assert await cluster[2].consumed(**consumer_in("b")) == ["a", "b"]
    cluster.cut_off(3)
    pending = cluster[1].produce("c", timeout_ms=60_000)
    await cluster.until(lambda: cluster[2].partition().log.end_offset == 3)
    assert await cluster[2].consumed(**consumer_in("b")) == ["a", "b"], (
        "it has the third, which is not committed"
    )
    assert (await cluster[2].fetch(3, **consumer_in("b"))).error is ErrorCode.NONE, "it may be in time"
    assert (await cluster[2].fetch(4, **consumer_in("b"))).error is ErrorCode.OFFSET_OUT_OF_RANGE
    assert not pending.done


@pytest.mark.bug("KAFKA-14334")
async def test_a_consumer_that_waits_at_a_follower_reads_what_is_committed_at_once(
    make_cluster, nursery, autojump_clock
):
    """The high watermark comes to the follower without waiting for its long poll, nor for more records."""
    cluster = await brokers_in_racks(make_cluster)
    consumer = Answer(nursery, lambda: cluster[2].fetch(2, max_wait_ms=10_000, **consumer_in("b")))
    await trio.sleep(2.25)
    began = trio.current_time()
    await cluster[1].produced("c")
    await cluster.until(lambda: consumer.result is not None)
    assert consumer.result.size > 0
    assert trio.current_time() - began < 0.1


async def test_epochs_are_checked_at_a_follower_as_at_a_leader(make_cluster, autojump_clock):
    cluster = await brokers_in_racks(make_cluster)
    epoch = cluster.controller.state().leader_epoch
    found = [
        (await cluster[2].fetch(0, current_leader_epoch=epoch + each, **consumer_in("b"))).error
        for each in (-1, 0, 1)
    ]
    if epoch == 0:
        found[0] = ErrorCode.FENCED_LEADER_EPOCH  # -1 is "not checked"
    assert found == [ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.NONE, ErrorCode.UNKNOWN_LEADER_EPOCH]


@pytest.mark.bug("KAFKA-14372")
async def test_a_follower_that_leaves_the_isr_sends_consumers_back_to_the_leader(
    make_cluster, nursery, autojump_clock
):
    cluster = await brokers_in_racks(make_cluster)
    consumer = Answer(nursery, lambda: cluster[2].fetch(2, max_wait_ms=10_000, **consumer_in("b")))
    assert not await consumer.is_there()
    cluster.cut_off(2)
    cluster.controller.change(isr=(1, 3))
    assert await consumer.is_there()
    assert consumer.result.error is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert (await cluster[2].fetch(0, **consumer_in("b"))).error is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert (await cluster[1].fetch(0, **consumer_in("b"))).preferred_read_replica == -1


async def test_a_consumer_that_waits_at_a_follower_is_told_when_another_leads(
    make_cluster, nursery, autojump_clock
):
    cluster = await brokers_in_racks(make_cluster)
    options = consumer_in("b") | {"current_leader_epoch": cluster.controller.state().leader_epoch}
    consumer = Answer(nursery, lambda: cluster[2].fetch(2, max_wait_ms=10_000, **options))
    assert not await consumer.is_there()
    cluster.controller.elect(3)
    assert await consumer.is_there()
    assert consumer.result.error is ErrorCode.FENCED_LEADER_EPOCH
