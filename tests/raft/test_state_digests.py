"""States are compared at snapshots of one id: the node whose state differs stops, and says where."""

import random
from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest
import trio

from quorate.log.snapshots.snapshot_file import SnapshotContents
from quorate.log.snapshots.snapshots import SnapshotStore
from quorate.raft import CommittedBatch, NoTelemetry, Session, Sessions, StatesDifferError
from quorate.raft.quorum_description import StateAt
from quorate.raft.quorum_errors import OutcomeUnknownError
from quorate.raft.state_machine.plain import form_of, with_snapshots
from quorate.raft.storage.storage import LOG_FOLDER
from quorate.raft.transport.description_frames import QuorumView
from quorate.raft.watch.state_comparison import StateComparison
from quorate.runtime import Entropy
from quorate.types import (
    Endpoint,
    Epoch,
    NodeId,
    Offset,
    ReplicaKey,
    SnapshotId,
    StateDigest,
    Voter,
    VoterSet,
)


@dataclass
class Sum:
    total: int = 0

    def apply(self, batch: CommittedBatch) -> Sequence[int]:
        results = []
        for record in batch.records:
            self.total += len(record)
            results.append(self.total)
        return results


class WrongAtFifty(Sum):
    """A bit flips in its memory."""

    def apply(self, batch: CommittedBatch) -> Sequence[int]:
        before = self.total
        results = super().apply(batch)
        if before < 50 <= self.total:
            self.total += 1
        return results


async def start(world, *machines):
    for node, machine in enumerate(machines, start=1):
        await world.start(node, journal=machine)
    return await world.leader()


async def take_everywhere(world, *nodes):
    """Take a snapshot of the same records on these nodes."""
    end = (await world.leader()).applied_offset
    for node in nodes:
        await world.quorums[node].wait_applied(end)
        await world.quorums[node].take_snapshot()


async def digest_on(disk, snapshot):
    store = await SnapshotStore.open(disk, f"data/{LOG_FOLDER}")
    return store.contents(snapshot).state.digest


async def failure_of(world, node):
    await world.until(lambda: world.ended[node].is_set())
    error = world.failures.pop(node).__cause__
    assert isinstance(error, StatesDifferError), error
    return error


async def test_a_follower_whose_state_differs_stops_and_names_offset_digests_and_members(
    autojump_clock, world
):
    await start(world, Sum, Sum, WrongAtFifty)
    leader = await world.leader()
    if leader.node_id == 3:
        await leader.transfer_leadership(NodeId(1))
        leader = await world.leader()
    for _ in range(10):
        await leader.append([bytes(10)])
    await take_everywhere(world, 1, 2, 3)
    snapshot = leader.snapshots()[-1]
    error = await failure_of(world, 3)
    assert error.snapshot == snapshot
    right, wrong = [await digest_on(world.hosts[node].disk, snapshot) for node in (1, 3)]
    for part in (
        f"the state of node 3 after the records below offset {snapshot.end_offset} (epoch {snapshot.epoch})",
        f"has the digest {wrong}, and that of the voters 1, 2, a majority, has {right}",
        "give this node an empty folder",
    ):
        assert part in str(error)
    await world.until(lambda: leader.state_check is not None)
    check = leader.state_check
    assert (check.snapshot, check.equal) == (snapshot, (NodeId(2),))
    # The times of their questions are drawn: the leader may ask node 3 when that has stopped.
    assert check.different + check.unchecked == (NodeId(3),)
    await leader.append([b"the others go on"])


@pytest.mark.bug("etcd PR 14828")
async def test_a_leader_whose_state_differs_is_the_one_that_stops(autojump_clock, world):
    leader = await start(world, Sum, Sum, Sum)
    world.journals[leader.node_id].total += 1  # its memory is damaged
    await leader.append([bytes(10)])
    await take_everywhere(world, 1, 2, 3)
    error = await failure_of(world, leader.node_id)
    assert f"the state of node {leader.node_id} after" in str(error)
    del world.quorums[leader.node_id]
    successor = await world.leader()
    assert (await successor.append([bytes(5)])).results == (15,)


async def test_the_odd_one_stops_again_when_it_starts_with_that_state(autojump_clock, world):
    await start(world, Sum, Sum, WrongAtFifty)
    for _ in range(10):
        await world.quorums[1].append([bytes(10)])
    await take_everywhere(world, 1, 2, 3)
    first = await failure_of(world, 3)
    await world.start(3, journal=Sum)  # its code is mended, its snapshot is not
    second = await failure_of(world, 3)
    assert second.snapshot == first.snapshot


@pytest.mark.slow
async def test_of_two_that_differ_neither_stops_and_both_name_the_other(autojump_clock, world, log_lines):
    await start(world, Sum, WrongAtFifty, Sum)
    await world.crash(3)
    for _ in range(10):
        await world.quorums[1].append([bytes(10)])
    await take_everywhere(world, 1, 2)
    await trio.sleep(40)
    assert [quorum.state_check.different for quorum in world.quorums.values()] == [(2,), (1,)]
    lines = [line for line in log_lines if line["event"].startswith("states differ")]
    assert sorted((line["node"], *line["digests"]) for line in lines) == [(1, 1, 2), (2, 1, 2)], "once each"
    # The third one knows.
    await world.start(3, journal=Sum)
    await world.quorums[3].wait_applied(world.quorums[1].applied_offset)
    await world.quorums[3].append([b"x"])
    await take_everywhere(world, 1, 2, 3)
    await failure_of(world, 2)


@pytest.mark.bug("etcd issue 13984")
async def test_a_state_of_sessions_alone_is_compared_too(autojump_clock, world):
    await start(world, *[lambda: Sessions(Sum())] * 3)
    leader = await world.leader()
    async with Session.open(leader) as session:
        await session.append([b"x"])
        for node in (1, 2, 3):
            await world.quorums[node].wait_applied(leader.applied_offset)
        wrong = next(node for node in (1, 2, 3) if node != leader.node_id)
        world.journals[wrong]._table.close(session.id)
        await take_everywhere(world, 1, 2, 3)
        await failure_of(world, wrong)


@pytest.mark.slow
async def test_states_are_not_compared_if_the_configuration_says_so(autojump_clock, world):
    world.overrides["compare_states"] = False
    await start(world, Sum, Sum, WrongAtFifty)
    for _ in range(10):
        await world.quorums[1].append([bytes(10)])
    await take_everywhere(world, 1, 2, 3)
    await trio.sleep(40)
    assert [quorum.state_check for quorum in world.quorums.values()] == [None] * 3


# Snapshots of one id


async def load(world, seconds, *, pause_s=0.05, size=100):
    """Append for some time, through the leader of each moment."""
    with trio.move_on_after(seconds):
        while True:
            try:
                await (await world.leader()).append([bytes(size)], timeout_ms=2000)
            except OutcomeUnknownError:
                continue
            await trio.sleep(pause_s)


async def ends_in_common(world):
    await trio.sleep(1)
    return set.intersection(*[{*quorum.snapshots()} for quorum in world.quorums.values()])


@pytest.mark.slow
async def test_under_load_the_nodes_take_their_snapshots_of_the_same_records(autojump_clock, world):
    world.overrides |= {"snapshot_max_new_bytes": 3000, "retention_bytes": 10**9}
    await start(world, Sum, Sum, Sum)
    await load(world, 20)
    taken = [quorum.snapshots() for quorum in world.quorums.values()]
    assert min(map(len, taken)) >= 5
    common = await ends_in_common(world)
    assert len(common) >= min(map(len, taken)) - 1, f"{len(common)} in common of {[*map(len, taken)]}"


@pytest.mark.slow
async def test_each_interval_has_a_common_snapshot_whatever_else_a_node_took(autojump_clock, world):
    world.overrides |= {"snapshot_max_interval_ms": 10_000, "retention_bytes": 10**9}
    await start(world, Sum, Sum, Sum)
    await load(world, 3)
    await world.quorums[2].take_snapshot()
    before = await ends_in_common(world)
    await load(world, 35)
    assert len(await ends_in_common(world) - before) >= 3


@pytest.mark.slow
async def test_an_idle_quorum_compares_what_it_appended_last(autojump_clock, world):
    world.overrides["snapshot_max_interval_ms"] = 10_000
    leader = await start(world, Sum, Sum, Sum)
    await leader.append([b"x"])
    await trio.sleep(40)
    checks = [quorum.state_check for quorum in world.quorums.values()]
    assert [len(check.equal) for check in checks if check is not None] == [2, 2, 2]


async def test_commits_go_on_while_another_snapshot_is_written(autojump_clock, world):
    """A snapshot that is due stops the applier, but not until a slow one before it is done."""
    quorum = await world.start_one(snapshot_max_new_bytes=2000)
    async with quorum._node.driver.snapshots.taker._one_at_a_time:
        with trio.fail_after(30):
            for _ in range(50):
                await quorum.append([bytes(100)])


# Forms


@dataclass
class SumOfNext(Sum):
    """The next version of it, with another field."""

    appends: int = 0


@dataclass
class Item:
    name: str
    parts: dict[str, "Item"] = field(default_factory=dict)


@dataclass
class Shop:
    items: dict[str, Item] = field(default_factory=dict)

    def apply(self, batch: CommittedBatch) -> Sequence[None]:
        return [None] * len(batch.records)


def test_a_form_says_what_the_bytes_of_equal_states_depend_on():
    class Own:
        def apply(self, batch): ...
        def take_snapshot(self): ...
        def load_snapshot(self, snapshot): ...

    class OwnOfNext(Own):
        code_version = 1

    machines = (Sum(), SumOfNext(), Shop(), Sessions(Sum()), Own(), OwnOfNext())
    forms = [form_of(with_snapshots(machine)) for machine in machines]
    assert len({*forms}) == len(forms)
    assert form_of(with_snapshots(WrongAtFifty())) == forms[0], "its fields are the same"


@pytest.mark.slow
async def test_states_of_two_forms_are_unchecked_and_not_different(autojump_clock, world):
    """A node with the next version of the code, beside two of before."""
    leader = await start(world, Sum, Sum, SumOfNext)
    await leader.append([b"x"])
    await take_everywhere(world, 1, 2, 3)
    await trio.sleep(40)
    assert world.quorums[1].state_check.equal == (2,)
    assert world.quorums[1].state_check.unchecked == (3,)
    assert world.quorums[3].state_check.unchecked == (1, 2)


@pytest.mark.slow
async def test_a_snapshot_keeps_the_form_that_it_was_written_in(autojump_clock, world):
    """The next version, started on snapshots of before, has not written them."""
    leader = await start(world, Sum, Sum, Sum)
    await leader.append([b"x"])
    await take_everywhere(world, 1, 2, 3)
    await world.stop(3)
    await world.start(3, journal=SumOfNext)
    await trio.sleep(30)
    assert world.quorums[3].state_check.equal == (1, 2)


# Votes

SNAPSHOT = SnapshotId(Offset(7), Epoch(2))


def key(node):
    return ReplicaKey(NodeId(node), f"directory-{node}")


class Comparison(StateComparison):
    """Node 1's, with voters that have the digests, from 1 on."""

    def __init__(self, digests, *, node=1, keys=None):
        self.digests = dict(enumerate(digests, start=1))
        self.keys = keys or {}
        self.asked = []
        voters = [Voter(key(voter), Endpoint(f"node-{voter}", 1)) for voter in self.digests]
        super().__init__(
            key(node),
            voters=lambda: VoterSet(tuple(voters)),
            ask=self.answer,
            telemetry=NoTelemetry(),
            entropy=Entropy(random.Random(1)),
            pause_ms=100,
        )

    async def answer(self, address, _node):
        node = int(address.host.removeprefix("node-"))
        self.asked.append(node)
        digest = self.digests[node]
        if digest is None:
            raise OutcomeUnknownError("it closed the connection")
        return QuorumView(
            cluster_id="c", leader=None, epoch=Epoch(2), leader_endpoint=None, description=None,
            node=self.keys.get(node, key(node)), states=(StateAt(SNAPSHOT, "own 0", digest),),
        )  # fmt: skip

    async def checked(self, digest):
        """The check when this node has `digest`."""
        state = StateDigest("own 0", digest)
        self.note(SnapshotContents(
            snapshot=SNAPSHOT, size_bytes=1, last_timestamp_ms=0, leader_change=None, voters=None, state=state
        ))  # fmt: skip
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.run)
            await trio.sleep(1000)
            nursery.cancel_scope.cancel()
        return self.last_check


@pytest.mark.bug("etcd PR 14828")
@pytest.mark.parametrize(
    ("digests", "stops"),
    [
        ("abb", True), ("aab", False), ("abc", False), ("ab", False), ("a", False),
        ("aabbb", True), ("aaabb", False), ("aabbc", False), ("abbbb", True), ("abcde", False),
    ],
)  # fmt: skip
async def test_a_node_stops_if_a_majority_of_the_voters_has_one_other_state(autojump_clock, digests, stops):
    comparison = Comparison(digests)
    if stops:
        with pytest.RaisesGroup(StatesDifferError):
            await comparison.checked(digests[0])
    else:
        check = await comparison.checked(digests[0])
        assert check.different == tuple(
            place for place, digest in enumerate(digests, start=1) if digest != digests[0]
        )


async def test_an_observer_has_no_vote_about_states(autojump_clock):
    check = await Comparison("abcb", node=9).checked("a")
    assert (check.equal, check.different) == ((1,), (2, 3, 4))
    with pytest.RaisesGroup(StatesDifferError):
        await Comparison("bb", node=9).checked("a")


@pytest.mark.bug("etcd issue 15548")
async def test_the_state_of_another_node_at_a_voters_address_is_not_compared(autojump_clock):
    check = await Comparison("abb", keys={2: ReplicaKey(NodeId(2), "another disk")}).checked("a")
    assert (check.different, check.unchecked) == ((3,), (2,))


@pytest.mark.bug("etcd PR 14457")
async def test_a_voter_without_an_answer_is_unchecked_and_asked_some_times_more(autojump_clock):
    comparison = Comparison(["a", None, "a"])
    check = await comparison.checked("a")
    assert (check.equal, check.unchecked) == ((3,), (2,))
    assert comparison.asked.count(2) == 7
