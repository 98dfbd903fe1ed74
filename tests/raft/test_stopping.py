"""What an append is told when its node stops: done, unknown, or that nothing happened, and that is true."""

import pytest
import trio

from quorate.raft.quorum import Quorum
from quorate.raft.quorum_config import parse_voters
from quorate.raft.quorum_errors import OutcomeUnknownError, QuorumError, QuorumStoppedError
from quorate.runtime.disk import DiskError
from quorate.simulation.world.simulated_disk import DiskOperation
from tests.raft.conftest import Journal

APPENDS = 200


async def leave_after(world, turns):
    """200 appends are begun, and the block left so many turns of the scheduler later: how they ended, and
    what is in the log afterwards."""
    outcomes = {}

    async def append(quorum, record):
        try:
            outcomes[record] = await quorum.append([record])
        except QuorumError as error:
            outcomes[record] = error

    async with (
        trio.open_nursery() as callers,
        Quorum.open(world.config(1), Journal(), runtime=world.runtime(1)) as quorum,
    ):
        await quorum.wait_leader()
        for number in range(APPENDS):
            callers.start_soon(append, quorum, b"%d" % number)
        for _ in range(turns):
            await trio.lowlevel.checkpoint()
    journal = Journal()
    async with Quorum.open(world.config(1), journal, runtime=world.runtime(1)) as quorum:
        await quorum.wait_leader()
    assert len(outcomes) == APPENDS
    return outcomes, set(journal.records)


@pytest.fixture
async def alone(world):
    """A quorum of one, formatted."""
    world.voters = parse_voters("1@node-1:9093")
    await world.start(1)
    await world.stop(1)
    return world


@pytest.mark.parametrize("turns", [0, 1, 2, 3, 5])
async def test_an_append_that_was_told_stopped_is_not_in_the_log(autojump_clock, alone, turns):
    alone.overrides.update(drain_timeout_ms=0)
    outcomes, in_log = await leave_after(alone, turns)
    for record, outcome in outcomes.items():
        if isinstance(outcome, QuorumStoppedError):
            assert record not in in_log, f"{record!r} ended in {outcome!r}, and is in the log"
        else:
            assert isinstance(outcome, OutcomeUnknownError), "no sync has ended"


@pytest.mark.parametrize("turns", [1, 2])
async def test_an_orderly_end_of_the_block_drains_the_appends_that_it_holds(autojump_clock, alone, turns):
    outcomes, in_log = await leave_after(alone, turns)
    ended = {record: type(outcome).__name__ for record, outcome in outcomes.items()}
    # After one turn some callers have not even run.
    begun = {record for record, name in ended.items() if name != "QuorumStoppedError"}
    assert len(begun) == APPENDS if turns == 2 else begun
    assert {ended[record] for record in begun} == {"Appended"}
    assert in_log == begun


async def test_draining_ends_in_time_and_takes_nothing_new(autojump_clock, world, nursery):
    world.overrides.update(drain_timeout_ms=700)
    leader = await world.start_three()
    node = leader.node_id
    world.network.partition([f"node-{node}"], [f"node-{each}" for each in (1, 2, 3) if each != node])
    outcomes = {}

    async def append(record):
        try:
            await leader.append([record])
        except QuorumError as error:
            outcomes[record] = (error, trio.current_time())

    nursery.start_soon(append, b"held")
    await trio.testing.wait_all_tasks_blocked()
    left_at = trio.current_time()
    world.stops[node].set()
    await trio.sleep(0.1)
    with pytest.raises(QuorumStoppedError, match="nothing"):
        leader.append_nowait([b"late"])
    with pytest.raises(QuorumStoppedError, match="nothing"):
        await leader.append([b"late"])
    await world.ended[node].wait()
    await trio.testing.wait_all_tasks_blocked()
    error, ended_at = outcomes[b"held"]
    assert isinstance(error, OutcomeUnknownError)
    assert ended_at - left_at >= 0.69, "it was not waited for"
    assert trio.current_time() - left_at < 2
    del world.quorums[node]


async def test_a_forwarded_append_is_waited_for_too(autojump_clock, world, nursery):
    await world.start(1, 2, 3)
    follower = (await world.followers())[0]
    done = []

    async def append():
        done.append(await follower.append([b"x"]))

    nursery.start_soon(append)
    await trio.lowlevel.checkpoint()
    await world.stop(follower.node_id)
    assert [appended.results for appended in done] == [(1,)]


async def test_an_append_whose_write_failed_has_an_unknown_outcome(autojump_clock, alone, nursery):
    await alone.start(1)
    leader = await alone.leader()
    alone.hosts[1].disk.fail(DiskOperation.APPEND, path_part=".log")
    with trio.fail_after(10), pytest.raises(OutcomeUnknownError):
        await leader.append([b"x"])
    await alone.ended[1].wait()
    assert isinstance(alone.failures.pop(1), QuorumStoppedError)


async def test_a_change_of_the_voters_that_a_stop_cuts_off_is_unknown(autojump_clock, world, nursery):
    leader = await world.start_three()
    node = leader.node_id
    world.network.partition([f"node-{node}"], [f"node-{each}" for each in (1, 2, 3) if each != node])
    outcomes = []

    async def adopt():
        try:
            await leader.adopt_voters()
        except QuorumError as error:
            outcomes.append(error)

    nursery.start_soon(adopt)
    await trio.sleep(0.01)
    world.hosts[node].disk.fail(DiskOperation.SYNC, path_part=".log")
    leader.append_nowait([b"x"])
    await world.ended[node].wait()
    assert isinstance(world.failures.pop(node).__cause__, DiskError)
    await trio.testing.wait_all_tasks_blocked()
    assert [type(error) for error in outcomes] == [OutcomeUnknownError]


async def test_a_forwarded_append_that_its_own_node_stops_at_is_unknown(autojump_clock, world):
    """It is committed: the leader said so."""
    leader = await world.start_three()
    follower = (await world.followers())[0]
    machine = world.journals[follower.node_id]

    def apply(batch):
        raise ValueError("only here")

    machine.apply = apply
    with trio.fail_after(10), pytest.raises(OutcomeUnknownError, match="committed at offset"):
        await follower.append([b"x"])
    await world.until(lambda: world.journals[leader.node_id].records == [b"x"])
    await world.ended[follower.node_id].wait()
    assert isinstance(world.failures.pop(follower.node_id), QuorumStoppedError)
