"""Kafka's frames: four bytes of length, then so many bytes.

Small frames are taken in bulk: one large receive, and every frame in it. A frame larger than a receive gets a
buffer of its own and the kernel writes straight into it, so its bytes are copied once, by the kernel (all
but the first part, which came with the length, and the first megabytes of what is huge). A huge frame's
buffer is mapped: the kernel gives memory to its pages when they are filled. To have 100 MiB cleared and the
quarter of them copied that was there would hold the event loop for 50 ms. A buffer of about a megabyte is
filled again by a later frame, once no view refers to it.
"""

import math
import mmap
import struct
from typing import Final

import trio

from quorate.broker.wire.budget import SMALL_BYTES, SPARE_BYTES, Account, MemoryBudget, SpareBuffers
from quorate.kafka_bytes.varints import MalformedError
from quorate.runtime import Stream

RECEIVE_BYTES: Final = 65536
MAX_FRAME_BYTES: Final = 100 * 1024 * 1024
"""Kafka's `socket.request.max.bytes`."""
_PROVEN_BYTES: Final = RECEIVE_BYTES // 2
"""A frame has no memory of its own before so many bytes of it have arrived."""
_GROWTH: Final = 4
"""The factor by which the memory of a frame above `SMALL_BYTES` exceeds the bytes arrived. A peer is charged
for bytes sent, not for bytes claimed."""
_SECOND_BYTES: Final = SPARE_BYTES
"""The memory of such a frame at least, while memory is not short: it is copied once, after the first receive.
Less where the memory for all requests is less than 64 of them."""
_OWN_SPARES: Final = 2
"""Of a reader without a budget: one that is filled while the last frame is handled."""
_MAPPED_BYTES: Final = 4 * 1024 * 1024
"""Buffers above this size are mapped, as large as the frame. To clear and copy less takes a millisecond."""
_LENGTH = struct.Struct(">i")
SLOWEST_BYTES_PER_S: Final = 256 * 1024
"""The slowest pace of a peer. A peer is late within a frame below it, or if it needs longer than
`_LONGEST_HOLD_S` for as many bytes as it holds memory. A large frame or answer has the time that this pace
takes on top of the time-out."""
_LONGEST_HOLD_S: Final = 10.0
_GRACE_S: Final = 0.5
"""The time for which a peer may be silent within a frame without being late."""


class KafkaFrameReader:
    """Cuts frames out of a stream. One task uses it.

    Frames are read-only views; the memory of a small one is shared with its neighbours. Memory of a large
    frame is drawn from `budget` as the frame arrives, and stays drawn until `release`.
    """

    __slots__ = ("_account", "_budget", "_large", "_large_capacity", "_large_filled", "_large_size",
                 "_late_at", "_limited_by", "_max_frame_bytes", "_rest", "_second_bytes", "_spares",
                 "_stream", "frame_started_at")  # fmt: skip

    def __init__(
        self, stream: Stream, *, max_frame_bytes: int = MAX_FRAME_BYTES, budget: MemoryBudget | None = None
    ) -> None:
        self._stream = stream
        self._max_frame_bytes = max_frame_bytes
        self._limited_by = "socket.request.max.bytes"
        self._budget = budget
        self._account = None if budget is None else Account(budget)
        self._second_bytes = _SECOND_BYTES if budget is None else min(_SECOND_BYTES, budget.limit // 64)
        self._spares = SpareBuffers(_OWN_SPARES) if budget is None else budget.spares
        self._rest = b""
        self._large: bytearray | mmap.mmap | None = None
        self._large_capacity = 0
        """The part of the buffer that may be filled: its bytes are drawn."""
        self._large_filled = 0
        self._large_size = 0
        self.frame_started_at: float | None = None
        """`trio.current_time()` when the first byte of an unfinished frame arrived, plus the time that it
        waited for others' memory, which is not the peer's slowness. None without a frame or in a wait."""
        self._late_at = math.inf
        """The time at which the peer is late unless more has come; of a frame that waits for more memory, the
        time at which it has waited for too long."""

    def limit(self, max_frame_bytes: int, *, key: str) -> None:
        """Refuse frames above this size from the next receive on. `key`: the setting that says so."""
        self._max_frame_bytes = max_frame_bytes
        self._limited_by = key

    async def receive(self) -> list[memoryview]:
        """Return at least one whole frame, or none at the end of the stream. Raises `NetworkError`, and
        `MalformedError` for an invalid length or an end inside a frame."""
        while True:
            if self._large is not None:
                return [await self._receive_large(self._large)]
            data = await self._stream.receive_some(RECEIVE_BYTES)
            if not data:
                if self._rest:
                    raise MalformedError(f"the stream ended {len(self._rest)} bytes into a frame")
                return []
            frames = self._cut(self._rest + data if self._rest else data)
            if frames:
                return frames

    def _cut(self, chunk: bytes) -> list[memoryview]:
        view = memoryview(chunk)
        frames = []
        position = 0
        available = len(chunk)
        while available - position >= 4:
            (size,) = _LENGTH.unpack_from(chunk, position)
            if not 0 <= size <= self._max_frame_bytes:
                raise MalformedError(self._refusal(chunk[position : position + 4], size))
            stop = position + 4 + size
            if stop > available:
                if size > RECEIVE_BYTES and available - position >= _PROVEN_BYTES:
                    self._start_large(view[position + 4 :], size)
                    position = available
                break
            frames.append(view[position + 4 : stop])
            position = stop
        self._rest = chunk[position:]
        unfinished = bool(self._rest) or self._large is not None
        if not unfinished:
            self.frame_started_at = None
        elif self.frame_started_at is None or frames:
            self.frame_started_at = trio.current_time()
        return frames

    def _refusal(self, head: bytes, size: int) -> str:
        if head in (b"GET ", b"POST", b"PUT ", b"HEAD", b"OPTI", b"HTTP", b"DELE", b"CONN", b"PRI "):
            return "the peer speaks HTTP; this port speaks Kafka's protocol"
        if head[:2] == b"\x16\x03":
            return "the peer speaks TLS; this listener is plaintext"
        if size < 0:
            return f"negative frame length {size}"
        return f"a frame of {size} bytes, above the {self._max_frame_bytes} of {self._limited_by}"

    def _start_large(self, head: memoryview, size: int) -> None:
        self._large = bytearray(head)
        self._large_capacity = len(head)
        self._large_filled = len(head)
        self._large_size = size

    async def _receive_large(self, buffer: bytearray | mmap.mmap) -> memoryview:
        size = self._large_size
        while True:
            if self._large_filled == self._large_capacity:
                capacity = self._next_capacity(size)
                await self._draw(capacity)
                if capacity > len(buffer):
                    self._large = buffer = self._grown(buffer, capacity)
                self._large_capacity = capacity
            view = memoryview(buffer)
            while self._large_filled < self._large_capacity:
                received = await self._stream.receive_into(view[self._large_filled : self._large_capacity])
                if not received:
                    raise MalformedError(
                        f"the stream ended {self._large_filled} bytes into a frame of {size}"
                    )
                self._large_filled += received
                if self._account is not None:
                    self._note_progress(received, self._account.held)
            if self._large_filled == size:
                self._large = None
                self.frame_started_at = None
                self._late_at = math.inf
                self._leave(buffer)
                return view[:size].toreadonly()

    def _next_capacity(self, size: int) -> int:
        """Return how much of a frame of `size` bytes may be filled next. A small one is never begun without
        memory for all of it: it holds none that it can't use."""
        if size <= SMALL_BYTES:
            return size
        least = 0 if self._budget is not None and self._budget.is_short else self._second_bytes
        return min(size, max(least, _GROWTH * self._large_filled))

    def _note_progress(self, received: int, held: int) -> None:
        now = trio.current_time()
        pace = max(SLOWEST_BYTES_PER_S, held / _LONGEST_HOLD_S)
        self._late_at = min(max(self._late_at, now) + received / pace, now + _GRACE_S)

    async def _draw(self, capacity: int) -> None:
        """Draw up to `capacity` bytes for the frame, before they are reserved."""
        if self._account is None:
            return
        started, asked = self.frame_started_at, trio.current_time()
        self.frame_started_at = None
        self._late_at = asked + _LONGEST_HOLD_S
        await self._account.draw(capacity - self._account.held, of=self._large_size)
        granted = trio.current_time()
        self._late_at = granted + _GRACE_S
        if started is not None:
            self.frame_started_at = started + granted - asked

    def _grown(self, buffer: bytearray | mmap.mmap, capacity: int) -> bytearray | mmap.mmap:
        larger = self._buffer_of(capacity)
        filled = self._large_filled
        larger[:filled] = memoryview(buffer)[:filled]
        self._leave(buffer)
        return larger

    def _leave(self, buffer: bytearray | mmap.mmap) -> None:
        if isinstance(buffer, bytearray):
            self._spares.keep(buffer)

    def _buffer_of(self, capacity: int) -> bytearray | mmap.mmap:
        if capacity > _MAPPED_BYTES:
            return mmap.mmap(-1, self._large_size)
        if SPARE_BYTES // 2 < capacity <= SPARE_BYTES:
            return self._spares.take()
        return bytearray(capacity)

    @property
    def arrived_bytes(self) -> int:
        """The received bytes of the large frame under way; 0 when it is a small one or none."""
        return self._large_filled if self._large is not None else 0

    @property
    def held_bytes(self) -> int:
        """The bytes drawn from the budget."""
        return 0 if self._account is None else self._account.held

    @property
    def is_large(self) -> bool:
        """Whether those count among what is large."""
        return self._account is not None and self._account.large

    def is_late(self, now: float) -> bool:
        """Return whether the frame under way holds memory and comes too slowly, if others need it."""
        return self._large is not None and self.held_bytes > 0 and now > self._late_at

    def release(self) -> None:
        """Return the last large frame's bytes to the budget, handled or not."""
        if self._account is not None:
            self._account.release()
