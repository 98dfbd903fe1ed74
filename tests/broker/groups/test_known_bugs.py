"""What went wrong with groups elsewhere."""

import pytest
import trio
import trio.testing
from kio.schema.errors import ErrorCode

from quorate.broker.groups.group import Group
from quorate.broker.groups.group_messages import JoinResult, MemberRef, OffsetToCommit
from quorate.broker.groups.offsets_topic import partition_of
from quorate.broker.settings.group_config import GroupLimits


def group_of(cluster) -> Group:
    group = cluster.groups.group("g1")
    assert group is not None
    return group


async def static_pair(cluster) -> tuple[JoinResult, JoinResult]:
    """The static members `one`, who leads, and `two`, in a stable group."""
    joins = [cluster.start_join(instance=each) for each in ("one", "two")]
    for each in joins:
        await each.wait()
    one, two = (each.answers[0] for each in joins)
    waiting = cluster.start_sync(two)
    await cluster.sync(one, {one.member_id: b"1", two.member_id: b"2"})
    assert waiting.answered
    return one, two


def static_ref(joined: JoinResult, instance: str) -> MemberRef:
    return MemberRef(
        group_id="g1", member_id=joined.member_id, generation=joined.generation, instance_id=instance
    )


@pytest.mark.bug("KAFKA-16148")
async def test_joins_and_syncs_that_wait_are_told_at_once_that_the_coordinator_has_moved(
    cluster, autojump_clock
) -> None:
    joining = [cluster.start_join(needs_member_id=False) for _ in range(3)]
    cluster.groups.resign(partition_of("g1", 4))
    assert [each.answers[0].error for each in joining] == [ErrorCode.not_coordinator] * 3
    joined = [cluster.start_join(group="g2", needs_member_id=False) for _ in range(2)]
    for each in joined:
        await each.wait()
    follower = next(each.answers[0] for each in joined if not each.answers[0].members)
    syncing = cluster.start_sync(follower, group="g2")
    assert not syncing.answered
    cluster.groups.resign(partition_of("g2", 4))
    assert syncing.answers[0].error is ErrorCode.not_coordinator


@pytest.mark.bug("KAFKA-19274")
async def test_a_deleted_and_created_offsets_topic_serves_nothing_of_the_old_one(
    cluster, autojump_clock
) -> None:
    partition = partition_of("g1", 4)
    cluster.groups.elect(partition, 5)
    await trio.testing.wait_all_tasks_blocked()
    leader, _ = await cluster.stable_pair()
    assert cluster.commit(cluster.ref(leader), 7).answers == [[ErrorCode.none]]
    cluster.groups.resign(partition)
    cluster.log.partitions[partition] = []
    cluster.groups.elect(partition, 0)
    await trio.testing.wait_all_tasks_blocked()
    assert cluster.groups.check("g1") is ErrorCode.none
    assert cluster.groups.fetch_offset("g1", "t", 0) is None
    assert cluster.groups.heartbeat(cluster.ref(leader)) is ErrorCode.unknown_member_id


async def test_a_leader_that_others_led_between_loads_what_they_wrote(cluster, autojump_clock) -> None:
    partition, alone = partition_of("g1", 4), MemberRef(group_id="g1", member_id="")
    assert cluster.commit(alone, 7).answers == [[ErrorCode.none]]
    cluster.log.partitions[partition] = []
    cluster.groups.elect(partition, 1)
    await trio.testing.wait_all_tasks_blocked()
    assert cluster.groups.fetch_offset("g1", "t", 0).offset == 7, "elected again with nobody in between"
    cluster.groups.elect(partition, 3)
    await trio.testing.wait_all_tasks_blocked()
    assert cluster.groups.fetch_offset("g1", "t", 0) is None


@pytest.mark.bug("KAFKA-12890")
async def test_a_leader_that_lives_and_never_assigns_is_removed(cluster, autojump_clock) -> None:
    async with trio.open_nursery() as nursery:
        results: list[JoinResult] = []

        async def take_part() -> None:
            results.append(await cluster.join(rebalance_ms=20_000))

        nursery.start_soon(take_part)
        nursery.start_soon(take_part)
    leader = next(each for each in results if each.member_id == each.leader)
    other = next(each for each in results if each is not leader)
    waiting = cluster.start_sync(other)
    for _ in range(9):
        await trio.sleep(2)
        assert cluster.groups.heartbeat(cluster.ref(leader)) is ErrorCode.none
        assert cluster.groups.heartbeat(cluster.ref(other)) is ErrorCode.none
    await trio.sleep(3)
    assert cluster.groups.heartbeat(cluster.ref(leader)) is ErrorCode.unknown_member_id
    assert waiting.answers[0].error is ErrorCode.rebalance_in_progress
    assert (await cluster.join(other.member_id)).leader == other.member_id


@pytest.mark.bug("KAFKA-7610")
async def test_repeated_joins_of_a_client_without_an_id_leave_one_member(cluster, autojump_clock) -> None:
    """Each is a member of its own, and those that nobody speaks for are gone after a session."""
    leader, other = await cluster.stable_pair()
    tries = [cluster.start_join(needs_member_id=False) for _ in range(50)]
    for each in (leader, other):
        cluster.start_join(each.member_id)
    await tries[-1].wait()
    alive = tries[-1].answers[0]
    assert len(list(group_of(cluster).describe().members)) == 52
    for _ in range(5):
        await trio.sleep(4)
        cluster.groups.heartbeat(cluster.ref(alive))
    joined = await cluster.join(alive.member_id)
    assert (joined.error, joined.leader) == (ErrorCode.none, alive.member_id)
    assert [each.member_id for each in joined.members] == [alive.member_id]


@pytest.mark.bug("KAFKA-7909")
async def test_an_id_that_nobody_joins_with_holds_a_round_up_for_one_session(cluster, autojump_clock) -> None:
    leader, other = await cluster.stable_pair()
    unused = cluster.start_join(session_ms=6_000).answers[0]
    assert unused.error is ErrorCode.member_id_required
    began = trio.current_time()
    rejoined = [cluster.start_join(each.member_id) for each in (leader, other)]
    await rejoined[0].wait()
    assert trio.current_time() - began == pytest.approx(6)
    await cluster.sync(rejoined[0].answers[0], {leader.member_id: b"one", other.member_id: b"two"})
    given_back = cluster.start_join().answers[0]
    again = [cluster.start_join(each.member_id) for each in (leader, other)]
    assert not again[0].answered
    assert cluster.groups.leave("g1", given_back.member_id, None) is ErrorCode.none
    assert again[0].answers[0].generation == 3


@pytest.mark.bug("KAFKA-7196")
async def test_the_session_of_a_member_that_is_gone_ends_without_another_round(
    cluster, autojump_clock
) -> None:
    leader, other = await cluster.stable_pair()
    again = cluster.start_join(leader.member_id)
    assert cluster.groups.leave("g1", other.member_id, None) is ErrorCode.none
    joined = again.answers[0]
    await cluster.sync(joined, {joined.member_id: b"all"})
    for _ in range(10):
        await trio.sleep(3)
        assert cluster.groups.heartbeat(cluster.ref(joined)) is ErrorCode.none
    assert group_of(cluster).generation == joined.generation


@pytest.mark.bug("KAFKA-9844")
async def test_no_more_members_than_allowed_join_with_ids_that_were_given_out_at_once(
    cluster, autojump_clock
) -> None:
    cluster._limits = GroupLimits(max_size=2)
    await cluster.move()
    given = [cluster.start_join().answers[0] for _ in range(3)]
    assert [each.error for each in given] == [
        ErrorCode.member_id_required,
        ErrorCode.member_id_required,
        ErrorCode.group_max_size_reached,
    ]
    joins = [cluster.start_join(each.member_id) for each in given[:2]]
    for each in joins:
        await each.wait()
    assert [each.answers[0].error for each in joins] == [ErrorCode.none] * 2
    assert cluster.start_join().answers[0].error is ErrorCode.group_max_size_reached
    leader = next(each.answers[0] for each in joins if each.answers[0].members)
    await cluster.sync(leader, {each.answers[0].member_id: b"x" for each in joins})
    await cluster.move()
    assert [cluster.groups.heartbeat(cluster.ref(each.answers[0])) for each in joins] == [ErrorCode.none] * 2


@pytest.mark.bug("KAFKA-8500")
async def test_the_first_of_two_with_one_instance_id_is_fenced_in_a_rebalance_too(
    cluster, autojump_clock
) -> None:
    first = cluster.start_join(instance="one")
    second = cluster.start_join(instance="one")
    assert first.answers[0].error is ErrorCode.fenced_instance_id
    await second.wait()
    assert [each.instance_id for each in second.answers[0].members] == ["one"]
    old = MemberRef(group_id="g1", member_id=first.answers[0].member_id, generation=1, instance_id="one")
    assert cluster.groups.heartbeat(old) is ErrorCode.fenced_instance_id


@pytest.mark.bug("KAFKA-10284")
async def test_the_new_id_of_a_static_member_outlives_the_coordinator(cluster, autojump_clock) -> None:
    _, two = await static_pair(cluster)
    back = await cluster.join(instance="two")
    await cluster.move()
    assert cluster.groups.heartbeat(static_ref(back, "two")) is ErrorCode.none
    assert cluster.groups.heartbeat(static_ref(two, "two")) is ErrorCode.fenced_instance_id


@pytest.mark.bug("KAFKA-8715")
async def test_a_static_member_that_comes_back_twice_at_once_has_two_ids(cluster, autojump_clock) -> None:
    await static_pair(cluster)
    await cluster.move()
    ids = [(await cluster.join(instance="two")).member_id for _ in range(2)]
    assert len(set(ids)) == 2


@pytest.mark.bug("KAFKA-14009")
async def test_a_static_members_new_rebalance_timeout_counts(cluster, autojump_clock) -> None:
    one, two = await static_pair(cluster)
    back = await cluster.join(instance="two", rebalance_ms=300_000, session_ms=400_000)
    began = trio.current_time()
    again = cluster.start_join(one.member_id, instance="one", session_ms=400_000)
    await again.wait()
    assert trio.current_time() - began == pytest.approx(300)
    assert back.member_id != two.member_id


@pytest.mark.bug("redpanda PR 17260")
async def test_the_leader_epoch_of_a_commit_is_kept_over_a_move(cluster, autojump_clock) -> None:
    alone, answers = MemberRef(group_id="g1", member_id=""), []
    asked = OffsetToCommit(topic="t", partition=0, offset=7, leader_epoch=5, metadata="")
    cluster.groups.commit(alone, [asked], answers.append)
    assert answers == [[ErrorCode.none]]
    await cluster.move()
    assert cluster.groups.fetch_offset("g1", "t", 0).leader_epoch == 5
    ((_, ((_, held),)),) = cluster.groups.committed("g1")
    assert held.leader_epoch == 5


@pytest.mark.bug("redpanda PR 23176")
async def test_a_coordinator_with_a_write_that_hangs_says_at_once_that_another_coordinates(
    cluster, autojump_clock
) -> None:
    leader, _ = await cluster.stable_pair()
    cluster.log.held = []
    hanging = cluster.commit(cluster.ref(leader), 7)
    assert not hanging.answered
    cluster.groups.resign(partition_of("g1", 4))
    assert cluster.groups.check("g1") is ErrorCode.not_coordinator
    assert cluster.groups.heartbeat(cluster.ref(leader)) is ErrorCode.not_coordinator
    assert cluster.commit(cluster.ref(leader), 8).answers == [[ErrorCode.not_coordinator]]
    assert cluster.start_join().answers[0].error is ErrorCode.not_coordinator
    cluster.log.release()
    assert hanging.answers == [[ErrorCode.not_coordinator]]
