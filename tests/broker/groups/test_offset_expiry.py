"""Committed offsets expire (KIP-211), and those of deleted partitions are deleted."""

import pytest
import trio
import trio.testing
from kio.schema.errors import ErrorCode

from tests.broker.groups.test_administration import ALONE, bytes_of, consumers, leave, subscription

DAY_MS = 24 * 60 * 60_000
WEEK_MS = 7 * DAY_MS
"""The default of `offsets.retention.minutes`."""


def offset_of(cluster, topic: str = "t", partition: int = 0) -> int | None:
    held = cluster.groups.fetch_offset("g1", topic, partition)
    return None if held is None else int(held.offset)


async def after(cluster, ms: int) -> None:
    cluster.clock.ms += ms
    await cluster.groups.expiry.expire()


async def test_a_group_that_only_commits_keeps_an_offset_for_so_long_after_its_commit(
    cluster, autojump_clock
) -> None:
    cluster.commit(ALONE, 5)
    await after(cluster, DAY_MS)
    cluster.commit(ALONE, 6, topic="u")
    await after(cluster, 6 * DAY_MS - 1)
    assert (offset_of(cluster), offset_of(cluster, "u")) == (5, 6)
    await after(cluster, 1)
    assert (offset_of(cluster), offset_of(cluster, "u")) == (None, 6)
    await cluster.move()
    assert (offset_of(cluster), offset_of(cluster, "u")) == (None, 6), "the tombstone is in the log"
    await after(cluster, DAY_MS)
    assert offset_of(cluster, "u") is None
    assert cluster.groups.administration.describe("g1") is ErrorCode.group_id_not_found


@pytest.mark.bug("KAFKA-10401")
async def test_an_empty_group_keeps_its_offsets_for_so_long_after_it_became_empty(
    cluster, autojump_clock
) -> None:
    joined = await consumers(cluster, subscription("t"))
    cluster.commit(cluster.ref(joined), 5)
    cluster.clock.ms += 30 * DAY_MS
    await leave(cluster, joined)
    await after(cluster, 6 * DAY_MS)
    await cluster.move()
    assert offset_of(cluster) == 5
    await after(cluster, DAY_MS - 1)
    assert offset_of(cluster) == 5, "the move of the coordinator began another week, or ended this one"
    await after(cluster, 1)
    assert offset_of(cluster) is None


async def test_a_group_that_has_nothing_left_is_deleted(cluster, autojump_clock) -> None:
    joined = await consumers(cluster, subscription("t"))
    cluster.commit(cluster.ref(joined), 5)
    await leave(cluster, joined)
    await after(cluster, WEEK_MS)
    for _ in range(2):
        assert cluster.groups.administration.describe("g1") is ErrorCode.group_id_not_found
        await cluster.move()
    newest = {record.key: record.value for record in bytes_of(cluster)}
    assert set(newest.values()) == {None}


@pytest.mark.bug("KAFKA-13636")
async def test_nothing_expires_while_a_group_rebalances(cluster, autojump_clock) -> None:
    joined = await consumers(cluster, subscription("t"))
    cluster.commit(cluster.ref(joined), 5, topic="old")
    cluster.start_join(needs_member_id=False, protocols=(("range", subscription("t")),))
    await after(cluster, 2 * WEEK_MS)
    assert offset_of(cluster, "old") == 5


async def test_a_stable_group_keeps_the_offsets_of_the_topics_that_it_subscribes_to(
    cluster, autojump_clock
) -> None:
    joined = await consumers(cluster, subscription("t"))
    for topic in ("t", "old"):
        cluster.commit(cluster.ref(joined), 5, topic=topic)
    await after(cluster, WEEK_MS)
    assert (offset_of(cluster), offset_of(cluster, "old")) == (5, None)


@pytest.mark.parametrize(
    ("metadata", "protocol_type"), [(b"\x00", "consumer"), (subscription("t"), "connect")]
)
async def test_a_stable_group_whose_subscriptions_nobody_can_read_keeps_everything(
    cluster, autojump_clock, metadata: bytes, protocol_type: str
) -> None:
    joined = await consumers(cluster, metadata, protocol_type=protocol_type)
    cluster.commit(cluster.ref(joined), 5, topic="old")
    await after(cluster, 2 * WEEK_MS)
    assert offset_of(cluster, "old") == 5


@pytest.mark.bug("KAFKA-8069")
async def test_a_loaded_commit_is_kept_for_its_whole_time(cluster, autojump_clock) -> None:
    cluster.commit(ALONE, 5)
    await cluster.move()
    await after(cluster, WEEK_MS - 1)
    assert offset_of(cluster) == 5
    await after(cluster, 1)
    assert offset_of(cluster) is None


async def test_a_commit_under_way_is_not_expired(cluster, autojump_clock) -> None:
    cluster.commit(ALONE, 5)
    cluster.clock.ms += WEEK_MS
    cluster.log.held = []
    cluster.commit(ALONE, 6)
    await cluster.groups.expiry.expire()
    cluster.log.release()
    assert offset_of(cluster) == 6
    await cluster.move()
    assert offset_of(cluster) == 6


@pytest.mark.bug("KAFKA-4472")
async def test_offsets_are_looked_at_every_ten_minutes_by_themselves(cluster, autojump_clock) -> None:
    """The default retention is over 2^31 / 1000 seconds / 4: no number of ms wraps."""
    cluster.commit(ALONE, 5)
    await trio.sleep(601)
    assert offset_of(cluster) == 5
    cluster.clock.ms += WEEK_MS
    await trio.sleep(601)
    assert offset_of(cluster) is None


async def test_offsets_that_could_not_be_deleted_expire_the_next_time(cluster, autojump_clock) -> None:
    cluster.commit(ALONE, 5)
    cluster.log.error = ErrorCode.not_enough_replicas
    await after(cluster, WEEK_MS)
    assert offset_of(cluster) == 5
    cluster.log.error = ErrorCode.none
    await after(cluster, 0)
    assert offset_of(cluster) is None


# Deleted partitions


@pytest.mark.bug("KAFKA-16168")
async def test_offsets_of_deleted_partitions_are_not_those_of_their_namesakes(
    cluster, autojump_clock
) -> None:
    joined = await consumers(cluster, subscription("t"))
    ref = cluster.ref(joined)
    for topic, partition in (("t", 0), ("t", 1), ("u", 0)):
        cluster.commit(ref, 500, topic=topic, partition=partition)
    cluster.groups.expiry.partition_deleted("t", 0)
    cluster.clock.ms += 1
    cluster.commit(ref, 7, topic="t", partition=0)
    cluster.groups.expiry.partition_deleted("u", 0)
    await trio.testing.wait_all_tasks_blocked()
    for _ in range(2):
        assert offset_of(cluster, "t", 0) == 7, "that is the namesake's"
        assert offset_of(cluster, "t", 1) == 500
        assert offset_of(cluster, "u", 0) is None
        await cluster.move()


async def test_a_commit_under_way_goes_with_its_partition(cluster, autojump_clock) -> None:
    cluster.log.held = []
    cluster.commit(ALONE, 5)
    cluster.groups.expiry.partition_deleted("t", 0)
    await trio.testing.wait_all_tasks_blocked()
    cluster.log.release()
    await trio.testing.wait_all_tasks_blocked()
    assert offset_of(cluster) is None


@pytest.mark.parametrize("hindrance", ["loading", "not stored"])
async def test_a_deletion_that_finds_its_groups_away_is_done_when_they_are_back(
    cluster, autojump_clock, hindrance: str
) -> None:
    cluster.commit(ALONE, 5)
    if hindrance == "loading":
        for partition in range(4):
            cluster.groups.resign(partition)
            cluster.groups.elect(partition, 2)
    else:
        cluster.log.error = ErrorCode.not_enough_replicas
    cluster.groups.expiry.partition_deleted("t", 0)
    await trio.sleep(3)
    cluster.log.error = ErrorCode.none
    await trio.sleep(3)
    assert offset_of(cluster) is None


async def test_a_coordinator_that_was_not_there_when_a_partition_was_deleted_removes_its_offsets(
    cluster, autojump_clock
) -> None:
    cluster.commit(ALONE, 5)
    cluster.commit(ALONE, 6, partition=1)
    cluster.missing.add(("t", 0))
    await cluster.move()
    assert (offset_of(cluster), offset_of(cluster, "t", 1)) == (None, 6)
    cluster.missing.clear()
    await cluster.move()
    assert (offset_of(cluster), offset_of(cluster, "t", 1)) == (None, 6)
