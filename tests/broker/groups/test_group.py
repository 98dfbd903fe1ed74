"""Groups: join, sync, heartbeat, leave and silence (KIP-62, KIP-345, KIP-394)."""

from typing import Any

import pytest
import trio
from captured_logs import captured_logs
from kio.schema.errors import ErrorCode

from quorate.broker.groups.group_messages import JoinResult, MemberRef
from quorate.broker.groups.group_state import GroupState
from quorate.broker.groups.offsets_topic import java_hash, partition_of


def state(cluster) -> GroupState:
    group = cluster.groups.group("g1")
    assert group is not None
    result: GroupState = group.state
    return result


def test_a_group_is_where_java_would_put_it() -> None:
    assert java_hash("hello") == 99162322
    assert java_hash("") == 0
    assert java_hash("polygenelubricants") == -(1 << 31)
    assert java_hash("😀") == 1772899
    assert partition_of("polygenelubricants", 50) == 0
    assert partition_of("console-consumer-12345", 50) == abs(java_hash("console-consumer-12345")) % 50


async def test_a_new_member_is_first_given_its_id(cluster, autojump_clock) -> None:
    waiting = cluster.start_join()
    assert waiting.answered
    first = waiting.answers[0]
    assert first.error is ErrorCode.member_id_required
    assert first.member_id.startswith("client-")
    second = await cluster.join(first.member_id)
    assert (second.error, second.generation, second.member_id) == (ErrorCode.none, 1, first.member_id)


async def test_an_old_client_joins_in_one_round(cluster, autojump_clock) -> None:
    joined = await cluster.join(needs_member_id=False)
    assert (joined.error, joined.generation) == (ErrorCode.none, 1)


async def test_members_that_join_within_the_initial_delay_share_the_first_generation(
    cluster, autojump_clock
) -> None:
    began = trio.current_time()
    leader, other = await cluster.stable_pair()
    assert leader.generation == other.generation == 1
    assert {each.member_id for each in leader.members} == {leader.member_id, other.member_id}
    assert other.members == ()
    # The delay was extended once, for the second member.
    assert 3 <= trio.current_time() - began < 7
    assert state(cluster) is GroupState.STABLE


async def test_a_third_member_makes_the_others_join_again(cluster, autojump_clock) -> None:
    leader, other = await cluster.stable_pair()
    third = cluster.start_join(needs_member_id=False)
    assert cluster.groups.heartbeat(cluster.ref(leader)) is ErrorCode.rebalance_in_progress
    again = [cluster.start_join(each.member_id) for each in (leader, other)]
    await third.wait()
    assert [each.answers[0].generation for each in (*again, third)] == [2, 2, 2]
    assert len(again[0].answers[0].members) == 3
    assert cluster.groups.heartbeat(cluster.ref(leader)) is ErrorCode.illegal_generation


async def test_a_member_that_does_not_join_again_in_time_is_out(cluster, autojump_clock) -> None:
    leader, other = await cluster.stable_pair()
    third = cluster.start_join(needs_member_id=False)
    again = cluster.start_join(leader.member_id)
    # It heartbeats all the while, so that only the rebalance timeout can end it.
    for _ in range(12):
        assert not third.answered
        assert cluster.groups.heartbeat(cluster.ref(other)) is ErrorCode.rebalance_in_progress
        await trio.sleep(5)
    await third.wait()
    assert {each.member_id for each in again.answers[0].members} == {
        leader.member_id,
        third.answers[0].member_id,
    }
    assert cluster.groups.heartbeat(cluster.ref(other)) is ErrorCode.unknown_member_id


async def test_a_silent_member_is_removed_after_its_session(cluster, autojump_clock) -> None:
    leader, other = await cluster.stable_pair()
    for _ in range(3):
        await trio.sleep(4)
        error = cluster.groups.heartbeat(cluster.ref(leader))
    assert error is ErrorCode.rebalance_in_progress
    assert cluster.groups.heartbeat(cluster.ref(other)) is ErrorCode.unknown_member_id
    joined = await cluster.join(leader.member_id)
    assert [each.member_id for each in joined.members] == [leader.member_id]


async def test_a_member_that_leaves_makes_room_at_once(cluster, autojump_clock) -> None:
    leader, other = await cluster.stable_pair()
    assert cluster.groups.leave("g1", leader.member_id, None) is ErrorCode.none
    assert cluster.groups.leave("g1", leader.member_id, None) is ErrorCode.unknown_member_id
    joined = await cluster.join(other.member_id)
    assert joined.leader == other.member_id
    assert joined.generation == 2


async def test_a_group_that_everybody_left_is_empty_in_a_new_generation(cluster, autojump_clock) -> None:
    leader, other = await cluster.stable_pair()
    for each in (leader, other):
        cluster.groups.leave("g1", each.member_id, None)
    assert state(cluster) is GroupState.EMPTY
    assert cluster.groups.group("g1").generation == 2
    assert (await cluster.join()).generation == 3


async def test_the_followers_wait_for_the_leaders_assignment(cluster, autojump_clock) -> None:
    joined = await cluster.join(needs_member_id=False)
    second = cluster.start_join(needs_member_id=False)
    again = await cluster.join(joined.member_id)
    assert state(cluster) is GroupState.COMPLETING_REBALANCE
    other: JoinResult = second.answers[0]
    waiting = cluster.start_sync(other)
    assert not waiting.answered
    await cluster.sync(again, {other.member_id: b"yours"})
    assert waiting.answers[0].assignment == b"yours"


async def test_an_assignment_is_answered_only_when_it_is_stored(cluster, autojump_clock) -> None:
    joined = await cluster.join()
    cluster.log.held = []
    waiting = cluster.start_sync(joined, **{joined.member_id: b"a"})
    assert not waiting.answered
    cluster.log.release()
    assert waiting.answers[0].assignment == b"a"
    assert state(cluster) is GroupState.STABLE


@pytest.mark.parametrize("error", [ErrorCode.none, ErrorCode.not_enough_replicas])
async def test_an_assignment_that_is_stored_after_the_next_generation_began_is_not_that_ones(
    cluster, autojump_clock, error: ErrorCode
) -> None:
    joined = await cluster.join()
    cluster.log.held, cluster.log.error = [], error
    first = cluster.start_sync(joined, **{joined.member_id: b"of the first"})
    again = cluster.start_join(joined.member_id, protocols=(("range", b"other topics"),))
    assert first.answers[0].error is ErrorCode.rebalance_in_progress
    second: JoinResult = again.answers[0]
    assert second.generation == 2
    release, cluster.log.held = cluster.log.held, None
    for each in release:
        each()
    await trio.sleep(1)
    assert state(cluster) is GroupState.COMPLETING_REBALANCE
    cluster.log.error = ErrorCode.none
    assert (await cluster.sync(second, {second.member_id: b"of the second"})).assignment == b"of the second"


async def test_an_assignment_that_could_not_be_stored_is_an_error_and_a_new_round(
    cluster, autojump_clock
) -> None:
    joined = await cluster.join()
    cluster.log.error = ErrorCode.not_enough_replicas
    result = await cluster.sync(joined, {joined.member_id: b"a"})
    assert result.error is ErrorCode.coordinator_not_available
    assert state(cluster) is GroupState.PREPARING_REBALANCE


async def test_a_member_that_does_not_sync_is_dropped_after_the_rebalance_timeout(
    cluster, autojump_clock
) -> None:
    joined = await cluster.join(session_ms=300_000)
    await trio.sleep(61)
    assert cluster.groups.heartbeat(cluster.ref(joined)) is ErrorCode.unknown_member_id


async def test_the_protocol_that_all_have_and_most_prefer_is_chosen(cluster, autojump_clock) -> None:
    results: list[JoinResult] = []

    async def take_part(*names: str) -> None:
        results.append(await cluster.join(protocols=tuple((name, name.encode()) for name in names)))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(take_part, "range", "sticky")
        nursery.start_soon(take_part, "sticky", "range")
        nursery.start_soon(take_part, "mine", "sticky", "range")
    assert {each.protocol for each in results} == {"sticky"}
    leader = next(each for each in results if each.members)
    assert {each.metadata for each in leader.members} == {b"sticky"}


async def test_a_member_with_nothing_in_common_is_refused(cluster, autojump_clock) -> None:
    await cluster.stable_pair()
    waiting = cluster.start_join(protocols=(("other", b""),))
    assert waiting.answers[0].error is ErrorCode.inconsistent_group_protocol


async def test_a_session_time_out_of_bounds_is_refused(cluster, autojump_clock) -> None:
    assert cluster.start_join(session_ms=10).answers[0].error is ErrorCode.invalid_session_timeout


async def test_a_static_member_that_comes_back_takes_its_old_place_without_a_rebalance(
    cluster, autojump_clock
) -> None:
    joined = await cluster.join(instance="one", needs_member_id=False)
    await cluster.sync(joined, {joined.member_id: b"a"})
    waiting = cluster.start_join(instance="one")
    back = waiting.answers[0]
    assert (back.error, back.generation) == (ErrorCode.none, 1)
    assert back.member_id != joined.member_id
    assert state(cluster) is GroupState.STABLE
    assert (await cluster.sync(back)).assignment == b"a"
    old = MemberRef(group_id="g1", member_id=joined.member_id, instance_id="one", generation=1)
    assert cluster.groups.heartbeat(old) is ErrorCode.fenced_instance_id


@pytest.mark.parametrize("skips", [False, True])
async def test_a_static_leader_that_comes_back_must_not_assign_anew(
    cluster, skips: bool, autojump_clock
) -> None:
    """It is told so from version 9 on (KIP-814); before, it is not told that it leads."""
    joined = await cluster.join(instance="one", needs_member_id=False)
    await cluster.sync(joined, {joined.member_id: b"a"})
    back = cluster.start_join(instance="one", skips_assignment=skips).answers[0]
    assert back.skip_assignment is skips
    assert back.leader == (back.member_id if skips else joined.member_id)
    assert [each.member_id for each in back.members] == ([back.member_id] if skips else [])
    assert (await cluster.sync(back)).assignment == b"a"
    assert cluster.groups.group("g1").generation == 1


async def test_a_static_follower_that_comes_back_is_told_who_leads(cluster, autojump_clock) -> None:
    results: dict[str, Any] = {}

    async def take_part(instance: str) -> None:
        results[instance] = await cluster.join(instance=instance, needs_member_id=False)

    async with trio.open_nursery() as nursery:
        for instance in ("one", "two"):
            nursery.start_soon(take_part, instance)
    leads, follows = sorted(results, key=lambda each: results[each].member_id != results[each].leader)
    await cluster.sync(results[leads], {results[each].member_id: b"a" for each in results})
    back = cluster.start_join(instance=follows, skips_assignment=True).answers[0]
    assert (back.leader, back.skip_assignment, back.members) == (results[leads].member_id, False, ())


async def test_the_reasons_of_members_are_in_the_log(cluster, autojump_clock) -> None:
    with captured_logs() as lines:
        joined = await cluster.join(reason="a new topic")
        await cluster.sync(joined)
        assert cluster.groups.leave("g1", joined.member_id, None, "x" * 999) is ErrorCode.none
    told = " ".join(map(str, lines))
    assert "(a new topic)" in told
    assert f"({'x' * 255})" in told


async def test_a_repeated_join_of_a_follower_is_answered_from_the_generation_there_is(
    cluster, autojump_clock
) -> None:
    _, other = await cluster.stable_pair()
    assert (await cluster.join(other.member_id)).generation == 1
    assert state(cluster) is GroupState.STABLE
