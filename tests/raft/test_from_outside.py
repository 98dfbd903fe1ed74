"""The requests of a program outside the quorum to one of its nodes, over the controller listener."""

from contextlib import asynccontextmanager, suppress

import cbor2
import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from quorate.error_code import ErrorCode
from quorate.raft.quorum_description import CodeSupport, QuorumDescription, ReplicaStatus, StateAt
from quorate.raft.quorum_errors import (
    OutcomeUnknownError,
    PeerProtocolError,
    QuorumError,
    RequestRefusedError,
    SnapshotNotTakenError,
)
from quorate.raft.transport.channel import Channel
from quorate.raft.transport.description_frames import STATES_MAX, QuorumView, decode_view, encode_view
from quorate.raft.transport.frames import RESPONSE, FrameKind, decode_frame, encode_frame
from quorate.runtime.network import Address
from quorate.types import Endpoint, Epoch, NodeId, Offset, ReplicaKey, SnapshotId

CLUSTER_ID = "driver-tests"


@asynccontextmanager
async def channel_to(world, node, *, cluster_id=CLUSTER_ID):
    channel = await Channel.connect(
        world.network.for_node("outside"),
        Address(f"node-{node}", 9093),
        cluster_id=cluster_id,
        max_frame_bytes=1 << 20,
        max_append_bytes=1 << 20,
    )
    async with trio.open_nursery() as nursery:
        nursery.start_soon(channel.run)
        yield channel
        nursery.cancel_scope.cancel()


async def test_a_node_tells_its_cluster_and_its_leader_to_a_client_that_knows_only_its_address(
    autojump_clock, world
):
    leader = await world.start_three()
    await world.followers()
    await leader.append([b"something"])
    for node in (1, 2, 3):
        async with channel_to(world, node, cluster_id="") as channel:
            view = await channel.describe_quorum()
        assert (view.cluster_id, view.leader, view.epoch) == (CLUSTER_ID, leader.node_id, leader.epoch)
        assert view.leader_endpoint == Endpoint(f"node-{leader.node_id}", 9093)
        assert (view.description is not None) == (node == leader.node_id)
        if view.description is not None:
            assert view.description.high_watermark == leader.high_watermark
            assert [(status.key.id, status.endpoint) for status in view.description.voters] == [
                (number, Endpoint(f"node-{number}", 9093)) for number in (1, 2, 3)
            ]


async def test_every_node_asks_the_leader_for_the_description(autojump_clock, world):
    leader = await world.start_three()
    await world.followers()
    for quorum in world.quorums.values():
        assert (await quorum.ask_description()).leader == leader.node_id


async def test_a_request_of_another_cluster_gets_no_description(autojump_clock, world):
    await world.start_one()
    async with channel_to(world, 1, cluster_id="another") as channel:
        with pytest.raises(OutcomeUnknownError):
            await channel.describe_quorum()


async def test_only_a_description_may_be_asked_for_without_naming_the_cluster(autojump_clock, world):
    await world.start_one()
    async with channel_to(world, 1, cluster_id="") as channel:
        with pytest.raises(OutcomeUnknownError):
            await channel.take_snapshot()
    assert world.quorums[1].snapshots() == ()


async def test_a_snapshot_is_taken_on_the_node_that_was_asked(autojump_clock, world):
    leader = await world.start_three()
    follower = (await world.followers())[0]
    async with channel_to(world, follower.node_id) as channel:
        await leader.append([b"kept"])
        await follower.wait_read_index()
        taken = await channel.take_snapshot()
    assert taken.end_offset == follower.applied_offset
    assert follower.snapshots() == (taken,)
    assert leader.snapshots() == ()


async def test_a_snapshot_that_was_not_taken_is_answered_with_the_reason(autojump_clock, world):
    quorum = await world.start_one()
    await quorum.append([b"kept"])

    def fails():
        raise ValueError("this state can't be written")

    world.journals[1].take_snapshot = fails
    async with channel_to(world, 1) as channel:
        with pytest.raises(SnapshotNotTakenError, match="this state can't be written"):
            await channel.take_snapshot()
        assert (await channel.describe_quorum()).leader == 1


async def read_all(channel, snapshot, *, max_bytes):
    data, size = b"", 1
    while len(data) < size:
        chunk, size = await channel.read_snapshot(snapshot, position=len(data), max_bytes=max_bytes)
        assert 0 < len(chunk) <= max_bytes
        data += chunk
    return data


async def test_the_snapshots_of_a_node_are_listed_and_read_and_no_replica_is_added(autojump_clock, world):
    leader = await world.start_three()
    await leader.append([b"kept" * 50])
    async with channel_to(world, leader.node_id) as channel:
        assert await channel.list_snapshots() == ()
        taken = await channel.take_snapshot()
        (listed,) = await channel.list_snapshots()
        assert listed.snapshot == taken
        data = await read_all(channel, taken, max_bytes=64)
        assert len(data) == listed.size_bytes
        view = await channel.describe_quorum()
    assert view.description.observers == ()
    disk = world.runtime(leader.node_id).disk
    name = f"data/__cluster_metadata-0/{taken.end_offset:020}-{taken.epoch:010}.checkpoint"
    file = disk.open(name)
    assert data == file.read_at(0, file.size)
    file.close()


@pytest.mark.parametrize(
    ("end_offset", "position", "code"),
    [(0, 0, ErrorCode.POSITION_OUT_OF_RANGE), (0, 10_000, ErrorCode.POSITION_OUT_OF_RANGE),
     (1, 0, ErrorCode.SNAPSHOT_NOT_FOUND)],
)  # fmt: skip
async def test_a_request_for_bytes_outside_a_snapshot_is_refused(
    autojump_clock, world, end_offset, position, code
):
    """`end_offset`: above that of the snapshot that is there."""
    leader = await world.start_three()
    await leader.append([b"kept"])
    async with channel_to(world, leader.node_id) as channel:
        taken = await channel.take_snapshot()
        asked = SnapshotId(taken.end_offset + end_offset, taken.epoch)
        if (end_offset, position) == (0, 0):
            position = (await channel.list_snapshots())[0].size_bytes
        with pytest.raises(RequestRefusedError) as refused:
            await channel.read_snapshot(asked, position=position, max_bytes=100)
        assert refused.value.code is code
        assert await read_all(channel, taken, max_bytes=1 << 30)


async def test_a_reader_of_snapshots_must_name_the_cluster(autojump_clock, world):
    leader = await world.start_three()
    taken = await leader.take_snapshot()
    for cluster_id in ("", "another"):
        for ask in (
            lambda channel: channel.list_snapshots(),
            lambda channel: channel.read_snapshot(taken, position=0, max_bytes=1),
        ):
            async with channel_to(world, leader.node_id, cluster_id=cluster_id) as channel:
                with pytest.raises(OutcomeUnknownError):
                    await ask(channel)


STATUSES = st.builds(
    ReplicaStatus,
    key=st.builds(ReplicaKey, st.integers(0, 2**31 - 1).map(NodeId), st.none() | st.text(max_size=30)),
    log_end_offset=st.none() | st.integers(0, 2**63 - 1).map(Offset),
    last_fetch_ms=st.none() | st.integers(0, 2**63 - 1),
    last_caught_up_ms=st.none() | st.integers(0, 2**63 - 1),
    endpoint=st.none() | st.builds(Endpoint, st.text(max_size=30), st.integers(1, 65535)),
)
STATES = st.builds(
    StateAt,
    st.builds(SnapshotId, st.integers(0, 2**63 - 1).map(Offset), st.integers(0, 2**31 - 1).map(Epoch)),
    st.text(max_size=30),
    st.text(max_size=30),
)
SUPPORTS = st.builds(CodeSupport, st.integers(0, 2**31 - 1), st.booleans())
EPOCHS = st.integers(0, 2**31 - 1).map(Epoch)
IDS = st.integers(0, 2**31 - 1).map(NodeId)


@st.composite
def views(draw):
    leader = draw(st.none() | st.integers(0, 2**31 - 1).map(NodeId))
    epoch, description = draw(EPOCHS), None
    if leader is not None and draw(st.booleans()):
        description = QuorumDescription(
            leader=leader,
            epoch=epoch,
            high_watermark=draw(st.none() | st.integers(0, 2**63 - 1).map(Offset)),
            voters=tuple(draw(st.lists(STATUSES, max_size=4))),
            observers=tuple(draw(st.lists(STATUSES, max_size=4))),
        )
    node = draw(st.none() | st.builds(ReplicaKey, IDS, st.none() | st.text(max_size=30)))
    return QuorumView(
        cluster_id=draw(st.text(max_size=30)),
        leader=leader,
        epoch=epoch,
        leader_endpoint=draw(st.none() | st.builds(Endpoint, st.text(max_size=30), st.integers(1, 65535))),
        description=description,
        node=node,
        states=() if node is None else tuple(draw(st.lists(STATES, max_size=STATES_MAX))),
        support=None if node is None else draw(st.none() | SUPPORTS),
    )


def frame_of(view):
    return decode_frame(memoryview(b"".join(map(bytes, encode_view(7, view)))[4:]))


@given(views())
def test_a_view_of_the_quorum_comes_out_as_it_went_in(view):
    assert decode_view(frame_of(view)) == view


@given(views(), st.randoms(use_true_random=False))
def test_a_mutated_view_is_decoded_or_refused(view, draw):
    raw = bytearray(b"".join(map(bytes, encode_view(7, view)))[4:])
    for _ in range(draw.randint(1, 4)):
        raw[draw.randrange(len(raw))] = draw.randrange(256)
    with suppress(QuorumError):
        decode_view(decode_frame(memoryview(bytes(raw))))


HOSTILE = {
    "not cbor": b"\xff",
    "a tag": cbor2.dumps(cbor2.CBORTag(35, "(a+)+")),
    "no array": cbor2.dumps({"cluster": 1}),
    "too few fields": cbor2.dumps(["c", 1]),
    "leads without an id": cbor2.dumps(["c", None, 1, None, True, 0, [], []]),
    "voters that are none": cbor2.dumps(["c", 1, 1, None, True, 0, [1], []]),
    "too many voters": cbor2.dumps(["c", 1, 1, None, True, 0, [[]] * 1001, []]),
    "too large": cbor2.dumps(["c" * (1 << 20), 1, 1, None, False]),
    "deep": b"\x81" * 5000 + b"\x01",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_description_is_refused(name):
    buffers = encode_frame(FrameKind.DESCRIBE_QUORUM + RESPONSE, 1, [0, None, 0, None, None], [HOSTILE[name]])
    frame = decode_frame(memoryview(b"".join(map(bytes, buffers))[4:]))
    with pytest.raises(PeerProtocolError):
        decode_view(frame)
