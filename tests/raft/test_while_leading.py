"""The work of a leader, and reads in one call."""

import pytest
import trio

from quorate.raft.quorum_errors import NotLeaderError, QuorumStoppedError


async def test_the_work_of_a_leader_is_cancelled_when_another_node_leads(autojump_clock, world, nursery):
    leader = await world.start_three()
    followers = await world.followers()
    worked = []

    async def work(quorum):
        async with quorum.while_leading() as epoch:
            worked.append((quorum.node_id, epoch))
            await trio.sleep_forever()
        worked.append("cancelled")

    for quorum in (leader, *followers):
        nursery.start_soon(work, quorum)
    await world.until(lambda: worked)
    await leader.transfer_leadership(followers[0].node_id)
    await world.until(lambda: len(worked) == 3)
    (first, epoch), last = worked[0], worked[-1]
    assert first == leader.node_id
    assert "cancelled" in worked
    (later,) = (each for each in worked[1:] if each != "cancelled")
    assert later[0] == followers[0].node_id and later[1] > epoch, last
    nursery.cancel_scope.cancel()


async def test_the_work_of_a_leader_without_its_majority_is_cancelled(autojump_clock, world):
    leader = await world.start_three()
    others = [quorum.node_id for quorum in await world.followers()]
    with trio.fail_after(60):
        async with leader.while_leading():
            for each in others:
                await world.crash(each)
            await trio.sleep_forever()
    assert leader.leader is None


async def test_errors_of_the_work_pass_and_a_stop_is_raised(autojump_clock, world):
    quorum = await world.start_one()
    with pytest.raises(ZeroDivisionError):
        async with quorum.while_leading():
            raise ZeroDivisionError
    async with quorum.while_leading() as epoch:
        assert epoch == quorum.epoch
    with pytest.raises(QuorumStoppedError), trio.fail_after(60):
        async with quorum.while_leading():
            await world.stop(1)
            await trio.sleep_forever()


async def test_a_read_on_a_follower_sees_what_was_acknowledged_before(autojump_clock, world):
    leader = await world.start_three()
    follower = (await world.followers())[0]
    journal = world.journals[follower.node_id]
    for number in range(20):
        await leader.append([b"%d" % number])
        assert await follower.read(lambda: journal.records[-1]) == b"%d" % number


async def test_a_read_that_no_leader_can_vouch_for_calls_nothing(autojump_clock, world):
    leader = await world.start_three()
    for quorum in await world.followers():
        await world.crash(quorum.node_id)
    with pytest.raises(NotLeaderError):
        await leader.read(lambda: pytest.fail("it read a state that may be old"), timeout_ms=3000)
