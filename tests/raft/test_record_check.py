"""Nothing gets into the log that the leader's state machine was not asked about first."""

import pytest
import trio

from quorate.raft.quorum_errors import InvalidAppendError, NotLeaderError
from quorate.raft.transport.append_frames import decode_response, encode_request
from quorate.raft.transport.channel import Channel
from quorate.raft.transport.frames import PREFACE, FrameReader
from quorate.runtime.network import Address
from tests.raft.conftest import CLUSTER_ID, Journal


class Careful(Journal):
    """Refuses what it could not apply."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[tuple[bytes, ...]] = []

    def check(self, records):
        self.asked.append(tuple(records))
        if any(b"poison" in record for record in records):
            raise ValueError("poison is not of this service")


async def send_append(world, node, records, *, cluster_id=CLUSTER_ID):
    """Append as an unauthenticated peer that speaks the protocol; raises what it is answered."""
    stream = await world.dial(node)
    await stream.send([PREFACE, *encode_request(1, cluster_id, records)])
    reader = FrameReader(stream, max_frame_bytes=1 << 20)
    with trio.fail_after(10):
        frames = await reader.receive()
    stream.close()
    return decode_response(frames[0])


async def test_records_that_the_state_machine_refuses_are_in_no_log(autojump_clock, world):
    await world.start(1, 2, 3, journal=Careful)
    leader = await world.leader()
    follower = (await world.followers())[0]
    end = leader.log.end_offset
    with pytest.raises(InvalidAppendError, match="ValueError: poison is not of this service"):
        await leader.append([b"a", b"poison"])
    with pytest.raises(InvalidAppendError, match="poison is not of this service"):
        leader.append_nowait([b"poison"])
    with pytest.raises(InvalidAppendError, match="poison is not of this service"):
        await follower.append([b"poison"])
    with pytest.raises(InvalidAppendError, match="poison is not of this service"):
        await send_append(world, leader.node_id, [b"poison"])
    assert leader.log.end_offset == end
    await follower.append([b"good"])
    for node in (1, 2, 3):
        await world.until(lambda node=node: world.journals[node].records == [b"good"])
    assert world.failures == {}


async def test_a_refused_append_does_not_take_those_with_it_that_share_its_frame(autojump_clock, world):
    await world.start(1, 2, 3, journal=Careful)
    leader = await world.leader()
    follower = (await world.followers())[0]
    asked = world.journals[leader.node_id].asked
    refused, kept = [], []

    async def append(record):
        try:
            await follower.append([record])
            kept.append(record)
        except InvalidAppendError as error:
            refused.append((record, str(error)))

    # Who shares a frame is up to the order in which trio runs the callers.
    for number in range(20):
        records = [b"one %d" % number, b"poison %d" % number, b"two %d" % number, b"three %d" % number]
        async with trio.open_nursery() as callers:
            for record in records:
                callers.start_soon(append, record)
        assert [record for record, _ in refused] == [b"poison %d" % earlier for earlier in range(number + 1)]
        assert all("poison is not of this service" in error for _, error in refused)
    assert any(len(records) > 1 and any(b"poison" in record for record in records) for records in asked), (
        "no frame was shared"
    )
    assert len(kept) == 60
    assert sorted(world.journals[leader.node_id].records) == sorted(kept)


async def test_only_the_leader_calls_check_and_before_it_appends(autojump_clock, world):
    await world.start(1, 2, 3, journal=Careful)
    leader = await world.leader()
    follower = (await world.followers())[0]
    await follower.append([b"a", b"b"])
    assert world.journals[leader.node_id].asked == [(b"a", b"b")]
    assert world.journals[follower.node_id].asked == []
    with pytest.raises(NotLeaderError):
        await send_append(world, follower.node_id, [b"poison"])
    assert world.journals[follower.node_id].asked == []


async def test_a_check_that_returns_something_refuses(autojump_clock, world):
    """A check that answers False, as a predicate would, must not let everything pass."""

    class Predicate(Journal):
        def check(self, records):
            return False

    leader = await world.start_one(journal=Predicate)
    with pytest.raises(InvalidAppendError, match="returned False"):
        await leader.append([b"x"])
    assert world.journals[1].records == []


async def test_a_quorum_that_takes_no_remote_appends_refuses_them(autojump_clock, world):
    world.overrides.update(remote_appends=False)
    leader = await world.start_three()
    follower = (await world.followers())[0]
    end = leader.log.end_offset
    for node in (1, 2, 3):
        with pytest.raises(InvalidAppendError, match="remote_appends"):
            await send_append(world, node, [b"\xde\xad\xbe\xef"])
    channel = await Channel.connect(
        world.network.for_node("outside"),
        Address(f"node-{leader.node_id}", 9093),
        cluster_id=CLUSTER_ID,
        max_frame_bytes=1 << 20,
        max_append_bytes=1 << 20,
    )
    async with trio.open_nursery() as nursery:
        nursery.start_soon(channel.run)
        with pytest.raises(InvalidAppendError, match="remote_appends"):
            await channel.append([b"x"])
        nursery.cancel_scope.cancel()
    assert leader.log.end_offset == end
    started = trio.current_time()
    with pytest.raises(NotLeaderError, match=f"node {leader.node_id} leads"):
        await follower.append([b"x"])
    assert trio.current_time() - started < 1, "it waited for its whole time"
    assert (await leader.append([b"own"])).results == (3,)
