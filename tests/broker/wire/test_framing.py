import math

import pytest
import trio
import trio.testing
from hypothesis import given, settings
from hypothesis import strategies as st

from quorate.broker.wire.budget import MemoryBudget
from quorate.broker.wire.framing import RECEIVE_BYTES, FrameReader
from quorate.broker.wire.primitives import MalformedError


class Scripted:
    """A stream that delivers given bytes in given pieces."""

    peer = "script"

    def __init__(self, data, sizes=()):
        self.data = data
        self.sizes = iter(sizes)
        self.received_into = 0
        self.asked = []

    async def receive_some(self, max_bytes=65536):
        await trio.lowlevel.checkpoint()
        size = min(max_bytes, next(self.sizes, 10**9))
        piece, self.data = bytes(self.data[:size]), self.data[size:]
        return piece

    async def receive_into(self, buffer):
        self.asked.append(len(buffer))
        piece = await self.receive_some(len(buffer))
        buffer[: len(piece)] = piece
        self.received_into += len(piece)
        return len(piece)


def framed(*bodies):
    return b"".join(len(body).to_bytes(4, "big") + body for body in bodies)


async def all_frames(stream, **options):
    reader = FrameReader(stream, **options)
    out = []
    while frames := await reader.receive():
        assert all(frame.readonly for frame in frames)
        out += [bytes(frame) for frame in frames]
        reader.release()
    return out


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.integers(0, 200) | st.integers(60_000, 200_000), max_size=6),
    st.lists(st.integers(1, 100_000), max_size=40),
)
def test_frames_come_out_as_they_went_in_however_they_are_cut(lengths, sizes):
    bodies = [bytes([index]) * length for index, length in enumerate(lengths)]
    assert trio.run(all_frames, Scripted(framed(*bodies), sizes)) == bodies


async def test_all_small_frames_of_a_receive_come_at_once():
    reader = FrameReader(Scripted(framed(*[b"x" * 20] * 100)))
    assert len(await reader.receive()) == 100


async def test_a_large_frame_is_received_into_its_own_buffer():
    stream = Scripted(framed(bytes(500_000)))
    assert [len(frame) for frame in await FrameReader(stream).receive()] == [500_000]
    assert stream.received_into > 430_000


async def test_a_huge_frame_is_not_given_memory_before_some_of_it_has_arrived():
    stream = Scripted((90_000_000).to_bytes(4, "big") + bytes(100))
    with pytest.raises(MalformedError, match="ended 100 bytes into a frame of 90000000"):
        await FrameReader(stream).receive()
    assert stream.asked == [1024 * 1024 - 100]


@pytest.mark.parametrize(
    ("start", "why"),
    [
        (b"GET / HTTP/1.1\r\n", "HTTP"),
        (b"\x16\x03\x01\x02\x00\x01\x00", "TLS"),
        (b"\xff\xff\xff\xf0", "negative"),
        ((101 * 1024 * 1024).to_bytes(4, "big"), "socket.request.max.bytes"),
        (b"\0\0\0\x09abc", "ended 7 bytes into"),
    ],
)
async def test_what_is_no_frame_is_refused_with_its_name(start, why):
    with pytest.raises(MalformedError, match=why):
        await FrameReader(Scripted(start)).receive()


async def test_large_frames_wait_for_memory_in_line(autojump_clock):
    budget = MemoryBudget(250_000)
    first = FrameReader(Scripted(framed(bytes(200_000))), budget=budget)
    second = FrameReader(Scripted(framed(bytes(100_000))), budget=budget)
    await first.receive()
    with trio.move_on_after(10) as waited:
        await second.receive()
    assert waited.cancelled_caught
    assert budget.available == 50_000
    async with trio.open_nursery() as nursery:
        nursery.start_soon(second.receive)
        await trio.sleep(1)
        first.release()
    assert budget.available == 150_000
    second.release()
    assert budget.available == 250_000


async def test_an_unfinished_frame_has_a_start_time_and_a_finished_one_does_not(autojump_clock):
    reader = FrameReader(Scripted(framed(b"whole") + b"\0\0", [9, 2]))
    await reader.receive()
    assert reader.frame_started_at is None
    with pytest.raises(MalformedError):
        await reader.receive()
    assert reader.frame_started_at is not None
    assert math.isfinite(reader.frame_started_at)


async def test_frames_that_are_only_claimed_reserve_nothing_while_others_have_the_memory(autojump_clock):
    budget = MemoryBudget(8 << 20)
    await budget.draw(8 << 20)
    streams = [Scripted((6 << 20).to_bytes(4, "big") + b"x" * 100) for _ in range(20)]
    readers = [FrameReader(stream, budget=budget) for stream in streams]
    async with trio.open_nursery() as nursery:
        for reader in readers:
            nursery.start_soon(reader.receive)
        await trio.testing.wait_all_tasks_blocked()
        assert all(len(reader._large) <= RECEIVE_BYTES for reader in readers)
        assert not any(stream.asked for stream in streams)
        assert all(reader.frame_started_at is None for reader in readers), "that wait is not the peers' fault"
        nursery.cancel_scope.cancel()
    budget.put_back(8 << 20)
    assert budget.available == budget.limit
