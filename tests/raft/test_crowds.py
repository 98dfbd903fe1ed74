"""The cluster works beside many connections and administrative requests of clients that are no nodes."""

import pytest
import trio

from quorate.cbor import optional
from quorate.raft.core.events import AddVoter, RemoveVoter
from quorate.raft.quorum_config import parse_voters
from quorate.raft.quorum_errors import QuorumError
from quorate.raft.transport import quorum_server as server
from quorate.raft.transport.connections import PLACES_PER_VOTER, Connections, PeerConnection
from quorate.raft.transport.frame_fields import INT64, NODE, FieldReader
from quorate.raft.transport.frames import PREFACE, FrameKind, FrameReader, encode_frame
from quorate.raft.transport.leader_frames import voter_change_fields
from quorate.raft.transport.outbox import Outbox
from quorate.raft.transport.turnstile import WAITING_MAX
from quorate.runtime.network import NetworkError
from quorate.types import Endpoint, NodeId, ReplicaKey, Voter

CLUSTER_ID = "driver-tests"


def connection(name="outside:1"):
    stream = type("Stream", (), {"peer": name, "close": lambda self: None})()
    return PeerConnection(Outbox(stream))


def test_the_connection_that_is_silent_for_longest_makes_room_and_a_voters_does_not():
    connections = Connections()
    first, second, third = connection(), connection(), connection()
    for each in (first, second, third):
        connections.add(each)
    connections.note_heard(first)
    connections.assign_voter(second, NodeId(2))
    assert connections.displace() is third
    assert connections.displace() is first
    assert connections.displace() is None, "only the voter's is left"
    assert len(connections) == 1
    connections.assign_voter(second, None)
    assert connections.displace() is second and len(connections) == 0


def test_a_voters_id_reserves_no_more_than_its_places():
    connections = Connections()
    many = [connection() for _ in range(PLACES_PER_VOTER + 3)]
    for each in many:
        connections.add(each)
        connections.assign_voter(each, NodeId(2))
    displaced = []
    while (one := connections.displace()) is not None:
        displaced.append(one)
    assert displaced == many[:3]
    for each in many:
        connections.remove(each)
    assert len(connections) == 0


@pytest.mark.slow
async def test_a_connection_that_asks_for_nothing_is_closed(world, autojump_clock, log_lines):
    await world.start(1)
    stream = await world.dial(1)
    await stream.send([PREFACE])
    with trio.fail_after(11):
        assert await stream.receive_some() == b""
    (told,) = [line for line in log_lines if line["event"] == "closed a connection"]
    assert told["reason"] == "it asked for nothing"


@pytest.mark.slow
async def test_a_connection_with_one_request_may_stay_silent(world, autojump_clock):
    world.voters = parse_voters("1@node-1:9093")
    await world.start(1)
    stream = await world.dial(1)
    reader = FrameReader(stream, max_frame_bytes=1 << 20)
    await stream.send([PREFACE, *encode_frame(FrameKind.DESCRIBE_QUORUM, 1, [""])])
    assert await reader.receive()
    await trio.sleep(3600)
    await stream.send(encode_frame(FrameKind.DESCRIBE_QUORUM, 2, [""]))
    assert await reader.receive()


@pytest.mark.slow
async def test_a_crowd_that_holds_all_connections_keeps_no_voter_out(
    world, autojump_clock, nursery, monkeypatch
):
    monkeypatch.setattr(server, "CONNECTIONS_MAX", 20)
    await world.start_three()
    opened = 0

    async def crowd(node):
        """Opens one after the other, and asks again when it is closed; says what it has to to stay."""
        nonlocal opened
        while True:
            try:
                stream = await world.dial(node)
                opened += 1
                await stream.send([PREFACE, *encode_frame(FrameKind.DESCRIBE_QUORUM, 1, [""])])
                while await stream.receive_some():
                    pass
            except NetworkError:
                pass
            await trio.sleep(0.2)

    for node in (1, 2, 3):
        for _ in range(30):
            nursery.start_soon(crowd, node)
    await trio.sleep(5)
    for quorum in world.quorums.values():
        assert len(quorum._node.server._connections) == 20
    for _ in range(2):
        leader = await world.leader()
        await world.crash(leader.node_id)
        await (await world.leader()).append([b"on"], timeout_ms=10_000)
        await world.start(leader.node_id)
        back = world.quorums[leader.node_id]
        await world.until(lambda back=back: back.leader is not None and back.leader != back.node_id)
        await back.append([b"by the one that came back"])
    assert opened > 500
    nursery.cancel_scope.cancel()


async def ask(world, node, kind, *fields, cluster_id=CLUSTER_ID):
    """The outcome's code and what is said, or None for a connection that was closed."""
    stream = await world.dial(node)
    reader = FrameReader(stream, max_frame_bytes=1 << 20)
    await stream.send([PREFACE, *encode_frame(kind, 1, [cluster_id, *fields])])
    frames = await reader.receive()
    stream.close()
    return FieldReader(frames[0]) if frames else None


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        (FrameKind.APPEND, ()),
        (FrameKind.APPLICATION, ()),
        (FrameKind.READ_INDEX, ()),
        (FrameKind.CHANGE_VOTERS, (3,)),
        (FrameKind.TRANSFER_LEADERSHIP, (2,)),
        (FrameKind.TAKE_SNAPSHOT, ()),
        (FrameKind.LIST_SNAPSHOTS, ()),
        (FrameKind.READ_SNAPSHOT, ([1, 1], 0, 1)),
    ],
)
@pytest.mark.parametrize("cluster_id", ["", "another"])
async def test_a_changing_request_must_name_the_cluster(world, autojump_clock, kind, fields, cluster_id):
    leader = await world.start_three()
    end = leader.log.end_offset
    answer = await ask(world, leader.node_id, kind, *fields, cluster_id=cluster_id)
    assert answer is None or answer.take(INT64) != 0
    assert leader.is_leader and leader.log.end_offset == end and leader.snapshots() == ()


async def test_each_administrative_request_leaves_one_line_with_who_asked_and_the_outcome(
    world, autojump_clock, log_lines
):
    leader = await world.start_three()
    unknown = Voter(ReplicaKey(NodeId(9), "A" * 22), Endpoint("victim\nrole changed", 22))
    asked = [
        (FrameKind.CHANGE_VOTERS, voter_change_fields(AddVoter(unknown))),
        (FrameKind.CHANGE_VOTERS, voter_change_fields(AddVoter(unknown))),
        (FrameKind.CHANGE_VOTERS, voter_change_fields(RemoveVoter(ReplicaKey(NodeId(2), "x" * 5000)))),
        (FrameKind.TAKE_SNAPSHOT, []),
        (FrameKind.TRANSFER_LEADERSHIP, [leader.node_id % 3 + 1]),
    ]
    for kind, fields in asked:
        await ask(world, leader.node_id, kind, *fields)
    told = [line for line in log_lines if line["event"] == "an administrative request"]
    assert [line["request"].split(" with")[0] for line in told] == [
        "add voter 9",
        "remove voter 2",
        "take a snapshot",
        f"transfer leadership to node {leader.node_id % 3 + 1}",
    ], "a repeated one is told once"
    assert all(line["peer"].startswith("outside") for line in told)
    assert all(len(line["request"]) < 200 and "\n" not in line["request"] for line in told)
    assert told[-1]["outcome"] == "done" and "kraft.version 1" in told[0]["outcome"]


@pytest.mark.slow
async def test_leadership_that_unknown_peers_send_round_and_round_leaves_time_to_append(
    world, autojump_clock, nursery
):
    await world.start_three()

    async def transfer(node):
        while True:
            for to in (1, 2, 3):
                await ask(world, node, FrameKind.TRANSFER_LEADERSHIP, to)

    for node in (1, 2, 3):
        for _ in range(3):
            nursery.start_soon(transfer, node)
    own = world.quorums[1]
    gaps = []
    for _ in range(200):
        began = trio.current_time()
        await own.append([b"x"])
        gaps.append(trio.current_time() - began)
        await trio.sleep(0.05)
    assert max(gaps) < 2, f"the longest append took {max(gaps):.1f} s"
    nursery.cancel_scope.cancel()


async def test_a_queue_of_administrative_requests_is_bounded(world, autojump_clock, nursery):
    leader = await world.start_three()
    refused = 0

    async def transfer():
        nonlocal refused
        answer = await ask(world, leader.node_id, FrameKind.TRANSFER_LEADERSHIP, 9)
        if answer is not None and answer.take(INT64) and answer.take(optional(NODE)) is None:
            refused += 1

    for _ in range(WAITING_MAX + 10):
        nursery.start_soon(transfer)
    await trio.sleep(0.5)
    assert refused >= 9, "those beyond the queue are refused at once"
    with pytest.raises(QuorumError):
        await leader.transfer_leadership(NodeId(9), timeout_ms=100)
    nursery.cancel_scope.cancel()
