"""Failures of many kinds: nothing hangs, and every waiter learns the outcome."""

import json
import random

import pytest
import trio

from quorate.raft.quorum import Quorum
from quorate.raft.quorum_errors import (
    NotLeaderError,
    OutcomeUnknownError,
    QuorumBusyError,
    QuorumConfigError,
    QuorumError,
    QuorumStoppedError,
    StateMachineError,
)
from quorate.raft.storage.storage import format_folder
from quorate.runtime.disk import DiskError, DiskLockedError
from quorate.simulation.world.simulated_disk import DiskOperation
from tests.raft.conftest import Journal

CLUSTER_ID = "driver-tests"


async def outcome_of(function, *arguments):
    with trio.fail_after(30):
        try:
            return await function(*arguments)
        except QuorumError as error:
            return error


@pytest.mark.bug("KAFKA-10778")
async def test_a_failed_sync_stops_the_node_and_every_waiter_gets_the_reason(autojump_clock, world, nursery):
    leader = await world.start_three()
    node = leader.node_id
    outcomes = []

    async def collect(function, *arguments):
        outcomes.append(await outcome_of(function, *arguments))

    async def watch():
        async for _ in leader.leadership_changes():
            pass

    world.hosts[node].disk.fail(DiskOperation.SYNC, path_part=".log")
    for task in (
        (leader.append, [b"x"]),
        (leader.append, [b"y"]),
        (leader.wait_applied, leader.applied_offset + 100),
        (watch,),
    ):
        nursery.start_soon(collect, *task)
    started = trio.current_time()
    await world.ended[node].wait()
    await trio.testing.wait_all_tasks_blocked()
    assert trio.current_time() - started < 0.1
    failure = world.failures.pop(node)
    assert isinstance(failure, QuorumStoppedError)
    assert isinstance(failure.__cause__, DiskError)
    assert len(outcomes) == 4
    kinds = sorted(type(outcome).__name__ for outcome in outcomes)
    assert kinds == ["OutcomeUnknownError"] * 2 + ["QuorumStoppedError"] * 2, "the appends are in the log"
    assert all(isinstance(outcome.__cause__, DiskError) for outcome in outcomes)
    for call in ((leader.append, [b"late"]), (leader.wait_leader,), (leader.wait_applied, 10**6)):
        assert isinstance(await outcome_of(*call), QuorumStoppedError)
    assert not leader.is_leader


async def test_a_failed_quorum_state_write_stops_the_node(autojump_clock, world):
    leader = await world.start_three()
    followers = await world.followers()
    world.hosts[followers[0].node_id].disk.fail(DiskOperation.SYNC, path_part="quorum-state")
    leader.resign()
    await world.ended[followers[0].node_id].wait()
    assert isinstance(world.failures.pop(followers[0].node_id).__cause__, DiskError)


@pytest.mark.bug("nats-server issue 3870")
async def test_a_failed_truncation_stops_the_node_before_anything_is_appended_behind_it(
    autojump_clock, world
):
    """nats-server went on, at an index that was not the leader's."""
    old = await world.start_three()
    node = old.node_id
    others = [each for each in (1, 2, 3) if each != node]
    await old.append([b"kept"])
    world.network.partition([f"node-{node}"], [f"node-{each}" for each in others])
    old.append_nowait([b"only here"])
    await world.until(lambda: any(world.quorums[each].is_leader for each in others))
    new = next(world.quorums[each] for each in others if world.quorums[each].is_leader)
    await new.append([b"in its place"])
    before = old.log.end_offset
    world.hosts[node].disk.fail(DiskOperation.TRUNCATE, path_part=".log")
    world.network.heal()
    with trio.fail_after(30):
        await world.ended[node].wait()
    assert isinstance(world.failures.pop(node).__cause__, DiskError)
    assert old.log.end_offset <= before
    del world.quorums[node]
    await world.start(node)
    await world.quorums[node].wait_read_index()
    for each in (1, 2, 3):
        await world.until(lambda each=each: world.journals[each].records == [b"kept", b"in its place"])


@pytest.mark.bug("KAFKA-14275")
@pytest.mark.bug("KAFKA-14203")
async def test_a_raising_state_machine_stops_each_node_at_its_offset(autojump_clock, world):
    leader = await world.start_three()
    base = (await leader.append([b"fine"])).base_offset
    outcome = await outcome_of(leader.append, [b"poison"])
    assert isinstance(outcome, OutcomeUnknownError), "it is in the log, and committed"
    assert isinstance(outcome.__cause__, StateMachineError)
    for node in (1, 2, 3):
        with trio.fail_after(10):
            await world.ended[node].wait()
        cause = world.failures.pop(node).__cause__
        assert isinstance(cause, StateMachineError)
        assert cause.offset == base + 1
        assert isinstance(cause.__cause__, ValueError)
        assert world.journals[node].records == [b"fine"]


@pytest.mark.parametrize(
    ("returned", "problem"), [((), "0 results"), (None, "a NoneType"), ((1, 2), "2 results")]
)
async def test_a_state_machine_must_return_one_result_per_record(autojump_clock, world, returned, problem):
    class Wrong(Journal):
        def apply(self, batch):
            return returned

    await world.start(1, 2, 3, journal=Wrong)
    leader = await world.leader()
    await outcome_of(leader.append, [b"x"])
    with trio.fail_after(10):
        await world.ended[leader.node_id].wait()
    assert problem in str(world.failures[leader.node_id].__cause__)
    world.failures.clear()  # followers may have applied it too


async def test_an_exception_of_the_block_is_raised_unchanged(autojump_clock, world):
    await world.start(1)
    await world.stop(1)
    group = ExceptionGroup("mine", [ValueError("one")])
    for error in (KeyError("mine"), group, KeyboardInterrupt()):
        with pytest.raises(type(error)) as raised:
            async with Quorum.open(world.config(1), world.journals[1], runtime=world.runtime(1)):
                raise error
        assert raised.value is error


async def test_a_block_that_fails_leaves_a_folder_in_order(autojump_clock, world):
    await world.start(1)
    await world.stop(1)
    with pytest.raises(KeyError):
        async with Quorum.open(world.config(1), world.journals[1], runtime=world.runtime(1)):
            raise KeyError("mine")
    await world.start(1)
    assert world.failures == {}


async def test_a_cancelled_block_ends_cancelled_and_the_folder_opens_again(autojump_clock, world):
    await world.start(1)
    await world.stop(1)
    reached = False
    with trio.move_on_after(1) as scope:
        async with Quorum.open(world.config(1), world.journals[1], runtime=world.runtime(1)):
            await trio.sleep_forever()
        reached = True
    assert scope.cancelled_caught
    assert not reached
    await world.start(1)


async def test_a_cancelled_append_is_cancelled_and_harms_nobody(autojump_clock, world):
    leader = await world.start_three()
    follower = (await world.followers())[0]
    for quorum in (leader, follower):
        with trio.CancelScope() as scope:
            scope.cancel()
            await quorum.append([b"maybe"])
        assert scope.cancelled_caught
        with trio.move_on_after(0.0001) as scope:
            await quorum.append([b"maybe"])
        assert scope.cancelled_caught
    await leader.append([b"sure"])
    assert world.journals[leader.node_id].records[-1] == b"sure"
    assert follower._node.forwarder._under_way == {}


async def test_appends_beyond_the_bound_wait_for_room_and_then_say_that_nothing_happened(
    autojump_clock, world, nursery
):
    world.overrides.update(max_batch_bytes=1024, max_pending_bytes=4096)
    leader = await world.start_three()
    for follower in await world.followers():
        world.network.partition([f"node-{leader.node_id}"], [f"node-{follower.node_id}"])
    outcomes = []

    async def append():
        try:
            await leader.append([bytes(800)], timeout_ms=500)
        except QuorumError as error:
            outcomes.append(type(error))

    for _ in range(12):
        nursery.start_soon(append)
    await trio.sleep(0.6)
    assert sorted(outcomes, key=str) == [OutcomeUnknownError] * 5 + [QuorumBusyError] * 7
    assert leader._node.driver.appends._pending_bytes >= 4096
    world.network.heal()
    await trio.sleep(5)
    appended = await (await world.leader()).append([b"room again"])
    assert appended.results == (10,)
    assert {q._node.driver.appends._pending_bytes for q in world.quorums.values()} == {0}


@pytest.mark.slow
async def test_remote_appends_beyond_the_bound_stop_their_connection_being_read(
    autojump_clock, world, nursery
):
    world.overrides.update(max_batch_bytes=1024, max_pending_bytes=4096)
    leader = await world.start_three()
    follower = (await world.followers())[0]
    await follower.append([b"opens the connection"])
    outcomes = []

    async def append(number):
        outcomes.append(await outcome_of(follower.append, [bytes([number]) * 900]))

    for other in await world.followers():
        world.network.block(f"node-{leader.node_id}", f"node-{other.node_id}")
    for number in range(50):
        nursery.start_soon(append, number)
    await trio.sleep(0.3)
    assert 4096 <= leader._node.driver.appends._pending_bytes <= 4096 + 1024
    world.network.heal()
    await trio.sleep(20)
    assert len(outcomes) == 50


async def test_a_leader_cut_off_answers_outcome_unknown_when_it_resigns(autojump_clock, world):
    leader = await world.start_three()
    others = [f"node-{q.node_id}" for q in await world.followers()]
    world.network.partition([f"node-{leader.node_id}"], others)
    started = trio.current_time()
    assert isinstance(await outcome_of(leader.append, [b"x"]), OutcomeUnknownError)
    assert trio.current_time() - started < 2


async def test_an_append_without_a_leader_raises_that_nothing_happened(autojump_clock, world):
    await world.start(1)
    quorum = world.quorums[1]
    with pytest.raises(NotLeaderError):
        await quorum.append([b"x"], timeout_ms=700)
    with pytest.raises(NotLeaderError):
        await quorum.request_leader(b"x")
    with pytest.raises(NotLeaderError):
        quorum.append_nowait([b"x"])
    with pytest.raises(NotLeaderError):
        quorum.describe()


async def test_a_folder_is_formatted_once(autojump_clock, world):
    await world.start(1)
    with pytest.raises(QuorumConfigError, match="formatted already"):
        await format_folder(world.runtime(1), "data", cluster_id=CLUSTER_ID, node_id=1)


async def test_formatting_that_a_crash_interrupted_is_done_again(autojump_clock, world):
    await world.start(1)
    await world.stop(1)
    disk = world.hosts[1].disk
    for name in disk.list("data/__cluster_metadata-0"):
        if name != "quorum-state":
            disk.remove(f"data/__cluster_metadata-0/{name}")
    disk.remove("data/meta.properties")
    await format_folder(world.runtime(1), "data", cluster_id=CLUSTER_ID, node_id=1)
    await world.start(1)


async def test_a_log_without_its_identity_is_not_formatted_over(autojump_clock, world):
    await world.start(1)
    await world.stop(1)
    world.hosts[1].disk.remove("data/meta.properties")
    with pytest.raises(QuorumConfigError, match=r"lost its meta\.properties"):
        await format_folder(world.runtime(1), "data", cluster_id=CLUSTER_ID, node_id=1)


async def opened(world, **overrides):
    world.overrides.update(overrides)
    async with Quorum.open(world.config(1), world.journals[1], runtime=world.runtime(1)):
        pass


async def test_a_folder_of_another_cluster_or_node_or_none_is_refused(autojump_clock, world):
    await world.start(1)
    await world.stop(1)
    with pytest.raises(Exception, match="another"):
        await opened(world, cluster_id="another")
    with pytest.raises(Exception, match=r"node.?id"):
        await opened(world, cluster_id=CLUSTER_ID, node_id=2)
    with pytest.raises(Exception, match="nowhere"):
        await opened(world, node_id=1, folder="nowhere")


async def test_a_missing_quorum_state_is_refused_because_the_vote_is_gone(autojump_clock, world):
    await world.start(1)
    await world.stop(1)
    world.hosts[1].disk.remove("data/__cluster_metadata-0/quorum-state")
    with pytest.raises(Exception, match="quorum-state"):
        await opened(world)


async def test_a_folder_in_use_is_refused_and_a_refusal_frees_it(autojump_clock, world):
    await world.start(1)
    with pytest.raises(DiskLockedError):
        await opened(world)
    await world.stop(1)
    await opened(world)
    await opened(world)


async def test_quorum_state_is_kafkas_json_with_what_was_voted(autojump_clock, world):
    leader = await world.start_three()
    content = json.loads(world.hosts[leader.node_id].disk.content("data/__cluster_metadata-0/quorum-state"))
    assert content["leaderEpoch"] == leader.epoch
    assert content["leaderId"] == leader.node_id


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"node_id": -1}, "node_id"),
        ({"cluster_id": ""}, "cluster_id"),
        ({"max_batch_bytes": 10}, "max_batch_bytes"),
        ({"max_pending_bytes": 10}, "max_pending_bytes"),
    ],
)
def test_a_configuration_that_can_not_work_names_its_field(wrong, named):
    from quorate.raft.quorum_config import QuorumConfig, parse_voters

    good = {
        "node_id": 1, "cluster_id": "c", "folder": "f", "voters": parse_voters("1@a:1"),
    }  # fmt: skip
    QuorumConfig(**good)
    with pytest.raises(QuorumConfigError, match=named):
        QuorumConfig(**{**good, **wrong})


@pytest.mark.slow
async def test_the_largest_batch_and_the_largest_fetch_fit_a_frame(autojump_clock, world):
    world.overrides.update(max_batch_bytes=1 << 20)
    leader = await world.start_three()
    follower = (await world.followers())[0]
    largest = [bytes((1 << 20) - 20)]
    for quorum in (leader, follower):
        await quorum.append(largest)
        await quorum.append([b""] * ((1 << 20) // 20))
    for quorum in world.quorums.values():
        with trio.fail_after(30):
            await quorum.wait_applied(leader.applied_offset)
    assert len({len(journal.records) for journal in world.journals.values()}) == 1


@pytest.mark.slow
async def test_crashes_and_partitions_while_appends_run_leave_no_one_waiting(autojump_clock, world, nursery):
    await world.start(1, 2, 3)
    draw = random.Random(5)
    waiting = 0

    async def append(quorum, number):
        nonlocal waiting
        waiting += 1
        await outcome_of(quorum.append, [b"%d" % number])
        waiting -= 1

    for number in range(200):
        nursery.start_soon(append, world.quorums[draw.randint(1, 3)], number)
        if number % 40 == 0:
            (await world.leader()).resign()
        if number % 25 == 0:
            world.network.cut(f"node-{draw.randint(1, 3)}", f"node-{draw.randint(1, 3)}")
        await trio.sleep(0.02)
    await trio.sleep(12)
    assert waiting == 0
    assert world.failures == {}
