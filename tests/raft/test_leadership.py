"""The leader, as the application may know it, and the leader's knowledge of its replicas."""

from types import SimpleNamespace
from typing import Any

import pytest
import trio

from quorate.raft.core.effects import Role, RoleChanged
from quorate.raft.core.messages import FetchRequest
from quorate.raft.leadership import Announcer, Leadership, LeadershipView
from quorate.raft.quorum_description import ReplicaTimes
from quorate.raft.quorum_errors import OutcomeUnknownError, QuorumError, QuorumStoppedError
from quorate.types import Endpoint, Epoch, NodeId, Offset, ReplicaKey, Voter, VoterSet
from tests.raft.conftest import CORE


def announcer():
    view = LeadershipView()
    return Announcer(1, view, on_leader=lambda epoch, leader: None), view


@pytest.mark.bug("KAFKA-15345")
def test_a_leader_is_announced_only_when_it_has_applied_past_its_epochs_start():
    announce, view = announcer()
    announce.note_applied(5)
    announce.note_role(RoleChanged(Role.LEADER, 4, 1, 1, epoch_start_offset=7))
    assert (view.role, view.current) == (Role.LEADER, Leadership(4, None))
    announce.note_applied(7)
    assert view.current.leader is None
    announce.note_applied(8)
    assert view.current == Leadership(4, 1)


def test_another_leader_is_known_at_once_and_a_resigned_one_is_none():
    announce, view = announcer()
    announce.note_role(RoleChanged(Role.FOLLOWER, 4, 2, None))
    assert view.current == Leadership(4, 2)
    announce.note_role(RoleChanged(Role.RESIGNED, 4, 2, None))
    assert view.current == Leadership(4, None)


async def test_a_slow_reader_sees_the_latest_and_hears_of_the_end():
    view = LeadershipView()
    seen = []
    for epoch in (1, 2):
        view.set(Role.FOLLOWER, Leadership(epoch, 2))
    with pytest.raises(QuorumStoppedError, match="over"):
        while True:
            seen.append(await view.wait_other(seen[-1] if seen else None))
            if len(seen) == 1:
                view.set(Role.FOLLOWER, Leadership(3, 2))
                view.set(Role.FOLLOWER, Leadership(4, 3))
            else:
                view.stop(QuorumStoppedError("over"))
    assert seen == [Leadership(2, 2), Leadership(4, 3), Leadership(4, None)]


async def test_a_leader_that_says_so_has_applied_what_earlier_epochs_committed(autojump_clock, world):
    await world.start(1, 2, 3)
    for round_ in range(5):
        leader = await world.leader()
        appended = await leader.append([b"%d" % round_])
        leader.resign()
        with trio.fail_after(30):
            while True:
                serving = [q for q in world.quorums.values() if q.is_leader and q.epoch > appended.epoch]
                if serving:
                    break
                await trio.sleep(0.001)
        assert b"%d" % round_ in world.journals[serving[0].node_id].records


@pytest.mark.slow
@pytest.mark.bug("KAFKA-17333")
async def test_a_leader_that_restarts_says_it_leads_only_when_it_was_elected_and_is_current(
    autojump_clock, world, nursery
):
    leader = await world.start_three()
    node = leader.node_id
    appended = await leader.append([b"kept"])
    for each in (1, 2, 3):
        await world.crash(each)
    await world.start(node)
    restarted = world.quorums[node]
    seen = []

    async def watch():
        async for leadership in restarted.leadership_changes():
            seen.append((leadership.leader, leadership.epoch, list(world.journals[node].records)))

    nursery.start_soon(watch)
    await trio.sleep(10)
    assert {leader for leader, _, _ in seen} == {None}, "alone, it resigned and was not elected"
    other = next(each for each in (1, 2, 3) if each != node)
    await world.start(other)
    leader = await world.leader()
    leader = leader if leader is restarted else await _led_by(world, leader, node)
    named = [(epoch, records) for leader, epoch, records in seen if leader == node]
    assert named
    assert all(epoch > appended.epoch and records == [b"kept"] for epoch, records in named)
    nursery.cancel_scope.cancel()


async def _led_by(world, leader, node):
    while leader.node_id != node:
        await leader.transfer_leadership(node)
        leader = await world.leader()
    return leader


async def test_a_leader_knows_when_it_heard_its_predecessor_last(autojump_clock, world):
    old = await world.start_three()
    assert old.predecessor is None, "it is the first leader"
    await world.followers()
    await trio.sleep(1)
    died_at = trio.current_time()
    await world.crash(old.node_id)
    new = await world.leader()
    heard = new.predecessor
    assert heard is not None
    assert heard.node == old.node_id
    assert died_at <= heard.heard_at < died_at + 0.01, "its end closed the connection"


async def test_a_leader_that_is_cut_off_was_heard_last_when_it_answered(autojump_clock, world):
    old = await world.start_three()
    others = await world.followers()
    await trio.sleep(1)
    died_at = trio.current_time()
    names = [world.hosts[each.node_id].name for each in (old, *others)]
    for other in names[1:]:
        world.network.block(names[0], other)
        world.network.block(other, names[0])
    await world.until(lambda: any(each.is_leader for each in others))
    heard = next(each for each in others if each.is_leader).predecessor
    assert heard is not None
    assert heard.node == old.node_id
    assert died_at - CORE.fetch_max_wait_ms / 1000 - 0.05 < heard.heard_at <= died_at


async def test_a_leader_that_leads_again_has_no_predecessor(autojump_clock, world):
    """The leader that it followed long ago may have followed it since."""
    old = await world.start_three()
    new, other = await world.followers()
    await world.crash(old.node_id)
    leader = await world.leader()
    new, other = (new, other) if leader is new else (other, new)
    assert new.predecessor is not None
    await new.append([b"missing on the old leader, so it can't be elected"])
    epoch = new.epoch
    await world.crash(other.node_id)
    await world.until(lambda: new.role is not Role.LEADER)
    await world.start(old.node_id)
    await world.until(lambda: new.is_leader)
    assert new.epoch > epoch
    assert new.predecessor is None


async def test_a_leader_that_is_known_from_the_disk_only_was_not_heard(autojump_clock, world):
    old = await world.start_three()
    others = [each.node_id for each in await world.followers()]
    for each in (1, 2, 3):
        await world.crash(each)
    await world.start(*others)
    new = await world.leader()
    assert new.epoch > old.epoch
    assert new.predecessor is None


@pytest.mark.bug("KAFKA-16286")
async def test_a_late_listener_gets_the_present_leader_at_once(autojump_clock, world):
    """A listener that came after the last change heard nothing."""
    leader = await world.start_three()
    for follower in await world.followers():
        await trio.sleep(5)
        changes = follower.leadership_changes()
        with trio.fail_after(0.001):
            first = await anext(changes)
        assert first == Leadership(leader.epoch, leader.node_id)
        await changes.aclose()


async def test_describe_tells_when_each_voter_fetched_and_was_caught_up(autojump_clock, world):
    leader = await world.start_three()
    followers = await world.followers()
    await leader.append([b"x"])
    await trio.sleep(1)
    now = world.hosts[leader.node_id].wall_clock.now_ms()
    description = leader.describe()
    assert (description.leader, description.epoch) == (leader.node_id, leader.epoch)
    assert description.high_watermark == leader.log.end_offset
    assert [status.key.id for status in description.voters] == [1, 2, 3]
    for status in description.voters:
        assert status.log_end_offset == leader.log.end_offset
        assert now - 200 <= status.last_fetch_ms <= now
        assert now - 200 <= status.last_caught_up_ms <= now
    lagging = followers[0].node_id
    await world.stop(lagging)
    await leader.append([b"y"])
    await trio.sleep(2)
    status = next(each for each in leader.describe().voters if each.key.id == lagging)
    later = world.hosts[leader.node_id].wall_clock.now_ms()
    assert status.last_fetch_ms <= later - 2000
    assert status.log_end_offset < leader.log.end_offset


async def test_a_voter_of_the_configuration_is_described_with_the_directory_that_it_fetches_from(
    autojump_clock, world
):
    leader = await world.start_three()
    assert [voter.key.directory_id for voter in leader.voters] == [None] * 3

    async def shows_the_directories() -> bool:
        await trio.sleep(1)
        keys = [world.quorums[node]._node.key for node in (1, 2, 3)]
        return [status.key for status in leader.describe().voters] == keys

    assert await shows_the_directories()
    replaced = next(node for node in (1, 2, 3) if node != leader.node_id)
    await world.stop(replaced)
    world.replace_disk(replaced)
    await world.start(replaced)
    assert await shows_the_directories()


async def test_a_voter_of_the_configuration_that_has_not_fetched_is_described_without_a_directory(
    autojump_clock, world
):
    await world.start(1, 2)
    leader = await world.leader()
    await trio.sleep(1)
    assert [status.key.directory_id is None for status in leader.describe().voters] == [False, False, True]


@pytest.mark.slow
@pytest.mark.long
async def test_an_observer_is_described_until_it_has_been_silent_for_five_minutes(autojump_clock, world):
    leader = await world.start_three()
    await world.start(4)
    observer = world.quorums[4]
    await observer.wait_leader()
    appended = await observer.append([b"by an observer"])
    assert appended.results == (14,)
    (status,) = leader.describe().observers
    assert status.key.id == 4
    assert status.last_caught_up_ms is not None
    await world.stop(4)
    await trio.sleep(290)
    assert len(leader.describe().observers) == 1
    await trio.sleep(20)
    assert leader.describe().observers == ()


async def test_a_broken_connection_makes_a_forwarded_append_unknown_and_the_next_one_works(
    autojump_clock, world, nursery
):
    leader = await world.start_three()
    follower = (await world.followers())[0]
    await follower.append([b"opens the connection"])
    outcomes = []

    async def append():
        try:
            outcomes.append(await follower.append([b"x"]))
        except QuorumError as error:
            outcomes.append(error)

    for other in await world.followers():
        world.network.block(f"node-{leader.node_id}", f"node-{other.node_id}")
    nursery.start_soon(append)
    await trio.sleep(0.1)
    for other in await world.followers():
        world.network.cut(f"node-{leader.node_id}", f"node-{other.node_id}")
    world.network.heal()
    await trio.sleep(1)
    assert isinstance(outcomes[0], OutcomeUnknownError)
    with trio.fail_after(10):
        await follower.append([b"y"])


@pytest.mark.slow
async def test_appends_by_way_of_a_follower_survive_changes_of_leader_without_being_told_not_leader(
    autojump_clock, world
):
    await world.start(1, 2, 3)
    done = []
    for number in range(30):
        if number % 10 == 5:
            (await world.leader()).resign()
        try:
            done.append((await world.quorums[number % 3 + 1].append([b"%d" % number])).base_offset)
        except OutcomeUnknownError:
            done.append(None)
    offsets = [offset for offset in done if offset is not None]
    assert offsets == sorted(offsets)
    assert len(offsets) >= 24


@pytest.mark.slow
async def test_results_of_forwarded_appends_are_not_kept_longer_than_asked_for(autojump_clock, world):
    await world.start(1, 2, 3)
    follower = (await world.followers())[0]
    forwarder = follower._node.forwarder
    largest = 0

    async def client():
        nonlocal largest
        for _ in range(100):
            await follower.append([b"x"])
            largest = max(largest, len(forwarder._results))

    with trio.fail_after(60):
        async with trio.open_nursery() as clients:
            for _ in range(4):
                clients.start_soon(client)
    assert largest <= 30
    assert forwarder._results == {}


async def test_election_and_commit_figures_reach_the_telemetry_once(autojump_clock, world):
    class Telemetry:
        def __init__(self):
            self.elections, self.commits, self.appended = [], 0, 0

        def __getattr__(self, name):
            return lambda *arguments, **named: None

        def election_finished(self, seconds):
            self.elections.append(seconds)

        def committed(self, seconds, records):
            assert 0 < seconds < 1
            self.commits += records

        def records_appended(self, count):
            self.appended += count

    for node in (1, 2, 3):
        world.telemetries[node] = Telemetry()
    leader = await world.start_three()
    for number in range(20):
        await leader.append([b"%d" % number, b"more"])
    telemetry = world.telemetries[leader.node_id]
    assert telemetry.commits == 40
    assert telemetry.appended == 41
    assert len(telemetry.elections) == 1
    assert 0 < telemetry.elections[0] < 2


async def test_a_first_request_to_a_leader_that_is_cut_off_does_not_keep_the_next_leader_waiting(
    world, autojump_clock
):
    """The operating system tries for two minutes to connect to a host that answers nothing."""
    old = await world.start_three()
    follower = (await world.followers())[0]
    world.network.partition(
        [f"node-{old.node_id}"], [f"node-{node}" for node in (1, 2, 3) if node != old.node_id]
    )
    with trio.fail_after(10):
        appended = await follower.append([b"by way of another leader"], timeout_ms=9000)
    assert appended.epoch > old.epoch


def test_a_voters_node_with_another_directory_is_described_beside_the_voter() -> None:
    voter, newer = (
        ReplicaKey(NodeId(2), "AAAAAAAAAAAAAAAAAAAAAQ"),
        ReplicaKey(NodeId(2), "AAAAAAAAAAAAAAAAAAAAAg"),
    )
    own = ReplicaKey(NodeId(1), "AAAAAAAAAAAAAAAAAAAAAw")
    core: Any = SimpleNamespace(
        role=Role.LEADER,
        epoch=Epoch(1),
        node_id=NodeId(1),
        log_end_epoch=Epoch(1),
        log_end_offset=Offset(9),
        high_watermark=Offset(9),
        voters=VoterSet(tuple(Voter(each, Endpoint("h", 1)) for each in (own, voter))),
        replica_end_offsets=lambda: {voter: Offset(7)},
    )
    times = ReplicaTimes()
    for key in (voter, newer):
        request = FetchRequest(
            source=NodeId(2), destination=NodeId(1), correlation=1, cluster_id="c",
            replica=key, epoch=Epoch(1), offset=Offset(9),
            last_fetched_epoch=Epoch(1), max_wait_ms=1, max_bytes=1, high_watermark=None,
        )  # fmt: skip
        assert times.note_fetch(request, core, now_ms=5)
    described = times.describe(core, own, now_ms=6)
    assert [each.key for each in described.voters] == [own, voter]
    assert [each.key for each in described.observers] == [newer]
