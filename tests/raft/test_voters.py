"""Voters that come and go, linearizable reads and transfers, through the whole stack (KIP-853)."""

import contextlib
from itertools import pairwise

import pytest
import trio

from quorate.error_code import ErrorCode
from quorate.raft.core.events import RemoveVoter
from quorate.raft.quorum_errors import NotLeaderError, OutcomeUnknownError, RequestRefusedError
from quorate.raft.transport.channel import Channel
from quorate.runtime.network import Address
from quorate.types import Endpoint, Epoch, NodeId, ReplicaKey, Voter, VoterSet


async def until(holds):
    with trio.fail_after(20):
        while not holds():  # noqa: ASYNC110
            await trio.sleep(0.02)


def voter_of(quorum):
    return Voter(quorum._node.key, Endpoint(f"node-{quorum.node_id}", 9093))


async def three_that_can_change(world):
    leader = await world.start_three()
    await world.followers()
    await leader.adopt_voters()
    return leader


async def test_a_static_set_is_adopted_with_its_directories_and_then_changed_from_any_node(
    world, autojump_clock
):
    leader = await three_that_can_change(world)
    assert leader.voters.has(leader._node.key)
    assert all(voter.key.directory_id is not None for voter in leader.voters)
    world.overrides["voters"] = VoterSet(())
    world.overrides["bootstrap"] = (Endpoint("node-2", 9093),)
    await world.start(4)
    newcomer = world.quorums[4]
    follower = (await world.followers())[0]
    await follower.add_voter(voter_of(newcomer))
    assert leader.voters.ids == (1, 2, 3, 4)
    appended = await newcomer.append([b"by the new voter"])
    assert appended.results == (16,)
    # Its vote counts: with two of the four gone nothing commits, and with one it does.
    gone = next(quorum for quorum in await world.followers() if quorum is not newcomer)
    await world.stop(gone.node_id)
    await leader.append([b"three of four"])
    await leader.remove_voter(voter_of(gone).key)
    assert newcomer.voters == leader.voters
    assert gone.node_id not in leader.voters


async def test_the_leader_removes_itself_leads_until_that_commits_and_then_follows_as_an_observer(
    world, autojump_clock
):
    leader = await three_that_can_change(world)
    await leader.append([b"before"])
    await leader.remove_voter(leader._node.key)
    await until(lambda: leader.leader not in (None, leader.node_id))
    await leader.append([b"forwarded by an observer"])
    await trio.sleep(1)
    assert [journal.records for journal in world.journals.values()] == [
        [b"before", b"forwarded by an observer"]
    ] * 3
    assert [status.key.id for status in world.quorums[leader.leader].describe().observers] == [leader.node_id]


async def test_a_refused_change_of_voters_states_the_reason_and_changes_nothing(world, autojump_clock):
    leader = await world.start_three()
    follower = (await world.followers())[0]
    unknown = Voter(ReplicaKey(NodeId(9), "A" * 22), Endpoint("node-9", 9093))
    for quorum in (leader, follower):
        with pytest.raises(RequestRefusedError, match=r"kraft\.version 1") as refused:
            await quorum.add_voter(unknown)
        assert refused.value.code is ErrorCode.UNSUPPORTED_VERSION
    await leader.adopt_voters()
    for quorum in (leader, follower):
        with pytest.raises(RequestRefusedError, match="does not fetch here; start it") as refused:
            await quorum.add_voter(unknown, timeout_ms=500)
        assert refused.value.code is ErrorCode.REQUEST_TIMED_OUT
        with pytest.raises(RequestRefusedError, match="is no voter") as refused:
            await quorum.remove_voter(unknown.key)
        assert refused.value.code is ErrorCode.VOTER_NOT_FOUND
    assert leader.voters.ids == (1, 2, 3)


async def test_a_change_of_voters_takes_no_place_that_an_append_was_promised(world, autojump_clock):
    leader = await three_that_can_change(world)
    gone = voter_of((await world.followers())[0]).key
    promised = leader.next_offset
    appends = [leader.append_nowait([b"a", b"b"], epoch=leader.epoch), leader.append_nowait([b"c"])]
    assert leader.next_offset == promised + 3
    # It is stepped at once, while the appends wait for the end of this pass.
    await leader._node.driver.requests.change_voters(RemoveVoter(gone))
    assert [(await append.wait()).base_offset for append in appends] == [promised, promised + 2]
    assert leader.next_offset == promised + 4
    assert not leader.voters.has(gone)


async def test_an_append_for_one_epoch_is_refused_in_another(world, autojump_clock):
    leader = await world.start_three()
    with pytest.raises(NotLeaderError):
        leader.append_nowait([b"x"], epoch=Epoch(leader.epoch - 1))
    assert (await leader.append_nowait([b"y"], epoch=leader.epoch).wait()).epoch == leader.epoch


async def test_voters_do_not_change_while_leadership_is_transferred(world, autojump_clock, nursery):
    leader = await three_that_can_change(world)
    slow, other = (voter_of(quorum).key for quorum in await world.followers())
    world.network.partition([f"node-{slow.id}"], [f"node-{leader.node_id}"])
    await leader.append([b"that the successor lacks"])

    async def transfer():
        with contextlib.suppress(RequestRefusedError):
            await leader.transfer_leadership(slow.id)

    nursery.start_soon(transfer)
    await until(lambda: leader._node.driver.requests.holds_appends_back)
    with pytest.raises(RequestRefusedError, match="being transferred"):
        await leader._node.driver.requests.change_voters(RemoveVoter(other))
    world.network.heal()


async def test_a_voter_that_moved_says_where_it_listens_now(world, autojump_clock):
    await three_that_can_change(world)
    follower = (await world.followers())[0]
    node = follower.node_id
    await world.stop(node)
    world.overrides["listen"] = Address(f"node-{node}", 9099)
    world.overrides["advertised"] = Endpoint(f"node-{node}", 9099)
    await world.start(node)
    leader = await world.leader()
    await until(lambda: leader.voters.endpoint_of(node) == Endpoint(f"node-{node}", 9099))


async def test_a_node_that_lost_its_disk_joins_again_in_place_of_what_it_was(world, autojump_clock):
    leader = await three_that_can_change(world)
    await leader.append([b"kept"])
    lost = (await world.followers())[0].node_id
    earlier = world.quorums[lost]._node.key
    await world.stop(lost)
    world.replace_disk(lost)
    world.overrides["auto_join"] = True
    await world.start(lost)
    returned = world.quorums[lost]
    await until(lambda: leader.voters.has(returned._node.key))
    assert returned._node.key != earlier
    assert not leader.voters.has(earlier)
    await leader.append([b"on all"])
    await returned.wait_read_index()
    assert world.journals[lost].records == [b"kept", b"on all"]


class Steps(trio.abc.Instrument):
    """The number of steps of all tasks."""

    count = 0

    def before_task_step(self, task):
        self.count += 1


@pytest.mark.slow
@pytest.mark.bug("KAFKA-17751")
async def test_a_voter_whose_endpoint_is_right_asks_for_no_change_however_long_it_runs(
    world, autojump_clock, log_lines
):
    """The voter used to loop."""
    leader = await three_that_can_change(world)
    end = leader.log.end_offset
    steps = Steps()
    trio.lowlevel.add_instrument(steps)
    await trio.sleep(100)
    trio.lowlevel.remove_instrument(steps)
    assert "asking for a change of the voters" not in [line["event"] for line in log_lines]
    assert leader.log.end_offset == end
    assert steps.count < 50_000, "two followers send ten Fetches a second each; that takes 16,000"


@pytest.mark.slow
@pytest.mark.bug("KAFKA-19850")
async def test_a_voter_that_joins_by_itself_joins_again_if_it_is_removed_while_it_runs(world, autojump_clock):
    """To remove such a voter for good, stop it first (controller.quorum.auto.join.enable)."""
    world.overrides["auto_join"] = True
    leader = await three_that_can_change(world)
    follower = (await world.followers())[0]
    removed = voter_of(follower)
    await leader.remove_voter(removed.key)
    assert not leader.voters.has(removed.key)
    await until(lambda: leader.voters.has(removed.key))
    await world.stop(follower.node_id)
    await leader.remove_voter(removed.key)
    await trio.sleep(30)
    assert not leader.voters.has(removed.key)


async def test_a_read_index_waits_until_all_that_was_committed_is_applied_here(world, autojump_clock):
    leader = await world.start_three()
    for follower in await world.followers():
        appended = await leader.append([b"x"])
        applied = await follower.wait_read_index()
        assert applied > appended.base_offset
        assert world.journals[follower.node_id].records == world.journals[leader.node_id].records
    assert await leader.wait_read_index() == leader.applied_offset


async def test_a_leader_that_the_others_have_left_finds_no_read_index(world, autojump_clock):
    leader = await world.start_three()
    others = await world.followers()
    for other in others:
        world.network.block(f"node-{leader.node_id}", f"node-{other.node_id}")
        world.network.block(f"node-{other.node_id}", f"node-{leader.node_id}")
    with pytest.raises(NotLeaderError):
        await leader.wait_read_index(timeout_ms=5000)
    world.network.heal()
    await leader.wait_read_index()


async def test_a_follower_knows_a_bound_on_its_staleness_and_reads_within_it_without_a_message(
    world, autojump_clock
):
    leader = await world.start_three()
    follower = (await world.followers())[0]
    await leader.append([b"x"])
    await follower.wait_applied(leader.applied_offset)
    await trio.sleep(0.5)
    bound = follower.staleness_ms
    # 1.5 fetch timeouts, and the age of the last Fetch that was answered.
    assert bound is not None
    assert 900 < bound < 900 + 300
    for other in world.quorums:
        if other != follower.node_id:
            world.network.block(f"node-{follower.node_id}", f"node-{other}")
    await follower.wait_read_index(max_staleness_ms=2000)
    await trio.sleep(3)
    assert follower.staleness_ms is None or follower.staleness_ms > 3000
    with pytest.raises(NotLeaderError):
        await follower.wait_read_index(max_staleness_ms=2000, timeout_ms=1000)


async def test_a_leader_knows_a_bound_on_its_staleness_by_its_reads_only(world, autojump_clock):
    leader = await world.start_three()
    await leader.append([b"x"])
    assert leader.staleness_ms is None
    await leader.wait_read_index(max_staleness_ms=2000)
    assert leader.staleness_ms < 100
    await trio.sleep(1)
    assert 1000 <= leader.staleness_ms < 1100


@pytest.mark.slow
async def test_a_node_that_reads_all_the_time_asks_the_leader_once_in_its_bound(
    world, autojump_clock, monkeypatch
):
    leader = await world.start_three()
    for reader in (leader, (await world.followers())[0]):
        asked = []
        read_index = reader._calls.read_index

        def counted(*, timeout_ms, read_index=read_index, asked=asked):
            asked.append(trio.current_time())
            return read_index(timeout_ms=timeout_ms)

        monkeypatch.setattr(reader._calls, "read_index", counted)
        began = trio.current_time()
        for _ in range(100):
            await leader.append([b"x"])
            await trio.sleep(0.01)
            await reader.wait_read_index(max_staleness_ms=100)
            assert reader.staleness_ms <= 100
        bounds = (trio.current_time() - began) / 0.1
        assert bounds / 2 <= len(asked) <= bounds + 1, f"{len(asked)} questions in {bounds:.1f} bounds"


async def test_reads_that_come_at_once_share_a_question_and_none_gets_the_answer_to_an_earlier_one(
    world, autojump_clock, monkeypatch
):
    leader = await world.start_three()
    follower = (await world.followers())[0]
    asked, answered = [], []
    ask = Channel.read_index

    def counted(self):
        asked.append(trio.current_time())
        return ask(self)

    monkeypatch.setattr(Channel, "read_index", counted)

    async def read() -> None:
        appended = await leader.append([b"x"])
        assert await follower.wait_read_index() > appended.base_offset
        answered.append(trio.current_time())

    for _ in range(5):
        async with trio.open_nursery() as reads:
            for _ in range(50):
                reads.start_soon(read)
    assert len(answered) == 250
    assert len(asked) <= 25, f"{len(asked)} questions for 250 reads"


async def test_a_read_that_is_cancelled_leaves_the_question_to_those_that_share_it(
    world, autojump_clock, monkeypatch
):
    await world.start_three()
    follower = (await world.followers())[0]
    others = [f"node-{node}" for node in world.quorums if node != follower.node_id]
    answered = []

    async def read(timeout_ms: int) -> None:
        with contextlib.suppress(NotLeaderError):
            await follower.wait_read_index(timeout_ms=timeout_ms)
            answered.append(timeout_ms)

    async with trio.open_nursery() as reads:
        world.network.partition([f"node-{follower.node_id}"], others)
        reads.start_soon(read, 10)
        await trio.sleep(0.001)
        for _ in range(5):
            reads.start_soon(read, 20_000)
        with trio.move_on_after(0.05):
            await follower.wait_read_index()
        world.network.heal()
    assert answered == [20_000] * 5


async def test_the_time_that_a_read_index_takes_counts_as_staleness(world, autojump_clock, monkeypatch):
    await world.start_three()
    follower = (await world.followers())[0]
    read_index = follower._calls.read_index

    async def late(*, timeout_ms):
        found = await read_index(timeout_ms=timeout_ms)
        await trio.sleep(0.3)
        return found

    monkeypatch.setattr(follower._calls, "read_index", late)
    await follower.wait_read_index()
    assert 300 <= follower.staleness_ms < 400


async def test_a_read_bounds_the_staleness_of_a_node_that_is_cut_off_and_time_raises_it(
    world, autojump_clock
):
    await world.start_three()
    follower = (await world.followers())[0]
    await follower.wait_read_index()
    others = [f"node-{node}" for node in world.quorums if node != follower.node_id]
    world.network.partition([f"node-{follower.node_id}"], others)
    await trio.sleep(0.4)
    await follower.wait_read_index(max_staleness_ms=450)
    assert 400 <= follower.staleness_ms <= 450
    with pytest.raises(NotLeaderError):
        await follower.wait_read_index(max_staleness_ms=350, timeout_ms=100)
    await trio.sleep(2)
    assert follower.staleness_ms > 2400
    world.network.heal()


@pytest.mark.slow
@pytest.mark.long
async def test_leadership_goes_to_the_chosen_node_under_load_and_no_append_notices(
    world, autojump_clock, nursery
):
    await world.start_three()
    await world.followers()
    done = 0
    ending = False

    async def load(quorum):
        nonlocal done
        while not ending:
            await quorum.append([b"x"])
            done += 1

    for quorum in world.quorums.values():
        nursery.start_soon(load, quorum)
    for _ in range(4):
        await trio.sleep(0.2)
        for target in (1, 2, 3):
            asked = world.quorums[1 + target % 3]
            before = done
            await asked.transfer_leadership(NodeId(target))
            assert asked.leader == target
            await trio.sleep(0.1)
            assert done > before
    ending = True
    await trio.sleep(1)
    assert [len(journal.records) for journal in world.journals.values()] == [done] * 3


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize(("in_order", "least_s", "most_s"), [(True, 0.0, 0.1), (False, 0.6, 2.0)])
async def test_a_leader_that_stops_in_order_is_missed_for_less_than_any_timeout(
    world, autojump_clock, nursery, in_order, least_s, most_s
):
    """It resigns first. One that falls silent is missed for the fetch timeout, 600 ms here."""
    leader = await world.start_three()
    committed = []

    async def load(quorum):
        while True:
            with contextlib.suppress(NotLeaderError, OutcomeUnknownError):
                await quorum.append([b"x"])
                committed.append(trio.current_time())

    for quorum in await world.followers():
        nursery.start_soon(load, quorum)
    await trio.sleep(1)
    if in_order:
        await world.stop(leader.node_id)
    else:
        others = [f"node-{node}" for node in world.quorums if node != leader.node_id]
        world.network.partition([f"node-{leader.node_id}"], others)
    await trio.sleep(5)
    gap = max(after - before for before, after in pairwise(committed))
    assert least_s <= gap < most_s
    nursery.cancel_scope.cancel()


async def test_leadership_is_not_transferred_to_an_id_outside_the_voter_set(world, autojump_clock):
    leader = await world.start_three()
    for quorum in (leader, (await world.followers())[0]):
        with pytest.raises(RequestRefusedError, match="not another voter"):
            await quorum.transfer_leadership(NodeId(9))
    assert leader.is_leader
    await leader.append([b"goes on"])
