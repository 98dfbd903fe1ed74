"""A snapshot restored into a new cluster: what it keeps, what it refuses, and what a failure leaves."""

import random
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field

import pytest
import trio

from quorate.log.log_errors import DamagedSnapshotError
from quorate.log.snapshots.snapshot_file import name_of
from quorate.raft import (
    CommittedBatch,
    QuorumConfigError,
    RestoreRefusedError,
    Session,
    Sessions,
    restore_folder,
)
from quorate.raft.quorum_config import parse_voters
from quorate.raft.sessions.session_records import SessionAppend, encode_command
from quorate.raft.sessions.session_table import Verdict
from quorate.raft.storage.restoring import EPOCH_GAP, OFFSET_GAP, restored_id
from quorate.raft.storage.storage import LOG_FOLDER, format_folder
from quorate.runtime.disk import DiskError, read_file
from quorate.runtime.entropy import Entropy, uuid_text
from quorate.simulation.world.simulated_disk import DiskOperation
from quorate.simulation.world.simulated_runtime import SimulatedRuntime
from quorate.types import Endpoint, NodeId, ReplicaKey, Voter, VoterSet
from tests.kit.cut_disk import CutDisk

OLD_LOG = f"data/{LOG_FOLDER}"


@dataclass
class Words:
    words: list[str] = field(default_factory=list)

    def apply(self, batch: CommittedBatch) -> Sequence[int]:
        results = []
        for record in batch.records:
            self.words.append(record.decode())
            results.append(len(self.words))
        return results


@dataclass
class Sums:
    total: int = 0

    def apply(self, batch: CommittedBatch) -> Sequence[None]:
        return [None] * len(batch.records)


async def backup_of(world, *, machine=Words, words=("a", "b", "c")):
    """The name and the bytes of a snapshot of a cluster that has gone on since."""
    await world.start(1, 2, 3, journal=machine)
    leader = await world.leader()
    for word in words:
        await leader.append([word.encode()])
    return await taken(world, leader)


async def taken(world, quorum):
    snapshot = await quorum.take_snapshot()
    return name_of(snapshot), read_file(world.hosts[quorum.node_id].disk, f"{OLD_LOG}/{name_of(snapshot)}")


async def put(disk, path, data):
    disk.make_folder(path.rpartition("/")[0])
    file = disk.open(path, create=True)
    file.append([data])
    await file.sync()
    file.close()


async def restore(world, backup, *nodes, machine=Words, voters=None):
    """Restore the backup on new hosts in the place of these."""
    name, data = backup
    world.overrides["cluster_id"] = "restored"
    for node in nodes:
        host = world.hosts[node] = SimulatedRuntime(f"node-{node}", world.network, random.Random(500 + node))
        await put(host.disk, f"backup/{name}", data)
        await restore_folder(
            host.runtime(),
            "data",
            f"backup/{name}",
            state_machine=machine(),
            cluster_id="restored",
            node_id=NodeId(node),
            voters=voters,
        )


@pytest.mark.bug("etcd issue 16028")
async def test_a_restored_cluster_has_the_state_and_gives_no_offset_and_no_epoch_again(autojump_clock, world):
    backup = await backup_of(world)
    old = await world.leader()
    await old.append([b"lost"])
    last = (old.applied_offset, old.epoch)
    snapshot = old.snapshots()[-1]
    for node in (1, 2, 3):
        await world.stop(node)
    await restore(world, backup, 1, 2, 3)
    await world.start(1, 2, 3, journal=Words)
    leader = await world.leader()
    appended = await leader.append([b"d"])
    assert appended.results == (4,)
    assert appended.base_offset > last[0] + OFFSET_GAP - 10
    assert appended.epoch > last[1] + EPOCH_GAP - 10
    assert leader.log.log_start_offset == restored_id(snapshot).end_offset
    for node in (1, 2, 3):
        await world.quorums[node].wait_applied(leader.applied_offset)
        assert world.journals[node].words == ["a", "b", "c", "d"]
        await world.quorums[node].take_snapshot()
        await world.stop(node)
    await world.start(1, 2, 3, journal=Words)
    assert (await (await world.leader()).append([b"e"])).results == (5,)


@pytest.mark.slow
@pytest.mark.bug("etcd issue 6361")
@pytest.mark.bug("etcd PR 20339")
async def test_one_restored_voter_is_the_only_one_until_others_are_added(autojump_clock, world):
    """Of the three voters in the snapshot none counts."""
    entropy = Entropy(random.Random(1))
    old = tuple(
        Voter(ReplicaKey(NodeId(node), uuid_text(entropy.uuid())), Endpoint(f"node-{node}", 9093))
        for node in (1, 2, 3)
    )
    world.first_voters = VoterSet(old)
    world.overrides["voters"] = VoterSet(())
    backup = await backup_of(world)
    for node in (1, 2, 3):
        await world.stop(node)
    alone = VoterSet((Voter(ReplicaKey(NodeId(1)), Endpoint("node-1", 9093)),))
    await restore(world, backup, 1, voters=alone)
    for _ in range(2):
        await world.start(1, journal=Words)
        quorum = await world.leader()
        assert quorum.voters.ids == (1,)
        await quorum.append([b"x"])
        await quorum.take_snapshot()
        await world.stop(1)
    await world.start(1, journal=Words)
    world.first_voters = None
    world.overrides["bootstrap"] = (Endpoint("node-1", 9093),)
    del world.hosts[2], world.hosts[3]
    for node in (2, 3):
        host = world.hosts[node] = SimulatedRuntime(f"node-{node}", world.network, random.Random(700 + node))
        await format_folder(host.runtime(), "data", cluster_id="restored", node_id=NodeId(node))
        await world.start(node, journal=Words)
        added = world.quorums[node]
        await world.until(lambda added=added: added.leader == 1)
        await (await world.leader()).add_voter(Voter(added._node.key, Endpoint(f"node-{node}", 9093)))
    leader = await world.leader()
    await leader.append([b"y"])
    for node in (1, 2, 3):
        await world.quorums[node].wait_applied(leader.applied_offset)
        await world.quorums[node].take_snapshot()
    await trio.sleep(10)
    assert leader.state_check.equal == (2, 3)
    assert world.journals[3].words == ["a", "b", "c", "x", "x", "y"]


@pytest.mark.slow
@pytest.mark.bug("etcd issue 8169")
async def test_a_node_of_the_old_cluster_that_still_runs_is_no_member_of_the_restored(autojump_clock, world):
    backup = await backup_of(world)
    for node in (1, 2):
        await world.stop(node)
    old = world.quorums.pop(3)
    await restore(world, backup, 1, 2)
    await world.start(1, 2, journal=Words)
    leader = await world.leader()
    await leader.append([b"new"])
    await trio.sleep(60)
    assert leader.is_leader, "the old node disturbs nobody"
    assert old.leader is None
    assert world.journals[3].words == ["a", "b", "c"]
    world.quorums[3] = old


async def test_an_append_that_a_session_repeats_is_answered_or_refused_and_not_applied_again(
    autojump_clock, world
):
    await world.start(1, 2, 3, journal=lambda: Sessions(Words()))
    old = await world.leader()
    async with Session.open(old) as before:
        first = await before.append([b"once"])
        backup = await taken(world, old)
        async with Session.open(old) as after:
            await after.append([b"lost"])
            for node in (1, 2, 3):
                await world.crash(node)
    await restore(world, backup, 1, 2, 3, machine=lambda: Sessions(Words()))
    await world.start(1, 2, 3, journal=lambda: Sessions(Words()))
    leader = await world.leader()

    async def repeat(session):
        command = SessionAppend(session=session.id, sequence=0, first_open=0, count=1)
        return (await leader.append([encode_command(command), b"again"])).results[0]

    answer = await repeat(before)
    assert (answer.verdict, answer.kept.base_offset) == (Verdict.APPLIED, first.base_offset)
    assert (await repeat(after)).verdict is Verdict.LOST
    async with Session.open(leader) as new:
        assert new.id > after.id + OFFSET_GAP - 10
        assert (await new.append([b"second"])).results == (2,)


# Refusals


@pytest.fixture
async def backup(autojump_clock, world):
    made = await backup_of(world)
    for node in (1, 2, 3):
        await world.stop(node)
    return made


class Restoring:
    """A host with a backup, to restore from."""

    def __init__(self, world, backup, *, disk=None):
        self.name, self.data = backup
        self.host = SimulatedRuntime("node-1", world.network, random.Random(9))
        if disk is not None:
            self.host.disk = disk
        self.disk = self.host.disk

    async def __call__(self, *, folder="data", name=None, data=None, machine=Words, voters=None):
        path = f"backup/{name or self.name}"
        if not self.disk.exists(path):
            await put(self.disk, path, self.data if data is None else data)
        return await restore_folder(
            self.host.runtime(), folder, path,
            state_machine=machine(), cluster_id="new", node_id=NodeId(1), voters=voters,
        )  # fmt: skip

    @property
    def untouched(self):
        return self.disk.list("data") in ([], [".lock"])


async def test_a_folder_that_is_not_empty_is_refused(backup, world):
    restoring = Restoring(world, backup)
    await restoring()
    for _ in range(2):
        with pytest.raises(RestoreRefusedError, match=r"data is not empty .*meta\.properties.* new folder"):
            await restoring()
    await format_folder(restoring.host.runtime(), "formatted", cluster_id="c", node_id=NodeId(1))
    with pytest.raises(RestoreRefusedError, match="is not empty"):
        await restoring(folder="formatted")
    await put(restoring.disk, "other/file", b"of the user's")
    with pytest.raises(RestoreRefusedError, match=r"other is not empty \(file\)"):
        await restoring(folder="other")
    assert restoring.disk.list("other") == ["file"]


@pytest.mark.bug("etcd PR 10109")
async def test_a_damaged_backup_is_refused_with_the_place_and_touches_nothing(backup, world):
    data = backup[1]
    draw = random.Random(3)
    damaged = [data[:size] for size in range(0, len(data), 29)] + [data + b"x"]
    for _ in range(100):
        flipped = bytearray(data)
        flipped[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
        damaged.append(bytes(flipped))
    for each in damaged:
        restoring = Restoring(world, backup)
        with pytest.raises(DamagedSnapshotError) as refused:
            await restoring(data=each)
        assert refused.value.position <= len(data)
        assert restoring.untouched


@pytest.mark.slow
@pytest.mark.costly
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"machine": Sums}, "the state machine can't load .*SchemaError: .* of another state machine"),
        ({"machine": lambda: Sessions(Sums())}, "can't load"),
        ({"name": "backup.checkpoint"}, "not the name of a snapshot"),
        ({"name": "00000000000000000000-0000000000.checkpoint"}, "not the name of a snapshot"),
        ({"voters": parse_voters("2@node-2:1,3@node-3:1")}, "node 1 is not among the voters .2@node-2:1"),
    ],
)
async def test_what_would_not_start_is_refused(backup, world, arguments, message):
    restoring = Restoring(world, backup)
    with pytest.raises(RestoreRefusedError, match=message):
        await restoring(**arguments)
    assert restoring.untouched


async def test_voters_need_the_directory_ids_that_their_folders_will_get(backup, world):
    restoring = Restoring(world, backup)
    with pytest.raises(QuorumConfigError, match="voter 2 has no directory id"):
        await restoring(voters=parse_voters("1@node-1:1,2@node-2:1"))
    assert restoring.untouched


async def test_a_file_that_is_not_there_is_refused(backup, world):
    restoring = Restoring(world, backup)
    with pytest.raises(RestoreRefusedError, match="there is no file backup/0"):
        await restore_folder(
            restoring.host.runtime(), "data", f"backup/{backup[0]}",
            state_machine=Words(), cluster_id="new", node_id=NodeId(1),
        )  # fmt: skip


@pytest.mark.slow
async def test_the_id_of_the_old_cluster_is_refused_where_it_can_be_known(backup, world):
    restoring = Restoring(world, backup)
    await format_folder(restoring.host.runtime(), "old", cluster_id="same", node_id=NodeId(1))
    await put(restoring.disk, f"old/{LOG_FOLDER}/{backup[0]}", backup[1])
    with pytest.raises(RestoreRefusedError, match="same is the id of the cluster that the snapshot is of"):
        await restore_folder(
            restoring.host.runtime(), "data", f"old/{LOG_FOLDER}/{backup[0]}",
            state_machine=Words(), cluster_id="same", node_id=NodeId(1),
        )  # fmt: skip
    assert restoring.untouched


@pytest.mark.costly
@pytest.mark.bug("Consul PR 2675")
@pytest.mark.parametrize("operation", [DiskOperation.APPEND, DiskOperation.SYNC, DiskOperation.RENAME])
async def test_a_restore_that_fails_leaves_an_empty_folder_and_can_be_repeated(backup, world, operation):
    failures = 0
    while True:
        restoring = Restoring(world, backup)
        await put(restoring.disk, f"backup/{backup[0]}", backup[1])
        restoring.disk.fail(operation, path_part="data/", skip=failures)
        try:
            await restoring()
        except DiskError:
            assert restoring.untouched, f"after failure {failures}"
            await restoring()
            failures += 1
        else:
            break
    assert failures >= 2


async def test_a_restore_that_was_killed_is_no_node_and_says_what_to_do(backup, world):
    """Wherever it was: it counts as restored only at its last step."""
    cuts = whole = 0
    while not whole:
        disk = CutDisk(sync_delay=lambda path: 0.001)
        restoring = Restoring(world, backup, disk=disk)
        await put(disk, f"backup/{backup[0]}", backup[1])
        disk.operations_left = cuts
        with suppress(DiskError):
            await restoring()
        disk.operations_left = None
        disk.crash_process()
        if disk.exists("data/meta.properties"):
            whole = 1
            world.hosts[1] = restoring.host
            world.overrides |= {"cluster_id": "new", "voters": parse_voters("1@node-1:9093")}
            await world.start(1, journal=Words)
            assert (await (await world.leader()).append([b"d"])).results == (4,)
        elif not restoring.untouched:
            with pytest.raises(RestoreRefusedError, match="is not empty"):
                await restoring()
        cuts += 1
    assert cuts > 10
