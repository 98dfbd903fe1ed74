import math

import pytest
import trio
import trio.testing
from hypothesis import given
from hypothesis import strategies as st

from quorate.broker.wire.budget import SPARE_BYTES, Account, MemoryBudget, SpareBuffers
from quorate.broker.wire.framing import RECEIVE_BYTES, KafkaFrameReader
from quorate.kafka_bytes.varints import MalformedError


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


class OpenEnded(Scripted):
    """Delivers what it has, and then nothing more without ending."""

    async def receive_some(self, max_bytes=65536):
        if not self.data:
            await trio.sleep_forever()
        return await super().receive_some(max_bytes)


def framed(*bodies):
    return b"".join(len(body).to_bytes(4, "big") + body for body in bodies)


async def all_frames(stream, **options):
    reader = KafkaFrameReader(stream, **options)
    out = []
    while frames := await reader.receive():
        assert all(frame.readonly for frame in frames)
        out += [bytes(frame) for frame in frames]
        reader.release()
    return out


@given(
    st.lists(st.integers(0, 200) | st.integers(60_000, 200_000), max_size=6),
    st.lists(st.integers(1, 100_000), max_size=40),
)
def test_frames_come_out_as_they_went_in_however_they_are_cut(lengths, sizes):
    bodies = [bytes([index]) * length for index, length in enumerate(lengths)]
    assert trio.run(all_frames, Scripted(framed(*bodies), sizes)) == bodies


async def test_all_small_frames_of_a_receive_come_at_once():
    reader = KafkaFrameReader(Scripted(framed(*[b"x" * 20] * 100)))
    assert len(await reader.receive()) == 100


async def test_a_large_frame_is_received_into_its_own_buffer():
    stream = Scripted(framed(bytes(500_000)))
    assert [len(frame) for frame in await KafkaFrameReader(stream).receive()] == [500_000]
    assert stream.received_into > 430_000


@pytest.mark.bug("CVE-2026-35554")
async def test_the_memory_of_a_frame_of_a_megabyte_is_filled_again_once_nobody_refers_to_it():
    bodies = [bytes([number]) * 900_000 for number in range(4)]
    reader = KafkaFrameReader(Scripted(framed(*bodies)), budget=MemoryBudget(256 << 20))
    (first,) = await reader.receive()
    part = first[10:20]
    (second,) = await reader.receive()
    assert (first, second) == (bodies[0], bodies[1])
    assert second.obj is not first.obj
    filled_first = id(first.obj)
    del first
    (third,) = await reader.receive()
    assert id(third.obj) != filled_first, "a part of the frame is still in use"
    assert (part, second, third) == (bodies[0][10:20], bodies[1], bodies[2])
    del part
    (fourth,) = await reader.receive()
    assert id(fourth.obj) == filled_first
    assert (second, third, fourth) == (bodies[1], bodies[2], bodies[3])


def test_only_some_spare_buffers_are_kept():
    spares = SpareBuffers(2)
    taken = [spares.take() for _ in range(3)]
    known = {id(buffer) for buffer in taken}
    spares.keep(bytearray(10))
    for buffer in taken:
        spares.keep(buffer)
    again = [spares.take() for _ in range(3)]
    assert sum(id(buffer) in known for buffer in again) == 2
    assert {len(buffer) for buffer in again} == {SPARE_BYTES}


async def test_a_huge_frame_is_not_given_memory_before_some_of_it_has_arrived():
    stream = Scripted((90_000_000).to_bytes(4, "big") + bytes(30_000))
    with pytest.raises(MalformedError, match="ended 30004 bytes into a frame"):
        await KafkaFrameReader(stream).receive()
    assert not stream.asked
    stream = Scripted((90_000_000).to_bytes(4, "big") + bytes(40_000))
    with pytest.raises(MalformedError, match="ended 40000 bytes into a frame of 90000000"):
        await KafkaFrameReader(stream).receive()
    assert stream.asked == [SPARE_BYTES - 40_000]


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
async def test_an_invalid_frame_is_refused_with_the_name_of_the_fault(start, why):
    with pytest.raises(MalformedError, match=why):
        await KafkaFrameReader(Scripted(start)).receive()


async def test_large_frames_wait_for_memory_in_line(autojump_clock):
    budget = MemoryBudget(250_000)
    first = KafkaFrameReader(Scripted(framed(bytes(200_000))), budget=budget)
    second = KafkaFrameReader(Scripted(framed(bytes(100_000))), budget=budget)
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
    reader = KafkaFrameReader(Scripted(framed(b"whole") + b"\0\0", [9, 2]))
    await reader.receive()
    assert reader.frame_started_at is None
    with pytest.raises(MalformedError):
        await reader.receive()
    assert reader.frame_started_at is not None
    assert math.isfinite(reader.frame_started_at)


async def test_a_frame_is_charged_for_what_has_come_and_not_for_what_it_claims(autojump_clock):
    budget = MemoryBudget(256 << 20)
    claims = [OpenEnded((100 << 20).to_bytes(4, "big") + bytes(1_200_000)) for _ in range(3)]
    async with trio.open_nursery() as nursery:
        for stream in claims:
            nursery.start_soon(KafkaFrameReader(stream, budget=budget).receive)
        await trio.testing.wait_all_tasks_blocked()
        assert budget.limit - budget.available <= 3 * 4 * 1_200_000
        with trio.fail_after(1):
            await KafkaFrameReader(Scripted(framed(bytes(40 << 20))), budget=budget).receive()
        nursery.cancel_scope.cancel()


async def test_frames_that_are_only_claimed_reserve_nothing_while_others_have_the_memory(autojump_clock):
    budget = MemoryBudget(8 << 20)
    handled = Account(budget)
    await handled.draw(8 << 20)
    streams = [OpenEnded((6 << 20).to_bytes(4, "big") + b"x" * 40_000) for _ in range(20)]
    readers = [KafkaFrameReader(stream, budget=budget) for stream in streams]
    async with trio.open_nursery() as nursery:
        for reader in readers:
            nursery.start_soon(reader.receive)
        await trio.testing.wait_all_tasks_blocked()
        assert all(len(reader._large) <= RECEIVE_BYTES for reader in readers)
        assert not any(stream.asked for stream in streams)
        assert all(reader.frame_started_at is None for reader in readers), "that wait is not the peers' fault"
        nursery.cancel_scope.cancel()
    handled.release()
    assert budget.available == budget.limit


async def test_frames_that_hold_parts_of_the_memory_finish_one_by_one(autojump_clock):
    """Each has begun and needs more than is free: they would wait for each other for ever."""
    budget = MemoryBudget(8_000_000)
    readers = [
        KafkaFrameReader(Scripted(framed(bytes(6_000_000)), [100_000] * 70), budget=budget) for _ in range(5)
    ]
    done = []
    lowest = budget.limit

    async def receive(reader):
        nonlocal lowest
        await reader.receive()
        lowest = min(lowest, budget.available)
        await trio.sleep(1)
        reader.release()
        done.append(reader)

    with trio.fail_after(30):
        async with trio.open_nursery() as nursery:
            for reader in readers:
                nursery.start_soon(receive, reader)
    assert len(done) == 5
    assert lowest >= -6_000_000, f"more than one frame above the limit: {lowest}"
    assert budget.available == budget.limit


@pytest.mark.parametrize("cancelled_first", [False, True])
async def test_a_cancelled_wait_for_memory_leaves_the_budget_unchanged(autojump_clock, cancelled_first):
    budget = MemoryBudget(1_000)
    first, second, third = Account(budget), Account(budget), Account(budget)
    await first.draw(600)
    with trio.move_on_after(1):
        await second.draw(600)
    assert second.held == 0
    await third.draw(400)
    assert budget.available == 0
    with trio.move_on_after(1):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(second.draw, 600)
            await trio.sleep(0.5)
            if cancelled_first:
                nursery.cancel_scope.cancel()
            first.release()
            nursery.cancel_scope.cancel()
    assert second.held == (0 if cancelled_first else 600)
    third.release()
    assert budget.available + second.held == budget.limit


async def test_the_wait_for_memory_is_not_counted_as_the_peers_time(autojump_clock):
    budget = MemoryBudget(100_000)
    handled = Account(budget)
    await handled.draw(100_000)
    reader = KafkaFrameReader(OpenEnded((200_000).to_bytes(4, "big") + bytes(40_000)), budget=budget)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(reader.receive)
        await trio.sleep(50)
        handled.release()
        await trio.sleep(3)
        assert trio.current_time() - reader.frame_started_at == pytest.approx(3)
        assert reader.arrived_bytes == 40_000
        nursery.cancel_scope.cancel()


async def receiving(nursery, count, *, claimed, sent, budget):
    """Readers of frames of which no more comes than was sent."""
    readers = []
    for _ in range(count):
        stream = OpenEnded(claimed.to_bytes(4, "big") + bytes(sent))
        readers.append(KafkaFrameReader(stream, budget=budget))
        nursery.start_soon(readers[-1].receive)
    await trio.testing.wait_all_tasks_blocked()
    return readers


async def test_large_frames_leave_a_quarter_of_the_memory_to_small_ones(autojump_clock):
    budget = MemoryBudget(8 << 20)
    async with trio.open_nursery() as nursery:
        await receiving(nursery, 50, claimed=100 << 20, sent=300_000, budget=budget)
        assert budget.wanted_of_large > 0
        with trio.fail_after(0.1):
            await KafkaFrameReader(Scripted(framed(bytes(SPARE_BYTES))), budget=budget).receive()
        nursery.cancel_scope.cancel()


async def test_a_small_frame_never_waits_with_memory_in_its_hands(autojump_clock):
    """They could all hold some that they can't use, and nobody would be late."""
    budget = MemoryBudget(4 << 20)
    async with trio.open_nursery() as nursery:
        readers = await receiving(nursery, 8, claimed=1 << 20, sent=300_000, budget=budget)
        assert sorted(reader.held_bytes for reader in readers) == 4 * [0] + 4 * [1 << 20]
        await trio.sleep(1)
        now = trio.current_time()
        assert all(reader.is_late(now) is (reader.held_bytes > 0) for reader in readers)
        nursery.cancel_scope.cancel()


async def test_a_smaller_ask_goes_before_larger_ones_that_came_a_little_earlier(autojump_clock):
    budget = MemoryBudget(1 << 20)
    handled = Account(budget)
    await handled.draw(1 << 20)
    served = []

    async def ask(size):
        account = Account(budget)
        await account.draw(size)
        served.append(size)
        account.release()

    async with trio.open_nursery() as nursery:
        began = trio.current_time()
        for size, at in ((1_000_000, 0), (600_000, 0.5), (550_000, 1.2)):
            await trio.sleep_until(began + at)
            nursery.start_soon(ask, size)
            await trio.testing.wait_all_tasks_blocked()
        handled.release()
    assert served == [600_000, 1_000_000, 550_000]


@pytest.mark.parametrize(
    ("name", "burst", "step", "late"),
    [
        ("stops", 200_000, 0, True),
        ("dribbles", 200_000, 1, True),
        ("stops after much", 40 << 20, 0, True),
        ("too slow for what it holds", 40 << 20, 100_000, True),
        ("slow", 200_000, 60_000, False),
        ("quick enough for what it holds", 40 << 20, 4_000_000, False),
    ],
)
async def test_a_peer_is_late_by_what_it_holds_and_sends_now(autojump_clock, name, burst, step, late):
    """Every 0.2 s it sends a step."""

    class Peer(Scripted):
        async def receive_into(self, buffer):
            if not self.left:
                if not step:
                    await trio.sleep_forever()
                await trio.sleep(0.2)
                self.left = step
            await trio.lowlevel.checkpoint()
            size = min(self.left, len(buffer))
            self.left -= size
            return size

    peer = Peer((100 << 20).to_bytes(4, "big") + bytes(RECEIVE_BYTES))
    peer.left = burst
    reader = KafkaFrameReader(peer, budget=MemoryBudget(256 << 20))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(reader.receive)
        await trio.sleep(0.4)
        assert not reader.is_late(trio.current_time())
        for _ in range(10):
            await trio.sleep(0.13)
        assert reader.is_late(trio.current_time()) is late
        nursery.cancel_scope.cancel()


async def test_a_frame_that_waits_for_more_memory_than_it_holds_is_late_after_ten_seconds(autojump_clock):
    budget = MemoryBudget(8 << 20)
    async with trio.open_nursery() as nursery:
        readers = await receiving(nursery, 9, claimed=100 << 20, sent=1_100_000, budget=budget)
        waiting = [reader for reader in readers if reader.held_bytes and reader.frame_started_at is None]
        assert len(waiting) >= 2
        await trio.sleep(9)
        assert not any(reader.is_late(trio.current_time()) for reader in waiting)
        await trio.sleep(2)
        assert all(reader.is_late(trio.current_time()) for reader in waiting)
        nursery.cancel_scope.cancel()
