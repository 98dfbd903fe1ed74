"""Snapshots of a node's own state: when they are taken, and that nothing waits for them."""

import itertools
import random
from dataclasses import replace

import pytest
import trio

from quorate.log.log_errors import DamagedSnapshotError
from quorate.log.snapshots.snapshot_file import name_of
from quorate.log.snapshots.snapshots import SnapshotStore
from quorate.raft.quorum import Quorum
from quorate.raft.quorum_config import QuorumConfig, parse_voters
from quorate.raft.quorum_errors import (
    QuorumConfigError,
    QuorumStoppedError,
    SnapshotNotTakenError,
    StateMachineError,
)
from quorate.raft.snapshots.snapshot_slices import SnapshotSlices
from quorate.raft.storage.storage import LOG_FOLDER, format_folder
from quorate.runtime.disk import DiskError
from quorate.runtime.entropy import Entropy, uuid_text
from quorate.simulation.world.simulated_disk import DiskOperation
from quorate.types import Endpoint, Epoch, NodeId, Offset, ReplicaKey, SnapshotId, Voter, VoterSet

FOLDER = f"data/{LOG_FOLDER}"


async def snapshots_of(world, node, count):
    await world.until(lambda: len(world.quorums[node].snapshots()) >= count, within_s=200)
    return world.quorums[node].snapshots()


# When


async def test_a_snapshot_is_taken_when_enough_of_the_log_is_new(autojump_clock, world):
    quorum = await world.start_one(snapshot_max_new_bytes=10_000, retention_bytes=10**9)
    for _ in range(8):
        await quorum.append([bytes(1000)])
    await trio.sleep(10)
    assert quorum.snapshots() == ()
    for _ in range(3):
        await quorum.append([bytes(1000)])
    (first,) = await snapshots_of(world, 1, 1)
    assert 10 <= first.end_offset <= quorum.applied_offset
    for _ in range(10):
        await quorum.append([bytes(1000)])
    await snapshots_of(world, 1, 2)


async def test_a_follower_takes_snapshots_by_itself(autojump_clock, world):
    world.overrides["snapshot_max_new_bytes"] = 10_000
    leader = await world.start_three()
    for _ in range(11):
        await leader.append([bytes(1000)])
    for node in (1, 2, 3):
        await snapshots_of(world, node, 1)


@pytest.mark.bug("KAFKA-14531")
async def test_a_snapshot_is_taken_when_the_last_is_old_and_anything_is_new(autojump_clock, world):
    quorum = await world.start_one(snapshot_max_interval_ms=1000, retention_bytes=10**9)
    await quorum.append([b"x"])
    await trio.sleep(1.5)
    (first,) = quorum.snapshots()
    assert first.end_offset == quorum.applied_offset
    await trio.sleep(60)
    assert quorum.snapshots() == (first,)
    await quorum.append([b"y"])
    await trio.sleep(0.3)  # the last one is a minute old
    assert len(quorum.snapshots()) == 2
    await quorum.append([b"z"])  # in the same second by the clock of the log
    await trio.sleep(0.5)
    assert len(quorum.snapshots()) == 2


@pytest.mark.slow
async def test_age_takes_none_when_its_limit_is_0(autojump_clock, world):
    quorum = await world.start_one(snapshot_max_interval_ms=0)
    await quorum.append([b"x"])
    await trio.sleep(4000)
    assert quorum.snapshots() == ()


@pytest.mark.bug("KAFKA-14618")
@pytest.mark.bug("Kafka PR 21028")
async def test_the_id_is_the_offset_after_the_last_record_and_replay_goes_on_there(autojump_clock, world):
    quorum = await world.start_one()
    base = (await quorum.append([b"%d" % number for number in range(100)])).base_offset
    snapshot = await quorum.take_snapshot()
    assert snapshot == SnapshotId(Offset(base + 100), quorum.epoch)
    await quorum.append([b"after"])
    records = list(world.journals[1].records)
    await world.stop(1)
    applied = []

    class Watched(type(world.journals[1])):
        def apply(self, batch):
            applied.append(batch.base_offset)
            return super().apply(batch)

    await world.start(1, journal=Watched)
    await (await world.leader()).append([b"last"])
    assert world.journals[1].records == [*records, b"last"]
    assert applied[0] == base + 100
    assert world.quorums[1].snapshots() == (snapshot,)


async def test_a_second_request_without_news_takes_none(autojump_clock, world):
    quorum = await world.start_one()
    await quorum.append([b"x"])
    syncs = world.hosts[1].disk.syncs
    first = await quorum.take_snapshot()
    assert world.hosts[1].disk.syncs > syncs
    syncs = world.hosts[1].disk.syncs
    assert await quorum.take_snapshot() == first
    assert world.hosts[1].disk.syncs == syncs


async def test_requests_at_one_time_share_a_snapshot(autojump_clock, world):
    quorum = await world.start_one()
    await quorum.append([b"x"])
    taken = []

    async def take():
        taken.append(await quorum.take_snapshot())

    async with trio.open_nursery() as tasks:
        for _ in range(5):
            tasks.start_soon(take)
    assert len(set(taken)) == 1
    assert quorum.snapshots() == (taken[0],)


@pytest.mark.slow
@pytest.mark.bug("nats-server PR 3844")
async def test_no_snapshot_is_taken_before_a_record_is_applied(autojump_clock, world):
    world.overrides["snapshot_max_interval_ms"] = 100
    await world.start(1)  # of three: there is no leader
    await trio.sleep(10)
    with pytest.raises(SnapshotNotTakenError, match="append first"):
        await world.quorums[1].take_snapshot()
    assert not [name for name in world.hosts[1].disk.list(FOLDER) if "checkpoint" in name and "-00" in name]


async def test_a_stopped_quorum_takes_none(autojump_clock, world):
    quorum = await world.start_one()
    await quorum.append([b"x"])
    await world.stop(1)
    with pytest.raises(QuorumStoppedError):
        await quorum.take_snapshot()


@pytest.mark.parametrize(
    "wrong",
    [
        {"snapshot_max_new_bytes": 0},
        {"snapshot_max_interval_ms": -1},
        {"retention_bytes": -1},
        {"retention_ms": -1},
    ],
)
def test_limits_that_make_no_sense_are_refused(wrong):
    config = QuorumConfig(node_id=NodeId(1), cluster_id="c", folder="f", voters=parse_voters("1@node-1:9093"))
    with pytest.raises(QuorumConfigError, match=next(iter(wrong))):
        replace(config, **wrong)


# While


async def test_commits_go_on_while_a_large_state_is_snapshotted(autojump_clock, world):
    """A snapshot has the state as it was, and after each MiB all other tasks have a turn."""
    quorum = await world.start_one()
    for _ in range(4):
        await quorum.append([bytes(256 * 1024)] * 16)
    world.hosts[1].disk.sync_delay = 0.0  # as fast as the slices, which take no virtual time
    journal = world.journals[1]
    state = list(journal.records)
    passes = 0
    pulled_at, committed_at = [], []

    def pulled():
        for chunk in state:
            pulled_at.append(passes)
            committed_at.append(len(journal.records))
            yield chunk

    journal.take_snapshot = lambda: pulled()

    async def commit():
        while True:
            await quorum.append([b"meanwhile"])

    async def count_passes():
        nonlocal passes
        while True:
            passes += 1
            await trio.lowlevel.checkpoint()

    async with trio.open_nursery() as tasks:
        tasks.start_soon(commit)
        tasks.start_soon(count_passes)
        snapshot = await quorum.take_snapshot()
        tasks.cancel_scope.cancel()
    assert snapshot.end_offset < quorum.applied_offset
    assert len(pulled_at) == 64
    # 4 have a MiB; the order within a pass is drawn, so two slices may lie between two ticks.
    assert max(len(list(pulls)) for _, pulls in itertools.groupby(pulled_at)) <= 8
    assert len(set(committed_at)) >= 3
    await world.stop(1)
    store = await SnapshotStore.open(world.hosts[1].disk, FOLDER)
    with store.reader(snapshot) as reader:
        assert list(reader) == state


async def test_a_slice_ends_by_time_and_rests_as_long(mock_clock):
    async with trio.open_nursery() as nursery:
        turns = []

        async def work():
            slices = SnapshotSlices(rests=True)
            for step in range(10):
                mock_clock.jump(0.0005)
                turns.append(step)
                await slices.pause(1)

        nursery.start_soon(work)
        await trio.testing.wait_all_tasks_blocked()
        assert turns == [0, 1, 2, 3]  # 2 ms
        mock_clock.jump(0.0019)
        await trio.testing.wait_all_tasks_blocked()
        assert len(turns) == 4
        mock_clock.jump(0.0002)
        await trio.testing.wait_all_tasks_blocked()
        assert turns == list(range(8))
        nursery.cancel_scope.cancel()


async def follower_ahead_of_its_disk(world):
    """One that has applied what others committed, and has not synced it."""
    leader = await world.start_three()
    follower = (await world.followers())[0]
    await leader.append([b"before"])
    await follower.wait_applied(leader.applied_offset)
    world.hosts[follower.node_id].disk.stall(reads=False)
    await follower.append([b"x"])  # the answer says that it is committed
    assert follower.applied_offset > follower._node.driver.core.durable_end_offset
    return follower


async def test_a_snapshot_waits_until_the_log_is_durable_up_to_its_end(autojump_clock, world, nursery):
    follower = await follower_ahead_of_its_disk(world)
    disk = world.hosts[follower.node_id].disk
    name = name_of(SnapshotId(follower.applied_offset, follower.epoch))
    nursery.start_soon(follower.take_snapshot)
    await trio.sleep(0.2)
    assert f"{name}.part" in disk.list(FOLDER)
    assert name not in disk.list(FOLDER)
    disk.release()
    (taken,) = await snapshots_of(world, follower.node_id, 1)
    assert name_of(taken) == name
    assert follower._node.driver.core.durable_end_offset >= taken.end_offset


# What goes wrong


async def test_a_state_machine_that_fails_to_give_its_state_is_asked_again(autojump_clock, world, log_lines):
    quorum = await world.start_one(snapshot_max_interval_ms=1000)
    journal = world.journals[1]
    failures = 2

    def take_snapshot():
        nonlocal failures
        if failures:
            failures -= 1
            if failures:
                raise ValueError("not now")
            return iter((b"one", 1))  # the second is no chunk
        return iter(list(journal.records))

    journal.take_snapshot = take_snapshot
    await quorum.append([b"x"])
    await trio.sleep(100)
    assert quorum.snapshots() == ()
    assert not [name for name in world.hosts[1].disk.list(FOLDER) if name.endswith(".part")]
    await snapshots_of(world, 1, 1)
    assert trio.current_time() < 200
    problems = [line["problem"] for line in log_lines if line["event"].startswith("no snapshot was taken")]
    assert len(problems) == 2
    assert "ValueError: not now" in problems[0]


async def test_a_request_hears_why_there_is_no_snapshot(autojump_clock, world):
    quorum = await world.start_one()
    await quorum.append([b"x"])
    closed = []

    def chunks():
        try:
            yield b"fine"
            yield bytes(9 * 1024 * 1024)
        finally:
            closed.append(True)

    world.journals[1].take_snapshot = chunks
    with pytest.raises(SnapshotNotTakenError, match="at most 8388608") as raised:
        await quorum.take_snapshot()
    assert isinstance(raised.value.__cause__, ValueError)
    assert closed
    await quorum.append([b"the node goes on"])


async def test_a_full_disk_costs_the_snapshot_and_not_the_node(autojump_clock, world):
    quorum = await world.start_one()
    await quorum.append([bytes(100_000)])
    for operation in (DiskOperation.APPEND, DiskOperation.SYNC, DiskOperation.RENAME):
        world.hosts[1].disk.fail(operation, path_part=".checkpoint")
        with pytest.raises(SnapshotNotTakenError, match="DiskError"):
            await quorum.take_snapshot()
        await quorum.append([b"on"])
    assert quorum.snapshots() == ()
    await quorum.take_snapshot()


async def test_a_failed_sync_of_the_log_leaves_no_snapshot_of_what_it_lost(autojump_clock, world, nursery):
    follower = await follower_ahead_of_its_disk(world)
    disk = world.hosts[follower.node_id].disk
    heard = []

    async def take():
        with pytest.raises(SnapshotNotTakenError) as raised:
            await follower.take_snapshot()
        heard.append(raised.value)

    nursery.start_soon(take)
    await trio.sleep(0.2)
    disk.fail(DiskOperation.SYNC, path_part=".log", times=2)
    disk.release()
    await world.ended[follower.node_id].wait()
    assert isinstance(world.failures.pop(follower.node_id).__cause__, DiskError)
    assert not [name for name in disk.list(FOLDER) if name.endswith(".checkpoint")]
    await trio.testing.wait_all_tasks_blocked()
    assert heard


@pytest.mark.parametrize("where", ["load_snapshot", "add", "install"])
async def test_a_state_that_can_not_be_loaded_is_a_clear_error(autojump_clock, world, where):
    quorum = await world.start_one()
    await quorum.append([b"x"])
    snapshot = await quorum.take_snapshot()
    await world.stop(1)

    class Broken:
        def _maybe(self, name):
            if name == where:
                raise KeyError("of a newer version")

        def apply(self, batch):
            raise AssertionError("not after that")

        def take_snapshot(self):
            return iter(())

        def load_snapshot(self, snapshot):
            self._maybe("load_snapshot")
            return self

        def add(self, chunk):
            self._maybe("add")

        def install(self):
            self._maybe("install")

    with pytest.raises(StateMachineError, match=f"{where} raised KeyError") as raised:
        async with Quorum.open(world.config(1), Broken(), runtime=world.runtime(1)):
            pass
    assert raised.value.offset == snapshot.end_offset
    await world.start(1)  # nothing is lost by it
    await (await world.leader()).append([b"y"])
    assert world.journals[1].records == [b"x", b"y"]


@pytest.mark.bug("KAFKA-14104")
@pytest.mark.parametrize("segment_bytes", [200, 10_000])
async def test_a_snapshot_damaged_at_rest_is_never_loaded(autojump_clock, world, segment_bytes):
    """The node does without it if the log still has all that it held, or else refuses to start."""
    quorum = await world.start_one(retention_bytes=0, segment_bytes=segment_bytes)
    for number in range(10):
        await quorum.append([b"%d" % number])
        await quorum.take_snapshot()
    await world.until(lambda: len(quorum.snapshots()) == 1)
    records = list(world.journals[1].records)
    await world.stop(1)
    disk = world.hosts[1].disk
    (name,) = [name for name in disk.list(FOLDER) if name.endswith(".checkpoint")]
    disk.flip(f"{FOLDER}/{name}", len(disk.content(f"{FOLDER}/{name}")) // 2)
    if segment_bytes == 200:
        with pytest.raises(DamagedSnapshotError):
            async with Quorum.open(world.config(1), world.journals[1], runtime=world.runtime(1)):
                pass
    else:
        await world.start(1)
        await (await world.leader()).append([b"on"])
        assert world.journals[1].records == [*records, b"on"]


# Voters in the log


@pytest.mark.bug("etcd-io/raft e515a67")
async def test_the_voters_are_in_the_snapshot_and_count_after_a_restart(autojump_clock, world):
    entropy = Entropy(random.Random(1))
    first = VoterSet(
        tuple(
            Voter(ReplicaKey(NodeId(node), uuid_text(entropy.uuid())), Endpoint(f"node-{node}", 9093))
            for node in (1, 2, 3)
        )
    )
    world.voters = VoterSet(())
    world.first_voters = first
    leader = await world.start_three()
    await leader.append([b"x"])
    snapshot = await leader.take_snapshot()
    store = leader._node.driver.snapshots._store
    assert store.contents(snapshot).voters == first
    assert leader.voters == first
    await world.stop(leader.node_id)
    await world.start(leader.node_id)
    assert world.quorums[leader.node_id].voters == first


async def test_a_voter_without_its_directory_id_is_refused_at_formatting(autojump_clock, world):
    await world.start(1)
    voters = VoterSet(
        tuple(Voter(ReplicaKey(NodeId(node)), Endpoint(f"node-{node}", 9093)) for node in (1, 2))
    )
    with pytest.raises(QuorumConfigError, match="voter 2 has no directory id"):
        await format_folder(world.runtime(1), "other", cluster_id="c", node_id=NodeId(1), voters=voters)


async def test_the_only_first_voter_gets_a_directory_id_and_leads(autojump_clock, world):
    await world.start(1)
    runtime = world.runtime(1)
    alone = VoterSet((Voter(ReplicaKey(NodeId(1)), Endpoint("node-1", 9094)),))
    meta = await format_folder(runtime, "other", cluster_id="c", node_id=NodeId(1), voters=alone)
    config = QuorumConfig(node_id=NodeId(1), cluster_id="c", folder="other")
    async with Quorum.open(config, type(world.journals[1])(), runtime=runtime) as quorum:
        await quorum.append([b"x"])
        (voter,) = quorum.voters
        assert voter.key == ReplicaKey(NodeId(1), uuid_text(meta.directory_id))
        snapshot = await quorum.take_snapshot()
        assert snapshot.epoch == Epoch(1)
