"""Frames on the controller listener: a length, a CBOR header, and raw bytes.

    uint32 length of what follows | uint16 length of the header | header (CBOR array) | payload

The header is `[kind, version, correlation, field, ...]`. Later versions append fields, which older
receivers skip. Record bytes travel as the payload, so that they are never copied into or out of CBOR.
Every connection starts with a preface, by which a peer that speaks another protocol is recognised at once.
"""

import enum
import struct
from collections.abc import Sequence
from dataclasses import dataclass

from quorate import cbor
from quorate.raft.quorum_errors import PeerProtocolError
from quorate.runtime import Buffer, Stream

PREFACE = b"quorate\x01"
MAX_HEADER_BYTES = 16 * 1024
MAX_DEPTH = 6
_MAX_LOADED_BYTES = 1024 * 1024
_RECEIVE_BYTES = 256 * 1024
_SMALL_FRAME_BYTES = 64 * 1024

_LENGTHS = struct.Struct(">IH")


class FrameKind(enum.IntEnum):
    """The kind of a frame. Requests are even. The response to each is the next odd number."""

    VOTE = 2
    BEGIN_QUORUM_EPOCH = 4
    END_QUORUM_EPOCH = 6
    FETCH = 8
    APPEND = 10
    """Append records, from a follower on behalf of its user or from a client."""
    APPLICATION = 12
    """A request of the application's own, e.g. from a broker to its controller."""
    FETCH_SNAPSHOT = 14
    READ_INDEX = 16
    """The offset that must be applied to read what was committed before the request."""
    CHANGE_VOTERS = 18
    """Add, remove or update one voter, or adopt a static set (KIP-853)."""
    TRANSFER_LEADERSHIP = 20
    DESCRIBE_QUORUM = 22
    """A node's knowledge of its quorum: the leader and its endpoint, and on the leader the progress of its
    replicas (KIP-836). Only this request may leave the cluster id empty, to learn it."""
    TAKE_SNAPSHOT = 24
    """Take a snapshot of the state of the node that is asked (KIP-630)."""
    LIST_SNAPSHOTS = 26
    """The snapshots of the node that is asked."""
    READ_SNAPSHOT = 28
    """A piece of one of them. It changes nothing, and its sender does not count as a replica."""


RESPONSE = 1
"""Added to a request's kind."""


@dataclass(slots=True)
class Frame:
    """Not changed after it was read (not frozen, because that would double the cost of a small one)."""

    kind: int
    version: int
    correlation: int
    fields: list[object]
    payload: memoryview


def encode_frame(
    kind: int, correlation: int, fields: Sequence[object], payload: Sequence[Buffer] = (), *, version: int = 0
) -> list[Buffer]:
    """Buffers to send, payload by identity."""
    # A plain number, because for an enum's member cbor2 searches its encoders.
    header = cbor.dump([int(kind), version, correlation, *fields])
    size = 2 + len(header) + sum(map(len, payload))
    return [_LENGTHS.pack(size, len(header)) + header, *payload]


def decode_frame(body: memoryview) -> Frame:
    """Decode the bytes after the length. Raises `PeerProtocolError`."""
    header_size = int.from_bytes(body[:2], "big")
    if header_size > MAX_HEADER_BYTES or header_size + 2 > len(body):
        raise PeerProtocolError(f"a frame's header claims {header_size} bytes of {len(body) - 2}")
    header = load(bytes(body[2 : 2 + header_size]))
    if type(header) is list and len(header) >= 3:
        kind, version, correlation, *fields = header
        if type(kind) is type(version) is type(correlation) is int:
            return Frame(kind, version, correlation, fields, body[2 + header_size :])
    raise PeerProtocolError("a frame's header is not [kind, version, correlation, ...]")


def load(data: bytes) -> object:
    """Decode `data` to a plain value: tags are refused, depth and size limited. Raises
    `PeerProtocolError`."""
    try:
        return cbor.load(data, max_bytes=_MAX_LOADED_BYTES, max_depth=MAX_DEPTH, text_keys=True)
    except cbor.SchemaError as error:
        raise PeerProtocolError(f"a frame has what is not CBOR: {error}") from error


class OtherProtocolError(PeerProtocolError):
    """A connection began with another protocol than the quorum's. `began`: its first bytes."""

    def __init__(self, began: bytes) -> None:
        super().__init__(
            f"it began with {began[:16]!r}, which is not quorate's quorum protocol; "
            "Kafka clients belong on the client listener"
        )
        self.began = began


class FrameReader:
    """Takes every whole frame of a receive at once. Memory is bounded by the largest frame, and by twice what
    has arrived of it: a length alone allocates nothing."""

    __slots__ = ("_buffer", "_max_frame_bytes", "_stream")

    def __init__(self, stream: Stream, *, max_frame_bytes: int) -> None:
        self._stream = stream
        self._buffer = b""
        self._max_frame_bytes = max_frame_bytes

    async def receive_preface(self) -> bool:
        """False if the stream ended first. Raises `OtherProtocolError`."""
        while len(self._buffer) < len(PREFACE):
            data = await self._stream.receive_some()
            if not data:
                return False
            self._buffer += data
            if not PREFACE.startswith(self._buffer[: len(PREFACE)]):
                raise OtherProtocolError(self._buffer)
        self._buffer = self._buffer[len(PREFACE) :]
        return True

    async def receive(self) -> list[Frame]:
        """Return the frames that have arrived, at least one. Empty: the stream has ended.

        Raises `PeerProtocolError` for bytes that are not a frame, `NetworkError` when the connection breaks.
        """
        while True:
            if self._buffer and (frames := self._whole_frames()):
                return frames
            if not await self._receive_more():
                return []

    async def _receive_more(self) -> bool:
        buffered = self._buffer
        if len(buffered) >= 4 and (size := int.from_bytes(buffered[:4], "big") + 4) > _SMALL_FRAME_BYTES:
            # Parts of a large frame are joined once, not grown by concatenation.
            parts, missing = [buffered], size - len(buffered)
            while missing:
                part = await self._stream.receive_some(min(missing, _RECEIVE_BYTES))
                if not part:
                    return False
                parts.append(part)
                missing -= len(part)
            self._buffer = b"".join(parts)
            return True
        data = await self._stream.receive_some(_RECEIVE_BYTES)
        self._buffer = buffered + data
        return bool(data)

    def _whole_frames(self) -> list[Frame]:
        buffer = self._buffer
        position, end = 0, len(buffer)
        frames: list[Frame] = []
        while end - position >= 4:
            size = int.from_bytes(buffer[position : position + 4], "big")
            if not 2 <= size <= self._max_frame_bytes:
                raise PeerProtocolError(
                    f"a frame claims {size} bytes, the limit is {self._max_frame_bytes}; is it quorate?"
                )
            start, position_after = position + 4, position + 4 + size
            if position_after > end:
                break
            frames.append(decode_frame(memoryview(buffer)[start:position_after]))
            position = position_after
        if position:
            self._buffer = buffer[position:]
        return frames
