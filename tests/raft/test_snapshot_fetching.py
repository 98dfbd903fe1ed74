"""Followers that are behind the log start: the leader's snapshot takes the place of their log and state."""

import random
from contextlib import closing

import pytest
import trio

from quorate.error_code import ErrorCode
from quorate.log.batches.control import read_leader_change
from quorate.log.snapshots.snapshot_file import name_of, read_head
from quorate.raft.core.messages import FetchSnapshotResponse
from quorate.raft.quorum import Quorum
from quorate.raft.quorum_errors import NotLeaderError, OutcomeUnknownError, StateMachineError
from quorate.raft.state_machine.interface import SnapshotLoader
from quorate.raft.storage.storage import LOG_FOLDER
from quorate.raft.telemetry import NoTelemetry
from quorate.runtime.entropy import Entropy, uuid_text
from quorate.types import Endpoint, NodeId, ReplicaKey, Voter, VoterSet

FOLDER = f"data/{LOG_FOLDER}"
NAMES = {1: "node-1", 2: "node-2", 3: "node-3"}


@pytest.fixture
def small(world):
    """Segments of a few batches, and nothing kept that a snapshot stands in for."""
    world.overrides |= {"segment_bytes": 300, "retention_bytes": 0}
    return world


async def two_and_a_straggler(world):
    """All three run, then one follower is cut off. Returns the leader and that follower."""
    leader = await world.start_three()
    await leader.append([b"seen by all"])
    straggler = (await world.followers())[0]
    await straggler.wait_applied(leader.applied_offset)
    cut_off(world, straggler.node_id)
    return leader, straggler


def cut_off(world, node):
    world.network.partition([NAMES[node]], [name for other, name in NAMES.items() if other != node])


async def move_log_start(world, leader, *others, appends=10, size=10):
    """Two snapshots, the first of which goes, and the log before the second with it."""
    for _ in range(2):
        for _ in range(appends):
            await leader.append([random.Random(leader.applied_offset).randbytes(size)])
        snapshot = await leader.take_snapshot()
        for other in others:
            await other.wait_applied(snapshot.end_offset)
            assert await other.take_snapshot() == snapshot
    for quorum in (leader, *others):
        await world.until(lambda quorum=quorum: quorum.log.log_start_offset == snapshot.end_offset)
    return snapshot


def same_state(world):
    records = [journal.records for node, journal in world.journals.items() if node in world.quorums]
    return all(each == records[0] for each in records)


async def agreed(world, *, within_s=60):
    leader = await world.leader()
    end = leader.applied_offset
    await world.until(lambda: all(q.applied_offset >= end for q in world.quorums.values()), within_s=within_s)
    assert same_state(world)


def only_loads(journal_type):
    """A journal that was replaced by a snapshot's, and says so."""

    class Watched(journal_type):
        loads = 0
        installed = 0

        def load_snapshot(self, snapshot) -> SnapshotLoader:
            self.loads += 1
            loader = super().load_snapshot(snapshot)
            install = loader.install

            def installed():
                self.installed += 1
                install()

            loader.install = installed
            return loader

    return Watched


@pytest.mark.slow
async def test_a_follower_behind_the_log_start_gets_the_snapshot_and_goes_on(autojump_clock, small):
    leader, straggler = await two_and_a_straggler(small)
    snapshot = await move_log_start(small, leader)
    await leader.append([b"above it"])
    small.network.heal()
    await agreed(small)
    assert straggler.log.log_start_offset == snapshot.end_offset
    assert straggler.snapshots() == (snapshot,)
    await straggler.append([b"by way of it"])
    await agreed(small)
    # And after a restart, from what it was given.
    await small.stop(straggler.node_id)
    await small.start(straggler.node_id)
    await agreed(small)


async def test_a_snapshot_names_the_leader_whose_record_went_with_the_log(autojump_clock, small):
    leader = await small.start_three()
    # One of voters alone comes after the record.
    await leader.adopt_voters()
    straggler = (await small.followers())[0]
    cut_off(small, straggler.node_id)
    given = await move_log_start(small, leader)
    small.network.heal()
    await straggler.wait_applied(leader.applied_offset)
    await small.stop(straggler.node_id)
    await small.start(straggler.node_id)
    straggler = small.quorums[straggler.node_id]
    await straggler.wait_applied((await leader.append([b"above it"])).base_offset + 1)
    own = await straggler.take_snapshot()
    assert own.epoch == given.epoch == leader.epoch
    for snapshot in (given, own):
        path = f"{FOLDER}/{name_of(snapshot)}"
        with closing(small.hosts[straggler.node_id].disk.open(path)) as file:
            named = read_head(file, snapshot).leader_change
        assert read_leader_change(named).leader == leader.node_id


@pytest.mark.bug("KAFKA-15078")
async def test_an_empty_follower_gets_the_latest_snapshot_though_the_log_is_whole(autojump_clock, world):
    await world.start(1, 2)
    leader = await world.leader()
    for _ in range(20):
        await leader.append([b"x"])
    snapshot = await leader.take_snapshot()
    assert leader.log.log_start_offset == 0
    await world.start(3)
    await agreed(world)
    assert world.quorums[3].snapshots() == (snapshot,)
    assert world.quorums[3].log.log_start_offset == snapshot.end_offset


@pytest.mark.bug("etcd-io/raft 769f8a0")
async def test_a_follower_is_caught_up_by_a_snapshot_in_an_idle_group(autojump_clock, small):
    leader, straggler = await two_and_a_straggler(small)
    snapshot = await move_log_start(small, leader)
    assert snapshot.end_offset == leader.log.end_offset
    small.network.heal()
    await small.until(lambda: straggler.log.end_offset == snapshot.end_offset)
    await trio.sleep(1)
    status = next(voter for voter in leader.describe().voters if voter.key.id == straggler.node_id)
    assert status.log_end_offset == snapshot.end_offset
    assert status.last_caught_up_ms == status.last_fetch_ms


@pytest.mark.slow
@pytest.mark.bug("KAFKA-12205")
async def test_a_follower_removes_what_the_snapshots_it_fetches_replace(autojump_clock, small):
    leader, straggler = await two_and_a_straggler(small)
    for _ in range(3):
        await move_log_start(small, leader)
        small.network.heal()
        await agreed(small)
        cut_off(small, straggler.node_id)
    await trio.sleep(61)
    disk = small.hosts[straggler.node_id].disk
    left = [name for name in disk.list(FOLDER) if "checkpoint" in name and name[0] == "0"]
    assert left == [name_of(one) for one in straggler.snapshots()]
    assert len(left) == 1


async def test_a_snapshot_of_many_chunks_goes_over_in_pieces_and_is_resumed(autojump_clock, small):
    """Cut off in the middle, the follower goes on with the byte after the last it has."""
    leader, straggler = await two_and_a_straggler(small)
    await move_log_start(small, leader, appends=4, size=1024 * 1024)
    positions = []
    store = straggler._node.driver.snapshots._store
    write_part = store.write_part

    def watched(snapshot, position, data):
        positions.append((position, len(data)))
        write_part(snapshot, position, data)
        if len(positions) == 3:
            cut_off(small, straggler.node_id)

    store.write_part = watched
    small.network.heal()
    await small.until(lambda: len(positions) == 3)
    await trio.sleep(5)
    assert len(positions) <= 4
    small.network.heal()
    await agreed(small)
    assert len(positions) > 8
    ends = [position + size for position, size in positions]
    assert [position for position, _ in positions] == [0, *ends[:-1]]
    assert max(size for _, size in positions) == 1024 * 1024


async def test_a_snapshot_that_is_damaged_on_its_way_is_never_loaded(autojump_clock, small, log_lines):
    """The leader's file has rotted since it was written. When the leader has a new one, that is loaded."""
    leader, straggler = await two_and_a_straggler(small)
    snapshot = await move_log_start(small, leader)
    disk = small.hosts[leader.node_id].disk
    disk.flip(f"{FOLDER}/{name_of(snapshot)}", 300)
    before = list(small.journals[straggler.node_id].records)
    small.network.heal()
    await small.until(lambda: sum("is damaged" in line["event"] for line in log_lines) >= 2)
    assert small.journals[straggler.node_id].records == before
    assert straggler.snapshots() == ()
    assert leader.is_leader
    await move_log_start(small, leader)
    await agreed(small)


async def test_a_state_that_a_follower_can_not_load_stops_it_alone(autojump_clock, small):
    leader, straggler = await two_and_a_straggler(small)

    def load_snapshot(snapshot):
        raise ValueError("of a newer version")

    small.journals[straggler.node_id].load_snapshot = load_snapshot
    await move_log_start(small, leader)
    small.network.heal()
    with trio.fail_after(60):
        await small.ended[straggler.node_id].wait()
    assert isinstance(small.failures.pop(straggler.node_id).__cause__, StateMachineError)
    del small.quorums[straggler.node_id]
    await leader.append([b"the others go on"])
    await small.start(straggler.node_id)
    await agreed(small)


async def test_the_running_state_is_untouched_until_the_new_one_is_whole(autojump_clock, small):
    leader, straggler = await two_and_a_straggler(small)
    await move_log_start(small, leader)
    journal = small.journals[straggler.node_id]
    before = list(journal.records)
    seen = []

    def load_snapshot(snapshot):
        loader = type(journal).load_snapshot(journal, snapshot)

        class Watched:
            def add(self, chunk):
                assert journal.records == before
                seen.append(chunk)
                loader.add(chunk)

            def install(self):
                assert journal.records == before
                loader.install()

        return Watched()

    journal.load_snapshot = load_snapshot
    small.network.heal()
    await agreed(small)
    assert len(seen) == len(before) + 20


async def test_a_forwarded_append_whose_result_a_snapshot_replaced_is_said_to_be_unknown(
    autojump_clock, small, nursery
):
    """It is committed, and this node never applies it."""
    leader = await small.start_three()
    await leader.append([b"seen by all"])
    straggler = (await small.followers())[0]
    await straggler.wait_applied(leader.applied_offset)
    heard = []

    async def forward():
        with pytest.raises(OutcomeUnknownError, match="a snapshot replaced it") as raised:
            await straggler.append([b"forwarded"], timeout_ms=60_000)
        heard.append(raised.value)

    # Its fetches are parked at a leader that does not answer them, while appends go through.
    driver = straggler._node.driver
    peers = driver._routes
    send_request, driver_blocked = peers.send_request, []

    def hold(message):
        driver_blocked.append(message)

    object.__setattr__(peers, "send_request", hold)
    await leader.append([b"answers the parked fetch"])
    await trio.sleep(0.1)
    nursery.start_soon(forward)
    await small.until(lambda: b"forwarded" in small.journals[leader.node_id].records)
    await move_log_start(small, leader)
    object.__setattr__(peers, "send_request", send_request)
    for message in driver_blocked:
        send_request(message)
    peers.flush()
    await small.until(lambda: bool(heard))
    await agreed(small)
    assert small.journals[straggler.node_id].records.count(b"forwarded") == 1


@pytest.mark.slow
@pytest.mark.bug("etcd-io/raft f1f74e0")
async def test_the_leader_goes_on_while_a_follower_checks_for_longer_than_any_timeout(autojump_clock, small):
    """And the follower does not stand for election meanwhile."""
    leader, straggler = await two_and_a_straggler(small)
    await move_log_start(small, leader)
    disk = small.hosts[straggler.node_id].disk
    epoch = leader.epoch
    disk.sync_delay = lambda path: 20.0 if ".fetched" in path else 0.001
    small.network.heal()
    await trio.sleep(10)
    await leader.append([b"meanwhile"])
    assert leader.is_leader
    assert straggler.applied_offset < leader.applied_offset
    await agreed(small)
    assert leader.epoch == epoch


async def a_slow_checker(world):
    """A follower that checks a fetched snapshot for seconds; the leader, and the other follower, which has
    the same log and snapshot as the leader."""
    leader, straggler = await two_and_a_straggler(world)
    other = next(quorum for quorum in world.quorums.values() if quorum not in (leader, straggler))
    await world.crash(straggler.node_id)
    await move_log_start(world, leader, other)
    await world.start(straggler.node_id, journal=only_loads(type(world.journals[1])))
    straggler = world.quorums[straggler.node_id]
    disk = world.hosts[straggler.node_id].disk
    disk.sync_delay = lambda path: 3.0 if ".fetched" in path else 0.001
    world.network.heal()
    await world.until(lambda: any(".fetched" in name for name in disk.list(FOLDER)))
    await trio.sleep(0.5)
    assert straggler.snapshots() == ()
    return leader, straggler, other, world.journals[straggler.node_id]


async def test_a_snapshot_goes_on_being_checked_under_the_next_leader(autojump_clock, small):
    leader, _, _, journal = await a_slow_checker(small)
    await small.stop(leader.node_id)
    await agreed(small)
    assert (journal.loads, journal.installed) == (1, 1)


@pytest.mark.slow
async def test_only_the_last_of_two_snapshots_is_loaded_when_the_first_is_superseded(autojump_clock, small):
    leader, straggler, other, journal = await a_slow_checker(small)
    cut_off(small, straggler.node_id)
    latest = await move_log_start(small, leader, other)
    small.network.heal()
    await small.stop(leader.node_id)
    await agreed(small)
    assert (journal.loads, journal.installed) == (1, 1)
    assert straggler.snapshots() == (latest,)


@pytest.mark.slow
async def test_a_loaded_state_that_the_log_overtakes_is_dropped(autojump_clock, small):
    """The next leader still has all of the log, so nothing is left to install it for."""
    leader, straggler = await two_and_a_straggler(small)
    await move_log_start(small, leader)
    receiver = straggler._node.driver.snapshots.receiver
    disk = small.hosts[straggler.node_id].disk
    disk.sync_delay = lambda path: 3.0 if ".fetched" in path else 0.001
    small.network.heal()
    await small.until(lambda: receiver._wanted is not None)
    await small.stop(leader.node_id)
    await agreed(small)
    await small.until(lambda: receiver._loaded is not None)
    assert straggler.snapshots() == ()  # not of this log, though it is on the disk
    await trio.sleep(60)
    assert receiver._loaded is receiver._wanted is None
    await agreed(small)


async def test_records_that_are_being_read_to_be_applied_may_go_meanwhile(autojump_clock, small):
    leader, straggler = await two_and_a_straggler(small)
    log = straggler.log
    read, reading = log.read, []

    async def slow_read(offset, *arguments, **more):
        reading.append(offset)
        await trio.sleep(3)
        return await read(offset, *arguments, **more)

    log.read = slow_read
    log.read_tail = lambda *_, **__: None  # as if it were no longer in memory
    small.network.heal()
    await leader.append([b"fetched, and not yet applied"])
    await small.until(lambda: bool(reading))
    log.read = read
    cut_off(small, straggler.node_id)
    await move_log_start(small, leader)
    small.network.heal()
    await agreed(small)
    assert log.log_start_offset > reading[0]
    await trio.sleep(3)
    assert not small.failures
    await leader.append([b"on"])
    await agreed(small)


@pytest.mark.slow
async def test_a_snapshot_that_is_being_taken_is_given_up_for_a_later_one_that_arrives(autojump_clock, small):
    leader, straggler = await two_and_a_straggler(small)
    latest = await move_log_start(small, leader)
    disk = small.hosts[straggler.node_id].disk
    small.journals[straggler.node_id].take_snapshot = lambda: iter([bytes(6 * 1024 * 1024)] * 2)
    disk.sync_delay = lambda path: 5.0 if path.endswith("1.checkpoint.part") else 0.001
    taken = []

    async def take():
        taken.append(await straggler.take_snapshot())

    async with trio.open_nursery() as tasks:
        tasks.start_soon(take)
        await small.until(lambda: any(name.endswith("1.checkpoint.part") for name in disk.list(FOLDER)))
        small.network.heal()
        await agreed(small)
        assert not taken
    assert taken == [latest]
    assert straggler.snapshots() == (latest,)
    assert not [name for name in disk.list(FOLDER) if name.endswith(".part")]


@pytest.mark.slow
async def test_cleaning_waits_while_a_snapshot_replaces_the_log(autojump_clock, small):
    await small.start(1, 2)
    leader = await small.leader()
    small.overrides |= {"retention_bytes": 10**9, "retention_ms": 30_000}
    await small.start(3)
    straggler = small.quorums[3]
    for _ in range(2):
        await leader.append([b"x"])
        await straggler.wait_applied(leader.applied_offset)
        await straggler.take_snapshot()
    cut_off(small, 3)
    await move_log_start(small, leader)
    assert len(straggler.snapshots()) == 2
    await trio.sleep(31)  # the first has to go, at the next look
    disk = small.hosts[3].disk
    disk.sync_delay = lambda path: 70.0 if "recovery-point" in path else 0.001
    small.network.heal()
    await trio.sleep(60)
    assert straggler._node.driver._blocked
    await agreed(small, within_s=200)
    assert not small.failures
    assert len(straggler.snapshots()) == 1


async def test_fetches_under_way_cope_with_a_log_start_that_moves_past_them(autojump_clock, small):
    """The records are being read from the disk, for a follower that is far behind, when they go."""
    leader, _ = await two_and_a_straggler(small)
    for _ in range(20):
        await leader.append([b"x" * 50])
    first = await leader.take_snapshot()
    await leader.append([b"y" * 50])
    driver = leader._node.driver
    asked = []
    read = driver.log.read

    async def slow_read(*arguments, **more):
        asked.append(arguments[0])
        await trio.sleep(0.3)
        return await read(*arguments, **more)

    driver.log.read = slow_read
    driver.log._tail.clear()
    small.network.heal()
    await small.until(lambda: bool(asked))
    assert asked[0] < first.end_offset
    await leader.take_snapshot()
    await small.until(lambda: leader.log.log_start_offset > asked[0])
    driver.log.read = read
    await agreed(small)
    assert leader.is_leader
    assert not small.failures


@pytest.mark.slow
async def test_a_snapshot_that_goes_while_it_is_fetched_is_answered_with_the_next(autojump_clock, small):
    leader, straggler = await two_and_a_straggler(small)
    first = await move_log_start(small, leader, appends=4, size=1024 * 1024)
    parts = []
    store = straggler._node.driver.snapshots._store
    write_part = store.write_part

    def watched(snapshot, position, data):
        parts.append(snapshot)
        write_part(snapshot, position, data)
        if len(parts) == 2:
            cut_off(small, straggler.node_id)

    store.write_part = watched
    small.network.heal()
    await small.until(lambda: len(parts) == 2)
    second = await move_log_start(small, leader, appends=2)
    small.network.heal()
    await agreed(small)
    assert parts[:2] == [first, first]
    assert parts[-1] == second
    assert straggler.snapshots() == (second,)


async def test_asking_for_what_is_not_there_is_answered_with_what_is_wrong(autojump_clock, small):
    leader, _ = await two_and_a_straggler(small)
    snapshot = await move_log_start(small, leader)
    sender = leader._node.driver.snapshots.sender
    answers = []
    sender._answer = answers.append

    def ask(source, one, position, max_bytes):
        from quorate.raft.core.effects import SendSnapshotChunk

        response = FetchSnapshotResponse(
            source=leader.node_id,
            destination=NodeId(source),
            correlation=1,
            epoch=leader.epoch,
            snapshot=one,
            position=position,
        )
        sender.send(SendSnapshotChunk(response, max_bytes))

    missing = type(snapshot)(snapshot.end_offset + 1, snapshot.epoch)
    ask(5, missing, 0, 100)
    ask(6, snapshot, 10**9, 100)
    ask(7, snapshot, 0, 10)
    ask(7, snapshot, 0, -1)  # it has given up the one before
    await trio.sleep(1)
    found = {answer.destination: answer for answer in answers}
    assert found[5].error is ErrorCode.SNAPSHOT_NOT_FOUND
    assert found[6].error is ErrorCode.POSITION_OUT_OF_RANGE
    assert len(answers) == 3
    assert (found[7].error, found[7].length, bytes(found[7].chunk)) == (ErrorCode.NONE, 0, b"")
    assert found[7].size > 0


# Cleaning


async def test_the_log_prefix_and_the_older_snapshots_go_by_size(autojump_clock, world):
    quorum = await world.start_one(segment_bytes=2000, retention_bytes=10_000, snapshot_max_new_bytes=3000)
    sizes = []
    for _ in range(40):
        await quorum.append([bytes(500)])
        # So that the state stays small, as that of a service does whose records replace each other.
        world.journals[1].records = world.journals[1].records[-3:]
        await trio.sleep(1)
        sizes.append(quorum.log.size_bytes)
    assert quorum.log.log_start_offset in [one.end_offset for one in quorum.snapshots()]
    assert quorum.log.log_start_offset > 0
    assert len(quorum.snapshots()) >= 2
    assert max(sizes) < 10_000 + 2 * 3000
    records = list(world.journals[1].records)
    start = quorum.log.log_start_offset
    await world.stop(1)
    await world.start(1)
    await world.leader()
    assert world.quorums[1].log.log_start_offset == start
    assert world.journals[1].records[-3:] == records


@pytest.mark.slow
async def test_old_snapshots_are_deleted_by_age(autojump_clock, world):
    quorum = await world.start_one(retention_ms=600_000)
    taken = []
    for _ in range(3):
        await quorum.append([b"x"])
        taken.append(await quorum.take_snapshot())
        await trio.sleep(200)
    assert quorum.snapshots() == tuple(taken)
    await trio.sleep(65)
    assert quorum.snapshots() == tuple(taken[1:])
    assert quorum.log.log_start_offset == taken[1].end_offset
    await trio.sleep(2000)
    assert quorum.snapshots() == tuple(taken[2:])  # there is always one


async def test_the_telemetry_hears_of_snapshots_and_of_the_log_they_begin(autojump_clock, small):
    heard = []

    class Telemetry(NoTelemetry):
        def snapshot_taken(self, size_bytes):
            heard.append(("taken", size_bytes))

        def snapshot_loaded(self, size_bytes):
            heard.append(("loaded", size_bytes))

        def log_end_offset(self, end_offset, epoch):
            heard.append(("log end", end_offset, epoch))

    for node in (1, 2, 3):
        small.telemetries[node] = Telemetry()
    leader, _ = await two_and_a_straggler(small)
    del small.telemetries
    await move_log_start(small, leader)
    taken = [each for each in heard if each[0] == "taken"]
    assert len(taken) == 2
    small.network.heal()
    await agreed(small)
    loaded = heard.index(("loaded", taken[-1][1]))
    assert heard[loaded + 1][:2] == ("log end", leader.snapshots()[-1].end_offset)


@pytest.mark.slow
@pytest.mark.bug("etcd-io/raft e515a67")
async def test_a_node_that_loads_a_snapshot_uses_its_voter_set(autojump_clock, small):
    """The node never saw the log that named them."""
    entropy = Entropy(random.Random(3))
    small.voters = VoterSet(())
    small.first_voters = VoterSet(
        tuple(
            Voter(ReplicaKey(NodeId(node), uuid_text(entropy.uuid())), Endpoint(f"node-{node}", 9093))
            for node in (1, 2, 3)
        )
    )
    leader, straggler = await two_and_a_straggler(small)
    snapshot = await move_log_start(small, leader)
    await small.crash(straggler.node_id)
    small.network.heal()
    await small.start(straggler.node_id)
    await agreed(small)
    straggler = small.quorums[straggler.node_id]
    assert straggler.voters == small.first_voters
    assert straggler.snapshots() == (snapshot,)
    other = next(q for q in small.quorums.values() if q not in (leader, straggler))
    await small.crash(other.node_id)
    await leader.append([b"the straggler's vote matters"])
    await agreed(small)


async def test_a_leader_that_was_deposed_gives_no_chunk(autojump_clock, small):
    leader, straggler = await two_and_a_straggler(small)
    await move_log_start(small, leader)
    driver = leader._node.driver
    sent = []
    send = driver._routes.send_response
    object.__setattr__(driver._routes, "send_response", lambda message, body: sent.append(message))
    response = FetchSnapshotResponse(
        source=leader.node_id,
        destination=straggler.node_id,
        correlation=1,
        epoch=leader.epoch,
        snapshot=leader.snapshots()[-1],
    )
    driver.answer_snapshot_fetch(response)
    assert sent == [response]
    leader.resign()
    driver.answer_snapshot_fetch(response)
    assert sum(message is response for message in sent) == 1
    object.__setattr__(driver._routes, "send_response", send)
    with pytest.raises(NotLeaderError):
        leader.describe()


async def test_a_restart_from_a_fetched_snapshot_and_the_log_gives_the_same_state(autojump_clock, small):
    leader, straggler = await two_and_a_straggler(small)
    await move_log_start(small, leader)
    small.network.heal()
    await agreed(small)
    for number in range(15):
        await leader.append([b"above %d" % number])
    await agreed(small)
    records = list(small.journals[straggler.node_id].records)
    await small.crash(straggler.node_id, power_loss=True)
    journal = type(small.journals[leader.node_id])()
    async with Quorum.open(
        small.config(straggler.node_id), journal, runtime=small.runtime(straggler.node_id)
    ) as again:
        with trio.fail_after(60):
            await again.wait_applied(leader.applied_offset)
        assert journal.records == records
