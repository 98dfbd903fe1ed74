"""Offsets, and groups that outlive their coordinator."""

import trio
from kio.schema.errors import ErrorCode

from quorate.broker.groups.group_messages import CommittedOffset, MemberRef
from quorate.broker.groups.group_state import GroupState
from quorate.broker.groups.offsets_topic import partition_of


async def test_members_need_not_join_again_when_the_coordinator_moves(cluster, autojump_clock) -> None:
    leader, other = await cluster.stable_pair()
    await cluster.move()
    for each in (leader, other):
        assert cluster.groups.heartbeat(cluster.ref(each)) is ErrorCode.none
    assert (await cluster.sync(other)).assignment == b"two"
    assert cluster.groups.group("g1").state is GroupState.STABLE
    # Their sessions begin when the new coordinator is ready, and end as ever.
    await trio.sleep(11)
    assert cluster.groups.heartbeat(cluster.ref(leader)) is ErrorCode.unknown_member_id


async def test_committed_offsets_survive_a_move_and_the_latest_wins(cluster, autojump_clock) -> None:
    leader, _ = await cluster.stable_pair()
    for offset in (5, 7):
        assert cluster.commit(cluster.ref(leader), offset, metadata="m").answers == [[ErrorCode.none]]
    expected = CommittedOffset(offset=7, leader_epoch=-1, metadata="m")
    assert cluster.groups.fetch_offset("g1", "t", 0) == expected
    await cluster.move()
    assert cluster.groups.fetch_offset("g1", "t", 0) == expected
    assert list(cluster.groups.committed("g1")) == [("t", [(0, expected)])]
    assert cluster.groups.fetch_offset("g1", "t", 1) is None


async def test_a_commit_is_answered_only_when_every_replica_in_sync_has_it(cluster, autojump_clock) -> None:
    leader, _ = await cluster.stable_pair()
    cluster.log.held = []
    waiting = cluster.commit(cluster.ref(leader), 5)
    assert not waiting.answered
    assert cluster.groups.fetch_offset("g1", "t", 0) is None
    cluster.log.release()
    assert waiting.answers == [[ErrorCode.none]]


async def test_commits_that_are_answered_out_of_order_leave_the_later_offset(cluster, autojump_clock) -> None:
    leader, _ = await cluster.stable_pair()
    cluster.log.held = []
    for offset in (5, 7):
        cluster.commit(cluster.ref(leader), offset)
    cluster.log.held.reverse()
    cluster.log.release()
    assert cluster.groups.fetch_offset("g1", "t", 0).offset == 7


async def test_a_commit_from_another_generation_is_refused(cluster, autojump_clock) -> None:
    leader, _ = await cluster.stable_pair()
    old = cluster.ref(leader, generation=0)
    assert cluster.commit(old, 5).answers == [[ErrorCode.illegal_generation]]
    unknown_member = MemberRef(group_id="g1", member_id="x", generation=1)
    assert cluster.commit(unknown_member, 5).answers == [[ErrorCode.unknown_member_id]]


async def test_a_consumer_that_assigns_its_partitions_itself_may_commit(cluster, autojump_clock) -> None:
    alone = MemberRef(group_id="g2", member_id="")
    assert cluster.commit(alone, 3).answers == [[ErrorCode.none]]
    await cluster.stable_pair()
    intruder = MemberRef(group_id="g1", member_id="")
    assert cluster.commit(intruder, 3).answers == [[ErrorCode.unknown_member_id]]


async def test_metadata_that_is_too_long_is_refused_alone(cluster, autojump_clock) -> None:
    alone = MemberRef(group_id="g2", member_id="")
    assert cluster.commit(alone, 3, metadata="x" * 5000).answers == [[ErrorCode.offset_metadata_too_large]]


async def test_waiting_members_are_answered_when_the_coordinator_moves(cluster, autojump_clock) -> None:
    leader, _ = await cluster.stable_pair()
    waiting = cluster.start_join(needs_member_id=False)
    groups = cluster.groups
    groups.resign(partition_of("g1", 4))
    assert waiting.answers[0].error is ErrorCode.not_coordinator
    assert groups.heartbeat(cluster.ref(leader)) is ErrorCode.not_coordinator
    assert groups.check("g1") is ErrorCode.not_coordinator


async def test_a_commit_under_way_when_the_coordinator_moves_is_not_acknowledged_here(
    cluster, autojump_clock
) -> None:
    leader, _ = await cluster.stable_pair()
    cluster.log.held = []
    waiting = cluster.commit(cluster.ref(leader), 5)
    cluster.groups.resign(partition_of("g1", 4))
    cluster.log.release()
    assert waiting.answers == [[ErrorCode.not_coordinator]]


async def test_a_group_that_is_being_loaded_says_so(cluster, autojump_clock) -> None:
    leader, _ = await cluster.stable_pair()
    partition = partition_of("g1", 4)
    cluster.groups.resign(partition)
    cluster.groups.elect(partition, 5)
    assert cluster.groups.check("g1") is ErrorCode.coordinator_load_in_progress
    assert cluster.start_join().answers[0].error is ErrorCode.coordinator_load_in_progress
    await cluster.loaded()
    assert cluster.groups.heartbeat(cluster.ref(leader)) is ErrorCode.none


async def test_being_elected_again_keeps_the_group_and_a_gap_loads_it_anew(cluster, autojump_clock) -> None:
    waiting = cluster.start_join(needs_member_id=False)
    partition = partition_of("g1", 4)
    cluster.groups.elect(partition, 1)
    assert not waiting.answered
    # Somebody else led in epoch 2.
    cluster.groups.elect(partition, 3)
    assert waiting.answers[0].error is ErrorCode.not_coordinator
