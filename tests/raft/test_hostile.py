"""Mistakes of operators and the malice of unknown peers, each met by a clear error and with nothing lost."""

import os
import random
import struct
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import trio

from quorate.error_code import ErrorCode
from quorate.log.batches.control import ControlType, snapshot_header_batch
from quorate.log.batches.records import RecordContent, build_keyed_batch
from quorate.log.log_errors import LogError
from quorate.log.snapshots.snapshot_file import name_of
from quorate.quorum_state.quorum_state_errors import QuorumStateError
from quorate.raft.core.messages import BeginQuorumEpochRequest, EndQuorumEpochRequest, VoteRequest
from quorate.raft.quorum import Quorum
from quorate.raft.quorum_config import QuorumConfigError, parse_voters
from quorate.raft.quorum_errors import InvalidAppendError, QuorumStoppedError
from quorate.raft.storage.storage import format_folder
from quorate.raft.transport.frames import PREFACE, FrameReader
from quorate.raft.transport.raft_codec import decode, encode
from quorate.runtime.disk import write_file_atomically
from quorate.runtime.network import Address
from quorate.simulation.world.simulated_runtime import SimulatedRuntime
from quorate.types import Endpoint, Epoch, NodeId, Offset, ReplicaKey

CLUSTER_ID = "driver-tests"
FOLDER = "data/__cluster_metadata-0"
FUZZ = Path(__file__).parents[2] / "scripts" / "fuzz"


async def answers(world, node, *messages):
    """The answers to an unknown peer with these requests, one after the other."""
    stream = await world.dial(node)
    reader = FrameReader(stream, max_frame_bytes=32 << 20)
    await stream.send([PREFACE])
    told = []
    for message in messages:
        await stream.send(encode(message))
        with trio.fail_after(10):
            told += [decode(frame) for frame in await reader.receive()]
    stream.close()
    return told


def claim(kind, node, epoch, **more):
    return kind(
        source=NodeId(99),
        destination=node,
        correlation=1,
        cluster_id=CLUSTER_ID,
        epoch=Epoch(epoch),
        **more,
    )


async def test_an_outside_id_that_claims_an_epoch_that_has_a_leader_is_refused_and_stops_nobody(
    autojump_clock, world
):
    leader = await world.start_three()
    await world.followers()
    for node in (1, 2, 3):
        begin = claim(
            BeginQuorumEpochRequest,
            NodeId(node),
            leader.epoch,
            voter=ReplicaKey(NodeId(node)),
            endpoint=Endpoint("outside", 9093),
        )
        end = claim(EndQuorumEpochRequest, NodeId(node), leader.epoch, preferred_successors=(NodeId(99),))
        told = await answers(world, node, begin, end)
        assert [answer.error for answer in told] == [ErrorCode.INVALID_REQUEST] * 2
    assert (await leader.append([b"goes on"])).epoch == leader.epoch
    assert world.failures == {}


@pytest.mark.slow
async def test_events_that_wait_behind_the_disk_are_bounded(autojump_clock, world):
    """Every one of these votes, under a voter's id, is for a later epoch, which costs two syncs; they come
    faster."""
    leader = await world.start_three()
    driver = leader._node.driver
    liar = NodeId(leader.node_id % 3 + 1)
    votes = [
        VoteRequest(
            source=liar,
            destination=leader.node_id,
            correlation=1,
            cluster_id=CLUSTER_ID,
            epoch=Epoch(100 + number),
            voter=ReplicaKey(leader.node_id),
            candidate=ReplicaKey(liar),
            last_epoch=Epoch(50),
            end_offset=Offset(10**6),
            pre_vote=False,
        )
        for number in range(12_000)
    ]
    stream = await world.dial(leader.node_id)
    most = 0
    async with trio.open_nursery() as nursery:
        data = b"".join(bytes(part) for vote in votes for part in encode(vote))
        nursery.start_soon(stream.send, [PREFACE + data])
        for _ in range(3000):
            await trio.sleep(0.001)
            most = max(most, len(driver._events))
        nursery.cancel_scope.cancel()
    stream.close()
    one_receive = 256 * 1024 // (len(data) // len(votes))
    assert 0 < most <= 1000 + one_receive, "no more is read than what was received when it was too much"
    assert world.failures == {}


@pytest.mark.slow
async def test_two_nodes_with_one_id_are_named_once_with_the_remedy(autojump_clock, world, log_lines):
    leader = await world.start_three()
    victim = (await world.followers())[0].node_id
    host = SimulatedRuntime("twin", world.network, random.Random(9))
    await format_folder(host.runtime(), "data", cluster_id=CLUSTER_ID, node_id=victim)
    config = replace(world.config(victim), listen=Address("twin", 9093))
    log_lines.clear()
    async with Quorum.open(config, type(world.journals[1])(), runtime=host.runtime()):
        for _ in range(10):
            await leader.append([b"x"])
            await trio.sleep(0.5)
    told = [line for line in log_lines if line["event"] == "two nodes have one id"]
    assert len(told) == 1 and told[0]["node"] == victim
    assert len(set(told[0]["directories"])) == 2
    assert "stop the one that does not belong here" in told[0]["reason"]


async def test_a_disk_that_was_replaced_is_no_second_node(autojump_clock, world, log_lines):
    leader = await world.start_three()
    victim = (await world.followers())[0].node_id
    await world.stop(victim)
    world.replace_disk(victim)
    await world.start(victim)
    for _ in range(10):
        await leader.append([b"x"])
        await trio.sleep(0.5)
    assert "two nodes have one id" not in [line["event"] for line in log_lines]


async def test_voter_lists_that_disagree_are_both_named(autojump_clock, world, log_lines):
    await world.start(1, 2)
    leader = await world.leader()
    world.overrides["voters"] = parse_voters("1@node-1:9093,3@node-3:9093,4@node-2:9093")
    log_lines.clear()
    await world.start(3)
    for _ in range(10):
        await leader.append([b"x"])
        await trio.sleep(0.5)
    (told,) = [line for line in log_lines if line["event"].startswith("the leader counts other voters")]
    assert (told["its_voters"], told["own_voters"]) == ([1, 2, 3], [1, 3, 4])
    assert "make voters the same on every node" in told["reason"]


async def test_voter_lists_in_another_order_are_the_same(autojump_clock, world, log_lines):
    await world.start(1, 2)
    world.overrides["voters"] = parse_voters("3@node-3:9093,2@node-2:9093,1@node-1:9093")
    await world.start(3)
    await world.followers()
    await trio.sleep(3)
    assert not [line for line in log_lines if line["event"].startswith("the leader counts other voters")]


def test_an_id_that_is_listed_twice_is_refused():
    with pytest.raises(QuorumConfigError, match="1@b:2"):
        parse_voters("1@a:1,1@b:2")


@pytest.mark.parametrize(
    ("name", "old", "new", "error", "said"),
    [
        ("data/meta.properties", b"version=1", b"version=2", QuorumStateError, "version"),
        (
            f"{FOLDER}/quorum-state",
            b'"data_version":1',
            b'"data_version":3',
            QuorumStateError,
            "data_version is 3",
        ),
        (f"{FOLDER}/recovery-point-offset-checkpoint", b"0\n", b"1\n", LogError, "version '1' is not 0"),
        (f"{FOLDER}/replication-offset-checkpoint", b"0\n", b"1\n", LogError, "version '1' is not 0"),
    ],
)
async def test_a_file_of_a_later_version_is_refused_by_name_and_left_as_it_is(
    autojump_clock, world, name, old, new, error, said
):
    quorum = await world.start_one()
    await quorum.append([b"kept"])
    await world.stop(1)
    disk = world.hosts[1].disk
    before = disk.content(name)
    assert old in before
    newer = before.replace(old, new, 1)
    await write_file_atomically(disk, name, newer)
    with pytest.raises(error, match=said) as raised:
        async with Quorum.open(world.config(1), world.journals[1], runtime=world.runtime(1)):
            pass
    assert name in str(raised.value)
    assert disk.content(name) == newer
    await write_file_atomically(disk, name, before)
    await world.start(1)
    await world.leader()
    assert world.journals[1].records == [b"kept"], "nothing is lost by it"


async def test_a_log_of_a_later_format_is_refused_by_name_and_left_as_it_is(autojump_clock, world):
    quorum = await world.start_one()
    await quorum.append([b"kept"])
    await world.stop(1)
    disk = world.hosts[1].disk
    name = f"{FOLDER}/00000000000000000000.log"
    before = disk.content(name)
    newer = before[:16] + b"\x03" + before[17:]  # the magic byte
    await write_file_atomically(disk, name, newer)
    with pytest.raises(LogError) as raised:
        async with Quorum.open(world.config(1), world.journals[1], runtime=world.runtime(1)):
            pass
    assert name in str(raised.value)
    assert disk.content(name) == newer


async def test_a_log_of_a_later_kraft_version_is_refused_by_name_and_left_as_it_is(autojump_clock, world):
    """Its voters may mean what this version does not know."""
    await world.start_one()
    await world.stop(1)
    disk = world.hosts[1].disk
    name = f"{FOLDER}/00000000000000000000.log"
    key, value = struct.pack(">hh", 0, ControlType.KRAFT_VERSION), struct.pack(">hhb", 0, 2, 0)
    later = disk.content(name) + build_keyed_batch(
        base_offset=1, epoch=1, timestamp_ms=0, records=[RecordContent(key, value)], control=True
    )
    await write_file_atomically(disk, name, later)
    with pytest.raises(LogError, match=r"kraft\.version 2 is not known") as raised:
        async with Quorum.open(world.config(1), world.journals[1], runtime=world.runtime(1)):
            pass
    assert name in str(raised.value)
    assert "Start the version of quorate that wrote it" in str(raised.value)
    assert disk.content(name) == later


async def test_a_snapshot_of_a_later_format_is_refused_by_name_and_left_as_it_is(autojump_clock, world):
    quorum = await world.start_one(retention_bytes=1, segment_bytes=1024)
    for number in range(100):
        await quorum.append([b"%0100d" % number])
        if number % 50 == 49:
            snapshot = await quorum.take_snapshot()
    with trio.fail_after(300):
        while quorum.log.log_start_offset < snapshot.end_offset:  # noqa: ASYNC110
            await trio.sleep(1)
    await world.stop(1)
    disk = world.hosts[1].disk
    name = f"{FOLDER}/{name_of(snapshot)}"
    before = disk.content(name)
    header = snapshot_header_batch(base_offset=0, epoch=snapshot.epoch, timestamp_ms=0)
    newer = build_keyed_batch(
        base_offset=0,
        epoch=snapshot.epoch,
        timestamp_ms=0,
        records=[
            RecordContent(struct.pack(">hh", 0, ControlType.SNAPSHOT_HEADER), struct.pack(">hqb", 1, 0, 0))
        ],
        control=True,
    )
    assert len(newer) == len(header)
    await write_file_atomically(disk, name, newer + before[len(newer) :])
    with pytest.raises(LogError, match="version 1 is not known") as raised:
        async with Quorum.open(world.config(1), world.journals[1], runtime=world.runtime(1)):
            pass
    assert name in str(raised.value)
    assert "Start the version of quorate that wrote it" in str(raised.value)
    assert disk.content(name) == newer + before[len(newer) :]
    await write_file_atomically(disk, name, before)
    await world.start(1)
    await world.leader()
    assert len(world.journals[1].records) == 100


@pytest.mark.bug("KAFKA-14996")
async def test_appends_after_the_stop_and_appends_too_large_change_nothing(autojump_clock, world):
    """What is too large changes no leader."""
    quorum = await world.start_one()
    epoch = quorum.epoch
    limit = world.config(1).max_batch_bytes
    for records in ([bytes(limit + 1)], [bytes(limit // 2 + 1)] * 2, [b""] * (limit // 20 + 1), []):
        with pytest.raises(InvalidAppendError):
            await quorum.append(records)
    assert (quorum.is_leader, quorum.epoch) == (True, epoch)
    await quorum.append([b"kept"])
    await world.stop(1)
    with pytest.raises(QuorumStoppedError):
        await quorum.append([b"too late"])
    with pytest.raises(QuorumStoppedError):
        quorum.append_nowait([b"too late"])
    with pytest.raises(QuorumStoppedError):
        await quorum.wait_read_index()
    await world.start(1)
    await world.leader()
    assert world.journals[1].records == [b"kept"]


@pytest.mark.slow
def test_no_mutated_frame_stops_a_node() -> None:
    """A share of what `make fuzz` sends: a million."""
    frames = os.environ.get("QUORATE_FUZZ_FRAMES", "20000")
    done = subprocess.run(
        [sys.executable, str(FUZZ), "--frames", frames], capture_output=True, text=True, timeout=1200
    )
    print(done.stdout)
    assert done.returncode == 0, done.stdout + done.stderr
