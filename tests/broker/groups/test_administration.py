"""Groups are listed, described and deleted, and offsets are deleted."""

from collections.abc import Sequence
from typing import Any

import pytest
import trio
from kio.schema.errors import ErrorCode

from quorate.broker.groups.group_administration import GroupFilter, ListedGroup
from quorate.broker.groups.group_messages import GroupDescription, MemberRef, OffsetToCommit
from quorate.broker.groups.group_records import (
    GroupKey,
    GroupValue,
    OffsetKey,
    OffsetValue,
    group_record,
    offset_record,
)
from quorate.broker.groups.offsets_topic import partition_of
from quorate.kafka_bytes.primitives import Pieces
from quorate.log.batches.records import RecordContent
from quorate.runtime import at_once

ALONE = MemberRef(group_id="g1", member_id="")
EVERYTHING = GroupFilter()


def subscription(*topics: str, version: int = 0) -> bytes:
    """A ConsumerProtocolSubscription, with what later versions put behind the topics."""
    out = Pieces(flexible=False)
    out.int16(version).int32(len(topics))
    for topic in topics:
        out.string(topic)
    out.int32(-1)
    return out.joined() + b"more" * version


async def deleted(cluster, group: str = "g1") -> ErrorCode:
    outcomes: list[ErrorCode] = []
    await cluster.groups.administration.delete(group, outcomes.append)
    (outcome,) = outcomes
    return outcome


async def offsets_deleted(
    cluster, *asked: tuple[str, int], group: str = "g1"
) -> tuple[ErrorCode, list[ErrorCode]]:
    answers: list[tuple[ErrorCode, list[ErrorCode]]] = []

    def reply(whole: ErrorCode, each: Sequence[ErrorCode]) -> None:
        answers.append((whole, list(each)))

    await cluster.groups.administration.delete_offsets(group, asked, reply)
    (answer,) = answers
    return answer


async def consumers(cluster, metadata: bytes, *, protocol_type: str = "consumer") -> Any:
    """One member in a stable group with this subscription."""
    joined = await cluster.join(protocols=(("range", metadata),), protocol_type=protocol_type)
    await cluster.sync(joined, {joined.member_id: b"mine"})
    return joined


async def leave(cluster, *members: Any) -> None:
    for each in members:
        assert cluster.groups.leave("g1", each.member_id, None) is ErrorCode.none
    await trio.testing.wait_all_tasks_blocked()


def bytes_of(cluster, group: str = "g1") -> list[RecordContent]:
    found: list[RecordContent] = cluster.log.partitions.get(partition_of(group, 4), [])
    return found


# Listing


async def test_groups_are_listed_with_their_states_and_types(cluster, autojump_clock) -> None:
    leader, other = await cluster.stable_pair()
    cluster.commit(MemberRef(group_id="simple", member_id=""), 3)
    assert sorted(await cluster.groups.administration.groups(EVERYTHING)) == [
        ListedGroup("g1", "consumer", "Stable", "classic"),
        ListedGroup("simple", "", "Empty", "classic"),
    ]
    await leave(cluster, leader, other)
    listed = await cluster.groups.administration.groups(
        at_once(GroupFilter.steps(states=["EMPTY"], types=["Classic"]))
    )
    assert {each.group_id for each in listed} == {"g1", "simple"}
    assert await cluster.groups.administration.groups(GroupFilter(states={"stable"})) == []


async def test_a_group_that_only_commits_is_listed_after_a_move_too(cluster, autojump_clock) -> None:
    cluster.commit(ALONE, 3)
    await cluster.move()
    assert await cluster.groups.administration.groups(EVERYTHING) == [ListedGroup("g1", "", "Empty")]


async def test_a_refused_join_or_commit_leaves_no_group_behind(cluster, autojump_clock) -> None:
    refused = cluster.start_join(protocols=())
    assert refused.answers[0].error is ErrorCode.inconsistent_group_protocol
    cluster.log.error = ErrorCode.not_enough_replicas
    cluster.commit(MemberRef(group_id="g2", member_id=""), 3)
    assert await cluster.groups.administration.groups(EVERYTHING) == []
    assert cluster.groups.administration.describe("g1") is ErrorCode.group_id_not_found
    assert await deleted(cluster, "g2") is ErrorCode.group_id_not_found


async def test_a_list_without_the_groups_that_are_being_loaded_is_refused(cluster, autojump_clock) -> None:
    await cluster.stable_pair()
    partition = partition_of("other", 4)
    cluster.groups.resign(partition)
    cluster.groups.elect(partition, 5)
    loading = ErrorCode.coordinator_load_in_progress
    assert await cluster.groups.administration.groups(EVERYTHING) is loading
    assert cluster.groups.administration.describe("other") is loading
    assert await deleted(cluster, "other") is loading
    assert await offsets_deleted(cluster, ("t", 0), group="other") == (loading, [])


@pytest.mark.bug("KAFKA-15849")
async def test_a_broker_without_any_offsets_partition_lists_no_groups(cluster, autojump_clock) -> None:
    for partition in range(4):
        cluster.groups.resign(partition)
    assert await cluster.groups.administration.groups(EVERYTHING) == []
    moved = ErrorCode.not_coordinator
    assert cluster.groups.administration.describe("g1") is moved
    assert await deleted(cluster) is moved
    assert await offsets_deleted(cluster, ("t", 0)) == (moved, [])


# Describing


async def test_a_stable_group_shows_its_assignor_subscriptions_and_assignments(
    cluster, autojump_clock
) -> None:
    leader, other = await cluster.stable_pair()
    found = cluster.groups.administration.describe("g1")
    assert (found.state, found.protocol_type, found.protocol) == ("Stable", "consumer", "range")
    assert {(each.member_id, each.metadata, each.assignment) for each in found.members} == {
        (leader.member_id, b"sub", b"one"),
        (other.member_id, b"sub", b"two"),
    }
    assert {(each.instance_id, each.client_id, each.client_host) for each in found.members} == {
        (None, "client", "/127.0.0.1")
    }


async def test_a_rebalancing_group_shows_assignments_alone(cluster, autojump_clock) -> None:
    await cluster.stable_pair()
    cluster.start_join(needs_member_id=False)
    found = cluster.groups.administration.describe("g1")
    assert (found.state, found.protocol) == ("PreparingRebalance", "")
    assert sorted(each.assignment for each in found.members) == [b"", b"one", b"two"]
    assert {each.metadata for each in found.members} == {b""}


async def test_an_unknown_group_is_not_found_and_any_id_may_be_asked_for(cluster, autojump_clock) -> None:
    for group_id in ("", "g1"):
        assert cluster.groups.administration.describe(group_id) is ErrorCode.group_id_not_found
        assert await deleted(cluster, group_id) is ErrorCode.group_id_not_found


# Deleting groups


@pytest.mark.bug("redpanda issue 4900")
async def test_a_deleted_group_and_its_offsets_never_come_back(cluster, autojump_clock) -> None:
    leader, other = await cluster.stable_pair()
    cluster.commit(cluster.ref(leader), 5)
    await leave(cluster, leader, other)
    assert await deleted(cluster) is ErrorCode.none
    for _ in range(2):
        assert cluster.groups.fetch_offset("g1", "t", 0) is None
        assert list(cluster.groups.committed("g1")) == []
        assert cluster.groups.administration.describe("g1") is ErrorCode.group_id_not_found
        assert await deleted(cluster) is ErrorCode.group_id_not_found
        await cluster.move()
    tombstones = {each.key for each in bytes_of(cluster) if each.value is None}
    assert tombstones == {each.key for each in bytes_of(cluster)}


async def test_a_group_with_members_is_not_deleted(cluster, autojump_clock) -> None:
    leader, _ = await cluster.stable_pair()
    cluster.commit(cluster.ref(leader), 5)
    assert await deleted(cluster) is ErrorCode.non_empty_group
    assert cluster.groups.heartbeat(cluster.ref(leader)) is ErrorCode.none
    assert cluster.groups.fetch_offset("g1", "t", 0).offset == 5


async def test_a_deletion_is_answered_only_when_every_replica_in_sync_has_it(cluster, autojump_clock) -> None:
    cluster.commit(ALONE, 5)
    cluster.log.held = []
    outcomes: list[ErrorCode] = []
    await cluster.groups.administration.delete("g1", outcomes.append)
    assert outcomes == []
    # Nobody gets in while the group is half gone.
    dead = ErrorCode.coordinator_not_available
    assert cluster.start_join().answers[0].error is dead
    assert cluster.commit(ALONE, 6).answers == [[dead]]
    assert cluster.groups.administration.describe("g1").state == "Dead"
    assert await deleted(cluster) is ErrorCode.group_id_not_found
    cluster.log.release()
    assert outcomes == [ErrorCode.none]
    assert cluster.commit(ALONE, 7).answers == [[ErrorCode.none]]
    assert cluster.groups.fetch_offset("g1", "t", 0).offset == 7


@pytest.mark.parametrize("backwards", [False, True])
async def test_a_commit_under_way_is_deleted_with_its_group(cluster, backwards: bool, autojump_clock) -> None:
    cluster.commit(ALONE, 1, topic="u")
    cluster.log.held = []
    late = cluster.commit(ALONE, 5)
    outcomes: list[ErrorCode] = []
    await cluster.groups.administration.delete("g1", outcomes.append)
    if backwards:
        cluster.log.held.reverse()
    cluster.log.release()
    assert (late.answers, outcomes) == ([[ErrorCode.none]], [ErrorCode.none])
    for _ in range(2):
        assert list(cluster.groups.committed("g1")) == []
        await cluster.move()


async def test_a_group_whose_deletion_could_not_be_stored_is_still_there(cluster, autojump_clock) -> None:
    leader, other = await cluster.stable_pair()
    cluster.commit(cluster.ref(leader), 5)
    await leave(cluster, leader, other)
    generation = cluster.groups.group("g1").generation
    cluster.log.error = ErrorCode.not_enough_replicas
    assert await deleted(cluster) is ErrorCode.coordinator_not_available
    cluster.log.error = ErrorCode.none
    assert cluster.groups.administration.describe("g1") == GroupDescription(
        state="Empty", protocol_type="consumer", protocol=""
    )
    assert cluster.groups.group("g1").generation == generation
    assert cluster.groups.fetch_offset("g1", "t", 0).offset == 5
    assert await deleted(cluster) is ErrorCode.none


async def test_a_deletion_under_way_when_the_coordinator_moves_is_not_acknowledged_here(
    cluster, autojump_clock
) -> None:
    cluster.commit(ALONE, 5)
    cluster.log.held = []
    outcomes: list[ErrorCode] = []
    await cluster.groups.administration.delete("g1", outcomes.append)
    cluster.groups.resign(partition_of("g1", 4))
    cluster.log.release()
    assert outcomes == [ErrorCode.not_coordinator]


async def test_a_group_of_many_offsets_is_deleted_in_several_batches(cluster, autojump_clock) -> None:
    offsets = [OffsetToCommit(topic="t", partition=each, offset=each) for each in range(1000)]
    cluster.groups.commit(ALONE, offsets, lambda errors: None)
    batches: list[int] = []
    append = cluster.log.append

    def counted(partition: int, records: Sequence[RecordContent], done: Any) -> None:
        batches.append(len(records))
        append(partition, records, done)

    cluster.log.append = counted
    assert await deleted(cluster) is ErrorCode.none
    assert batches == [200] * 5 + [1]
    await cluster.move()
    assert list(cluster.groups.committed("g1")) == []


@pytest.mark.bug("KAFKA-4704")
async def test_the_id_of_a_deleted_group_may_store_offsets_again(cluster, autojump_clock) -> None:
    leader, other = await cluster.stable_pair()
    await leave(cluster, leader, other)
    assert await deleted(cluster) is ErrorCode.none
    assert cluster.commit(ALONE, 8).answers == [[ErrorCode.none]]
    await cluster.move()
    assert cluster.groups.fetch_offset("g1", "t", 0).offset == 8
    assert await cluster.groups.administration.groups(EVERYTHING) == [ListedGroup("g1", "", "Empty")]


@pytest.mark.bug("KAFKA-17306")
async def test_tombstones_of_what_is_not_there_load(cluster, autojump_clock) -> None:
    key = OffsetKey("g1", "t", 0)
    value = OffsetValue(offset=4, commit_timestamp_ms=1)
    group = GroupValue(protocol_type="consumer", generation=3, protocol=None, leader=None)
    cluster.log.partitions[partition_of("g1", 4)] = [
        offset_record(OffsetKey("gone", "t", 0), None),
        group_record(GroupKey("gone"), None),
        offset_record(key, value),
        group_record(GroupKey("g1"), group),
        offset_record(OffsetKey("g1", "t", 1), None),
    ]
    await cluster.move()
    assert cluster.groups.fetch_offset("g1", "t", 0).offset == 4
    assert await cluster.groups.administration.groups(EVERYTHING) == [ListedGroup("g1", "consumer", "Empty")]


# Deleting offsets


async def test_deleted_offsets_never_come_back(cluster, autojump_clock) -> None:
    for topic in ("t", "u"):
        cluster.commit(ALONE, 5, topic=topic)
    assert await offsets_deleted(cluster, ("t", 0)) == (ErrorCode.none, [ErrorCode.none])
    for _ in range(2):
        assert cluster.groups.fetch_offset("g1", "t", 0) is None
        assert cluster.groups.fetch_offset("g1", "u", 0).offset == 5
        await cluster.move()


async def test_an_offset_that_is_not_there_is_deleted_without_a_record(cluster, autojump_clock) -> None:
    cluster.commit(ALONE, 5)
    before = len(bytes_of(cluster))
    assert await offsets_deleted(cluster, ("t", 1), ("v", 0)) == (ErrorCode.none, [ErrorCode.none] * 2)
    assert len(bytes_of(cluster)) == before


@pytest.mark.parametrize("backwards", [False, True])
async def test_a_commit_that_is_older_than_the_deletion_does_not_bring_the_offset_back(
    cluster, backwards: bool, autojump_clock
) -> None:
    cluster.commit(ALONE, 1, topic="u")
    cluster.log.held = []
    cluster.commit(ALONE, 5)
    assert cluster.groups.fetch_offset("g1", "t", 0) is None
    answers: list[Any] = []
    await cluster.groups.administration.delete_offsets("g1", [("t", 0)], lambda *each: answers.append(each))
    later = cluster.commit(ALONE, 9, topic="w")
    assert answers == []
    if backwards:
        cluster.log.held.reverse()
    cluster.log.release()
    assert answers == [(ErrorCode.none, [ErrorCode.none])]
    assert later.answers == [[ErrorCode.none]]
    for _ in range(2):
        assert cluster.groups.fetch_offset("g1", "t", 0) is None
        assert cluster.groups.fetch_offset("g1", "w", 0).offset == 9
        await cluster.move()


async def test_offsets_of_a_subscribed_topic_stay_and_the_others_go(cluster, autojump_clock) -> None:
    joined = await consumers(cluster, subscription("t", "v", version=3))
    for topic in ("t", "u"):
        cluster.commit(cluster.ref(joined), 5, topic=topic)
    subscribed = ErrorCode.group_subscribed_to_topic
    assert await offsets_deleted(cluster, ("t", 0), ("u", 0)) == (
        ErrorCode.none,
        [subscribed, ErrorCode.none],
    )
    assert cluster.groups.fetch_offset("g1", "t", 0).offset == 5
    assert cluster.groups.fetch_offset("g1", "u", 0) is None
    await leave(cluster, joined)
    assert await offsets_deleted(cluster, ("t", 0)) == (ErrorCode.none, [ErrorCode.none])


@pytest.mark.parametrize(
    "metadata", [b"", b"\xff\xff\0\0\0\0", subscription("u")[:-6], b"\0\0\xff\xff\xff\xff"]
)
async def test_a_subscription_that_cannot_be_read_counts_as_all_topics(
    cluster, metadata: bytes, autojump_clock
) -> None:
    joined = await consumers(cluster, metadata)
    cluster.commit(cluster.ref(joined), 5)
    refused = (ErrorCode.none, [ErrorCode.group_subscribed_to_topic])
    assert await offsets_deleted(cluster, ("t", 0)) == refused


async def test_before_the_first_generation_all_topics_count_as_subscribed(cluster, autojump_clock) -> None:
    cluster.commit(ALONE, 5)
    cluster.start_join(needs_member_id=False, protocols=(("range", subscription("u")),))
    refused = (ErrorCode.none, [ErrorCode.group_subscribed_to_topic])
    assert await offsets_deleted(cluster, ("t", 0)) == refused


async def test_members_of_another_protocol_keep_all_offsets(cluster, autojump_clock) -> None:
    joined = await consumers(cluster, b"anything", protocol_type="connect")
    assert await offsets_deleted(cluster, ("t", 0)) == (ErrorCode.non_empty_group, [])
    await leave(cluster, joined)
    assert await offsets_deleted(cluster, ("t", 0)) == (ErrorCode.none, [ErrorCode.none])


async def test_offsets_of_no_group_cannot_be_deleted(cluster, autojump_clock) -> None:
    assert await offsets_deleted(cluster, ("t", 0)) == (ErrorCode.group_id_not_found, [])
    assert await offsets_deleted(cluster, ("t", 0), group="") == (ErrorCode.invalid_group_id, [])


async def test_offsets_whose_deletion_could_not_be_stored_are_still_there(cluster, autojump_clock) -> None:
    cluster.commit(ALONE, 5)
    cluster.log.error = ErrorCode.not_leader_or_follower
    assert (await offsets_deleted(cluster, ("t", 0)))[0] is ErrorCode.not_coordinator
    assert cluster.groups.fetch_offset("g1", "t", 0).offset == 5
