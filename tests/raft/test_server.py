"""Hostile input of unknown peers and of other nodes, and what it must not do."""

import random
from dataclasses import replace

import cbor2
import pytest
import trio

from quorate.error_code import ErrorCode
from quorate.raft.core.messages import FetchRequest, VoteRequest
from quorate.raft.quorum_errors import InvalidAppendError, NotLeaderError, OutcomeUnknownError
from quorate.raft.transport import quorum_server as server
from quorate.raft.transport.append_frames import decode_application_response, decode_response, encode_request
from quorate.raft.transport.connections import Connections, PeerConnection
from quorate.raft.transport.frames import PREFACE, FrameKind, FrameReader, encode_frame
from quorate.raft.transport.outbox import Outbox
from quorate.raft.transport.raft_codec import decode, encode
from quorate.types import Epoch, NodeId, Offset, ReplicaKey
from tests.raft.conftest import CORE

CLUSTER_ID = "driver-tests"


class UnknownPeer:
    """A raw connection to a node."""

    def __init__(self, stream):
        self.stream = stream
        self.reader = FrameReader(stream, max_frame_bytes=32 << 20)

    async def send(self, *frames):
        await self.stream.send([part for frame in frames for part in frame])

    async def answer(self):
        frames = await self.reader.receive()
        assert len(frames) == 1
        return frames[0]

    async def is_closed(self):
        with trio.fail_after(30):
            try:
                return not await self.reader.receive()
            except OSError:
                return True


async def unknown_peer_of(world, node):
    sender = UnknownPeer(await world.dial(node))
    await sender.send([PREFACE])
    return sender


def fetch(**changes):
    fields = {
        "source": NodeId(99),
        "destination": NodeId(1),
        "correlation": 1,
        "cluster_id": CLUSTER_ID,
        "replica": ReplicaKey(NodeId(99), "directory"),
        "epoch": Epoch(1),
        "offset": Offset(0),
        "last_fetched_epoch": Epoch(0),
        "max_wait_ms": 0,
        "max_bytes": 1 << 20,
        "high_watermark": None,
    }
    return FetchRequest(**{**fields, **changes})


GARBAGE = {
    "http": b"GET / HTTP/1.1\r\n\r\n",
    "oversized": PREFACE + b"\xff\xff\xff\xff" + bytes(100),
    "zero": PREFACE + bytes(100),
    "deep cbor": PREFACE + (5002).to_bytes(4, "big") + (5000).to_bytes(2, "big") + b"\x81" * 5000,
    "huge count": PREFACE + b"\x00\x00\x00\x0b\x00\x09" + b"\x9b\x00\xff\xff\xff\xff\xff\xff\xff",
    "unknown kind": PREFACE + b"".join(map(bytes, encode_frame(200, 1, []))),
    "response": PREFACE + b"".join(map(bytes, encode_frame(FrameKind.FETCH + 1, 1, [1, 2, 0, 0]))),
    "wrong types": PREFACE + b"".join(map(bytes, encode_frame(FrameKind.FETCH, 1, ["a", None, [1]]))),
    "bad append": PREFACE + b"".join(map(bytes, encode_frame(FrameKind.APPEND, 1, ["c"], [b"\0\0\0\xffx"]))),
    "foreign application": PREFACE + b"".join(map(bytes, encode_frame(FrameKind.APPLICATION, 1, ["other"]))),
}


@pytest.mark.parametrize("name", GARBAGE)
async def test_garbage_closes_its_own_connection_with_one_line_and_nothing_else(
    autojump_clock, world, log_lines, name
):
    leader = await world.start_three()
    good = await unknown_peer_of(world, leader.node_id)
    log_lines.clear()
    bad = UnknownPeer(await world.dial(leader.node_id))
    await bad.stream.send([GARBAGE[name]])
    assert await bad.is_closed()
    closed = [line for line in log_lines if line["event"] == "closed a connection"]
    assert len(closed) == 1, log_lines
    assert "outside" in closed[0]["peer"]
    await good.send(encode_request(5, CLUSTER_ID, [b"still works"]))
    epoch = decode_response(await good.answer()).epoch
    assert epoch == leader.epoch
    assert await world.leader() is leader
    assert world.failures == {}


async def test_random_and_mutated_streams_never_stop_a_node(autojump_clock, world):
    leader = await world.start_three()
    good = b"".join(
        bytes(part)
        for frame in (
            encode_request(1, CLUSTER_ID, [b"record"]),
            encode(fetch(epoch=leader.epoch)),
            encode_frame(FrameKind.APPLICATION, 3, [CLUSTER_ID], [b"x"]),
        )
        for part in frame
    )
    for seed in range(150):
        draw = random.Random(seed)
        data = bytearray(PREFACE + good)
        for _ in range(draw.randint(1, 6)):
            place = draw.randrange(len(data))
            if draw.random() < 0.5:
                data[place] = draw.randrange(256)
            else:
                data[place:place] = draw.randbytes(draw.randint(1, 9))
        stream = await world.dial(draw.randint(1, 3))
        await stream.send([bytes(data)])
        await trio.sleep(0.01)
        stream.close()
    await trio.sleep(1)
    assert world.failures == {}
    assert (await (await world.leader()).append([b"after"])).results == (5,)


@pytest.mark.slow
async def test_a_connection_that_never_says_what_it_is_is_closed(autojump_clock, world, log_lines):
    await world.start(1)
    silent = UnknownPeer(await world.dial(1))
    await trio.sleep(9)
    assert not [line for line in log_lines if line["event"] == "closed a connection"]
    assert await silent.is_closed()


async def test_an_append_for_another_cluster_is_refused_by_name(autojump_clock, world):
    await world.start(1, 2, 3)
    sender = await unknown_peer_of(world, (await world.leader()).node_id)
    await sender.send(encode_request(1, "another", [b"x"]))
    with pytest.raises(InvalidAppendError, match=f"this is cluster {CLUSTER_ID}, the append is for another"):
        decode_response(await sender.answer())


async def test_an_append_of_nothing_or_too_much_is_refused_before_anything_happens(autojump_clock, world):
    world.overrides["max_batch_bytes"] = 10_000
    leader = await world.start_three()
    end = leader.log.end_offset
    sender = await unknown_peer_of(world, leader.node_id)
    for records in ([], [bytes(10_000)], [b""] * 600):
        await sender.send(encode_request(1, CLUSTER_ID, records))
        with pytest.raises(InvalidAppendError):
            decode_response(await sender.answer())
    assert leader.log.end_offset == end


async def test_a_node_that_does_not_lead_says_who_does(autojump_clock, world):
    leader = await world.start_three()
    follower = (await world.followers())[0]
    sender = await unknown_peer_of(world, follower.node_id)
    await sender.send(encode_request(1, CLUSTER_ID, [b"x"]))
    with pytest.raises(NotLeaderError) as error:
        decode_response(await sender.answer())
    assert error.value.leader == leader.node_id


async def test_a_fetch_that_claims_to_be_from_another_node_is_refused(autojump_clock, world):
    leader = await world.start_three()
    sender = await unknown_peer_of(world, leader.node_id)
    good = {"destination": leader.node_id, "epoch": leader.epoch}
    wrong = [
        fetch(**good, source=leader.node_id, replica=ReplicaKey(leader.node_id)),
        fetch(**good, replica=ReplicaKey(NodeId(98))),
        fetch(epoch=leader.epoch, destination=NodeId(leader.node_id % 3 + 1)),
        fetch(**good, cluster_id="another"),
    ]
    for request in wrong:
        await sender.send(encode(request))
        assert decode(await sender.answer()).error in (
            ErrorCode.INVALID_REQUEST,
            ErrorCode.INCONSISTENT_CLUSTER_ID,
        )
    assert [status.key.id for status in leader.describe().observers] == []
    await sender.send(encode(fetch(**good)))
    assert decode(await sender.answer()).error is ErrorCode.NONE
    assert [status.key.id for status in leader.describe().observers] == [99]


async def test_a_vote_request_of_a_later_epoch_from_an_unknown_peer_changes_nothing(autojump_clock, world):
    leader = await world.start_three()
    epoch = leader.epoch
    sender = await unknown_peer_of(world, leader.node_id)
    await sender.send(
        encode(
            VoteRequest(
                source=NodeId(99),
                destination=leader.node_id,
                correlation=1,
                cluster_id=CLUSTER_ID,
                voter=ReplicaKey(leader.node_id),
                candidate=ReplicaKey(NodeId(99)),
                epoch=Epoch(50),
                last_epoch=Epoch(0),
                end_offset=Offset(0),
            )
        )
    )
    assert not decode(await sender.answer()).granted
    await trio.sleep(2)
    assert (await leader.append([b"x"])).epoch == epoch


async def test_a_fetch_that_asks_for_everything_gets_what_this_node_allows(autojump_clock, world):
    leader = await world.start_three()
    for _ in range(40):
        await leader.append([bytes(100_000)])
    leader._node.driver._fetch_max_bytes = 150_000
    sender = await unknown_peer_of(world, leader.node_id)
    everything = {"destination": leader.node_id, "epoch": leader.epoch, "max_bytes": 2**31 - 1}
    end = leader.log.end_offset
    from_disk = fetch(**everything)
    from_memory = fetch(**everything, offset=Offset(end - 5), last_fetched_epoch=leader.epoch)
    for request in (from_disk, from_memory):
        await sender.send(encode(request))
        assert 0 < len((await sender.answer()).payload) <= 150_000


async def test_a_handler_that_fails_costs_its_own_answer_only(autojump_clock, world, log_lines):
    leader = await world.start_three()

    async def answer(payload):
        if payload == b"bad":
            raise RuntimeError("mistake")
        return payload.upper()

    leader.serve_requests(answer)
    sender = await unknown_peer_of(world, leader.node_id)
    await sender.send(encode_frame(FrameKind.APPLICATION, 1, [CLUSTER_ID], [b"bad"]))
    with pytest.raises(OutcomeUnknownError, match="RuntimeError"):
        decode_application_response(await sender.answer())
    await sender.send(encode_frame(FrameKind.APPLICATION, 2, [CLUSTER_ID], [b"good"]))
    assert decode_application_response(await sender.answer()) == b"GOOD"
    lines = [line for line in log_lines if line["event"] == "the application failed to answer a request"]
    assert len(lines) == 1
    follower = (await world.followers())[0]
    with pytest.raises(OutcomeUnknownError):
        await follower.request_leader(b"bad")
    assert await follower.request_leader(b"good") == b"GOOD"
    assert world.failures == {}


async def test_a_handler_knows_whether_the_connection_of_its_caller_is_over(autojump_clock, world):
    leader = await world.start_three()
    callers = []

    async def answer(payload, caller):
        callers.append(caller)
        return payload

    leader.serve_callers(answer)
    sender = await unknown_peer_of(world, leader.node_id)
    follower = (await world.followers())[0]
    for number in (1, 2):
        await sender.send(encode_frame(FrameKind.APPLICATION, number, [CLUSTER_ID], [b"x"]))
        await sender.answer()
    await follower.request_leader(b"y")
    await leader.request_leader(b"z")
    assert callers[0] is callers[1]
    assert [caller.is_closed for caller in callers] == [False] * 4
    sender.stream.close()
    await trio.sleep(1)
    assert [caller.is_closed for caller in callers] == [True, True, False, False]


async def test_a_request_without_a_handler_is_refused(autojump_clock, world):
    await world.start(1, 2, 3)
    follower = (await world.followers())[0]
    with pytest.raises(NotLeaderError):
        await follower.request_leader(b"anybody?")


async def test_requests_beyond_the_limit_wait_without_holding_up_the_append_they_wait_for(
    autojump_clock, world
):
    # What a follower asks meanwhile would bring the append on its way too.
    idle = {"fetch_max_wait_ms": 10_000, "request_timeout_ms": 20_000, "fetch_timeout_ms": 30_000}
    world.overrides["core"] = replace(CORE, **idle)
    leader = await world.start_three()
    await leader.append([b"all followers wait for more"])
    await trio.sleep(1)

    async def answer(payload):
        await leader.wait_applied(target)
        return b"applied"

    leader.serve_requests(answer)
    target = leader.applied_offset + 1
    sender = await unknown_peer_of(world, leader.node_id)
    await sender.send(
        *(encode_frame(FrameKind.APPLICATION, n, [CLUSTER_ID], [b"x"]) for n in range(1, 65)),
        encode_request(500, CLUSTER_ID, [b"go on"]),
        *(encode_frame(FrameKind.APPLICATION, n, [CLUSTER_ID], [b"x"]) for n in range(65, 100)),
    )
    seen = set()
    with trio.fail_after(1):
        while len(seen) < 100:
            seen.update(frame.correlation for frame in await sender.reader.receive())


async def test_a_header_with_a_number_of_any_size_is_harmless(autojump_clock, world):
    await world.start(1)
    sender = await unknown_peer_of(world, 1)
    header = b"\x84\x08\x00\x01" + cbor2.dumps(2**64 - 1)
    body = len(header).to_bytes(2, "big") + header
    await sender.send([len(body).to_bytes(4, "big") + body])
    assert await sender.is_closed()
    assert world.failures == {}


@pytest.mark.slow
async def test_a_peer_that_does_not_take_its_answers_is_not_listened_to(autojump_clock, world):
    leader = await world.start_three()
    payload = bytes(100_000)
    calls = []

    async def answer(request):
        calls.append(request)
        return payload

    leader.serve_requests(answer)
    sender = await unknown_peer_of(world, leader.node_id)
    for number in range(60):
        await sender.send(encode_frame(FrameKind.APPLICATION, number, [CLUSTER_ID], [b"x"]))
        await trio.sleep(0.01)
    assert len(calls) < 30
    seen = 0
    with trio.fail_after(60):
        while seen < 60:
            seen += len(await sender.reader.receive())
    assert len(calls) == 60


async def with_a_voter_in_our_hands(world):
    """The leader, the key of a voter that is down, and a connection that speaks for it. Two nodes run."""
    leader = await world.start_three()
    voter = (await world.followers())[0]
    key = voter._node.key
    await world.stop(voter.node_id)
    await leader.append([b"before"])
    return leader, key, await unknown_peer_of(world, leader.node_id)


def fetch_of(leader, key, **changes):
    end = {
        "offset": Offset(leader.log.end_offset),
        "last_fetched_epoch": leader.epoch,
        "high_watermark": leader.high_watermark,
    }
    place = {"source": key.id, "replica": key, "destination": leader.node_id, "epoch": leader.epoch}
    return fetch(**{**place, **end, "max_wait_ms": 500, "correlation": 7, **changes})


def vote_of(leader, source, **changes):
    fields = {
        "source": source,
        "destination": leader.node_id,
        "correlation": 7,
        "cluster_id": CLUSTER_ID,
        "voter": ReplicaKey(leader.node_id),
        "candidate": ReplicaKey(source),
        "epoch": Epoch(1),
        "last_epoch": Epoch(0),
        "end_offset": Offset(0),
    }
    return VoteRequest(**{**fields, **changes})


async def test_a_liar_under_a_voters_id_gets_no_answer_of_its_and_takes_none(autojump_clock, world):
    """Also with the same correlation, and also once the liar has gone."""
    leader, key, voter = await with_a_voter_in_our_hands(world)
    await voter.send(encode(fetch_of(leader, key)))
    await trio.sleep(0.01)
    liar = await unknown_peer_of(world, leader.node_id)
    await liar.send(encode(vote_of(leader, key.id)))
    assert (await liar.answer()).kind == FrameKind.VOTE + 1
    is_closed = await unknown_peer_of(world, leader.node_id)
    await is_closed.send(encode(vote_of(leader, key.id)))
    is_closed.stream.close()
    await trio.sleep(0.01)
    await leader.append([b"for the voter"])
    with trio.fail_after(0.1):
        answer = await voter.answer()
    assert (answer.kind, answer.correlation) == (FrameKind.FETCH + 1, 7)
    assert b"for the voter" in bytes(answer.payload)
    with trio.move_on_after(5):
        raise AssertionError(f"the liar was told {await liar.answer()}")


async def test_two_fetches_of_one_voter_are_answered_each_on_its_own_connection(autojump_clock, world):
    leader, key, voter = await with_a_voter_in_our_hands(world)
    liar = await unknown_peer_of(world, leader.node_id)
    await voter.send(encode(fetch_of(leader, key)))
    await trio.sleep(0.01)
    await liar.send(encode(fetch_of(leader, key)))
    with trio.fail_after(0.1):
        first = await voter.answer()
    assert (first.kind, first.correlation, len(first.payload)) == (FrameKind.FETCH + 1, 7, 0)
    await voter.send(encode(fetch_of(leader, key, correlation=8)))
    with trio.fail_after(0.1):
        assert (await liar.answer()).correlation == 7
    await leader.append([b"for the voter"])
    with trio.fail_after(0.1):
        second = await voter.answer()
    assert second.correlation == 8 and b"for the voter" in bytes(second.payload)


async def test_a_real_voter_goes_on_beside_liars_who_know_its_correlations(autojump_clock, world):
    leader = await world.start_three()
    voter = (await world.followers())[0]
    liars = [await unknown_peer_of(world, leader.node_id) for _ in range(3)]
    for number in range(20):
        in_flight = voter._node.driver.core._node.in_flight
        await world.until(lambda in_flight=in_flight: leader.node_id in in_flight)
        asked = in_flight[leader.node_id]
        for liar in liars:
            await liar.send(encode(vote_of(leader, voter.node_id, correlation=asked)))
            await liar.answer()
        end = (await leader.append([b"%d" % number])).base_offset + 1
        # Far less than the time after which it would ask again.
        await world.until(lambda end=end: voter.log.end_offset >= end, within_s=0.2)


async def test_answers_for_a_closed_connection_are_dropped(autojump_clock, world, monkeypatch):
    leader, key, voter = await with_a_voter_in_our_hands(world)
    connections = leader._node.server._connections
    await trio.sleep(1)
    others = len(connections._owed)
    await voter.send(encode(fetch_of(leader, key, max_wait_ms=50_000)))
    await trio.sleep(0.01)
    assert len(connections._owed) == others + 1
    voter.stream.close()
    await trio.sleep(0.01)
    assert len(connections._owed) == others
    again = await unknown_peer_of(world, leader.node_id)
    await again.send(encode(fetch_of(leader, key, correlation=7, max_wait_ms=100)))
    with trio.fail_after(1):
        assert (await again.answer()).correlation == 7
    displaced = await unknown_peer_of(world, leader.node_id)
    await displaced.send(encode(fetch_of(leader, ReplicaKey(NodeId(99), "d"), max_wait_ms=50_000)))
    await trio.sleep(0.01)
    assert len(connections._owed) == others + 1
    monkeypatch.setattr(server, "CONNECTIONS_MAX", 1)
    with trio.fail_after(10):
        while len(connections._owed) > others:
            await world.dial(leader.node_id)
            await trio.sleep(0.01)
    assert await displaced.is_closed()


def test_a_flood_of_requests_loses_only_its_own_oldest_answers():
    connections = Connections()
    flood, other = (PeerConnection(Outbox(None)) for _ in range(2))
    kept = connections.add_request(other, 7)
    numbers = [connections.add_request(flood, 7) for _ in range(3000)]
    assert len(connections._owed) == 1001
    assert connections.take_request(numbers[0]) is None
    assert connections.take_request(numbers[-1]) == (flood, 7)
    assert connections.take_request(kept) == (other, 7)
    connections.remove(flood)
    assert len(connections._owed) == 0
