import random
import tracemalloc

import pytest
import trio

from quorate.raft.quorum_errors import PeerProtocolError
from quorate.raft.transport.frames import PREFACE, FrameKind, FrameReader, encode_frame


class Script:
    """A stream that yields what it was given, in pieces of any size, then ends."""

    peer = "script"

    def __init__(self, data, *, piece=None):
        self._data = bytes(data)
        self._piece = piece
        self.largest_asked = 0

    async def receive_some(self, max_bytes=65536):
        await trio.lowlevel.checkpoint()
        self.largest_asked = max(self.largest_asked, max_bytes)
        size = max_bytes if self._piece is None else min(max_bytes, self._piece())
        data, self._data = self._data[:size], self._data[size:]
        return data


def joined(*frames):
    return b"".join(bytes(part) for frame in frames for part in frame)


def reader_of(data, *, max_frame_bytes=1 << 20, piece=None):
    return FrameReader(Script(data, piece=piece), max_frame_bytes=max_frame_bytes)


async def all_frames(reader):
    found = []
    while frames := await reader.receive():
        found.extend(frames)
    return found


@pytest.mark.parametrize("seed", range(20))
async def test_frames_arrive_whole_however_the_stream_cuts_them(seed):
    draw = random.Random(seed)
    payloads = [draw.randbytes(draw.choice((0, 1, 100, 70_000, 200_000))) for _ in range(8)]
    data = PREFACE + joined(*(encode_frame(FrameKind.FETCH, n, [n], [p]) for n, p in enumerate(payloads)))
    reader = reader_of(data, piece=lambda: draw.choice((1, 7, 1000, 65536, 300_000)))
    assert await reader.receive_preface()
    frames = await all_frames(reader)
    assert [(f.correlation, bytes(f.payload)) for f in frames] == list(enumerate(payloads))


async def test_all_whole_frames_of_a_receive_come_at_once():
    reader = reader_of(joined(*(encode_frame(FrameKind.VOTE, n, []) for n in range(5))))
    assert len(await reader.receive()) == 5
    assert await reader.receive() == []


async def test_a_stream_that_ends_within_a_frame_has_no_more_frames():
    whole = joined(encode_frame(FrameKind.APPEND, 1, ["c"], [bytes(100_000)]))
    for cut in (2, 10, 70_000, len(whole) - 1):
        assert await all_frames(reader_of(whole[:cut])) == []


@pytest.mark.parametrize("size", [0, 1, 1001, 2**31, 2**32 - 1])
async def test_a_frame_of_an_impossible_size_is_refused_by_its_length_alone(size):
    reader = reader_of(size.to_bytes(4, "big") + bytes(100), max_frame_bytes=1000)
    with pytest.raises(PeerProtocolError, match="the limit is 1000"):
        await reader.receive()


async def test_an_announced_length_allocates_no_memory():
    reader = reader_of((16 << 20).to_bytes(4, "big") + bytes(100), max_frame_bytes=16 << 20)
    tracemalloc.start()
    try:
        assert await reader.receive() == []
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    "first",
    [b"GET / HTTP/1.1\r\n", b"\x00\x00\x00\x10\x00\x12", b"quorate\x02", b"q\n"],
    ids=["http", "kafka", "newer", "prefix"],
)
async def test_another_protocol_is_recognised_by_its_first_bytes(first):
    with pytest.raises(PeerProtocolError, match="client listener"):
        await reader_of(first + bytes(10)).receive_preface()


async def test_a_stream_that_ends_before_the_preface_is_no_error():
    assert not await reader_of(PREFACE[:4]).receive_preface()
    assert not await reader_of(b"").receive_preface()
