"""The leader and the health that a node reports when it hears no other node."""

import threading

import pytest
import trio

from quorate.raft.core.effects import Role
from quorate.raft.leadership import Leadership
from quorate.raft.quorum_errors import NotLeaderError
from tests.raft.conftest import CORE

FETCH_TIMEOUT_S = CORE.fetch_timeout_ms / 1000


async def one_survivor(world, *, kill=True):
    """Three nodes, of which one follower is left."""
    leader = await world.start_three()
    follower, other = await world.followers()
    survivor = follower
    assert survivor.health.healthy, survivor.health
    await world.crash(other.node_id)
    await world.crash(leader.node_id)
    return survivor, leader.node_id


@pytest.mark.slow
async def test_a_survivor_without_a_majority_names_no_leader(autojump_clock, world):
    survivor, _ = await one_survivor(world)
    seen = []

    async def watch(task_status):
        task_status.started()
        async for leadership in survivor.leadership_changes():
            seen.append(leadership)

    async with trio.open_nursery() as nursery:
        await nursery.start(watch)
        await trio.sleep(FETCH_TIMEOUT_S + 0.1)
        nursery.cancel_scope.cancel()
    assert survivor.leader is None
    assert seen[-1] == Leadership(survivor.epoch, None)
    await trio.sleep(20)
    assert survivor.leader is None
    health = survivor.health
    assert not health.healthy
    assert health.leader is None
    assert "was heard for 20" in health.reason, health.reason
    for call in (survivor.append([b"x"], timeout_ms=500), survivor.wait_read_index(timeout_ms=500)):
        with pytest.raises(NotLeaderError, match=r"no leader was heard for 2\d{4} ms") as raised:
            await call
        assert raised.value.leader is None


async def test_waiting_for_a_leader_ends_in_time_and_says_why(autojump_clock, world):
    survivor, _ = await one_survivor(world)
    await trio.sleep(5)
    started = trio.current_time()
    with pytest.raises(NotLeaderError, match="no leader was heard for"):
        await survivor.wait_leader(timeout_ms=300)
    assert trio.current_time() - started == pytest.approx(0.3)


@pytest.mark.slow
async def test_all_is_well_again_when_the_others_are_back(autojump_clock, world):
    survivor, _ = await one_survivor(world)
    await trio.sleep(5)
    assert not survivor.health.healthy
    await world.start(*(node for node in (1, 2, 3) if node != survivor.node_id))
    with trio.fail_after(30):
        leader = await survivor.wait_leader()
    assert survivor.health.healthy
    assert survivor.health.reason is None
    assert survivor.health.leader == leader


async def test_a_leader_that_hears_no_majority_is_not_healthy_before_it_resigns(autojump_clock, world):
    leader = await world.start_three()
    node = leader.node_id
    world.network.partition([f"node-{node}"], [f"node-{each}" for each in (1, 2, 3) if each != node])
    views = []

    async def watch():
        async for leadership in leader.leadership_changes():
            views.append(leadership)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(watch)
        await trio.sleep(FETCH_TIMEOUT_S + 0.05)
        assert leader.role is Role.LEADER, "it has resigned already; look earlier"
        assert leader.leader is None
        assert not leader.is_leader
        assert "no majority of the voters was heard" in leader.health.reason
        # The application's term goes on until then: it can't begin again in the same epoch.
        assert views == [Leadership(leader.epoch, node)]
        epoch = leader.epoch
        world.network.heal()
        with trio.fail_after(5):
            await leader.wait_leader()
        assert leader.health.healthy
        if leader.epoch == epoch:
            assert views == [Leadership(epoch, node)]
        nursery.cancel_scope.cancel()


@pytest.mark.slow
async def test_an_idle_quorum_stays_healthy_on_every_node(autojump_clock, world):
    await world.start_three()
    await world.followers()
    for _ in range(300):
        await trio.sleep(0.1)
        for quorum in world.quorums.values():
            assert quorum.health.healthy, quorum.health


async def test_a_silent_leader_whose_connections_stand_is_not_named(autojump_clock, world):
    """A host that lost power: nothing breaks, nothing comes."""
    leader = await world.start_three()
    follower, other = await world.followers()
    await world.crash(other.node_id)
    await world.crash(leader.node_id, power_loss=True)
    await trio.sleep(FETCH_TIMEOUT_S + 0.1)
    assert follower.leader is None


async def test_after_the_block_a_node_leads_no_more_and_is_not_healthy(autojump_clock, world):
    leader = await world.start_three()
    await world.stop(leader.node_id)
    assert leader.role is not Role.LEADER
    assert leader.leader is None
    assert leader.health.reason == "the node has stopped"


async def test_health_and_staleness_can_be_read_from_another_thread(autojump_clock, world):
    await world.start_three()
    follower = (await world.followers())[0]
    await follower.wait_read_index()
    answers = []

    def ask():
        answers.append((follower.staleness_ms, follower.leader, follower.health, follower.role))

    thread = threading.Thread(target=ask)
    thread.start()
    thread.join()
    assert answers, "it raised"
    assert answers[0][0] is not None
    assert answers[0][2].healthy
