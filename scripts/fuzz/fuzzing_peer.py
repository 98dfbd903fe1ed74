"""A peer that sends mutated frames, and the errors that nodes log of them."""

from collections.abc import Sequence

import trio
from mutations import Mutator
from wellformed import Liar

from quorate.raft.transport.frames import PREFACE
from quorate.runtime.disk import Buffer
from quorate.simulation.world.trace import LogEntry


class FuzzingPeer:
    """A stream whose other end is a fuzzer: each receive gives one frame."""

    def __init__(self, mutator: Mutator | Liar, frames: int) -> None:
        self._mutator = mutator
        self._frames = frames
        self._begun = False
        self._ended = False
        self._closed = trio.Event()
        self.sent: list[tuple[str, bytes]] = []
        self.answered = 0

    @property
    def peer(self) -> str:
        return "fuzzer"

    @property
    def identities(self) -> None:
        return None

    async def handshake(self) -> None:
        return

    @property
    def closed_early(self) -> bool:
        """True if the node closed the connection before all frames were sent."""
        return self._closed.is_set() and not self._ended

    async def receive_some(self, max_bytes: int = 65536) -> bytes:
        await trio.lowlevel.checkpoint()
        if not self._begun:
            self._begun = True
            return PREFACE
        if self._ended or len(self.sent) >= self._frames:
            self._ended = True
            return b""
        name, data = self._mutator.next()
        self.sent.append((name, data))
        if int.from_bytes(data[:4], "big") + 4 > len(data):
            self._ended = True  # what came next would only be taken for the rest of this one
        return data

    async def receive_into(self, buffer: memoryview) -> int:
        raise AssertionError("frames are received as bytes")

    def send_nowait(self, buffers: Sequence[Buffer]) -> int:
        count = sum(map(len, buffers))
        self.answered += count
        return count

    async def send(self, buffers: Sequence[Buffer]) -> None:
        await trio.lowlevel.checkpoint()
        self.answered += sum(map(len, buffers))

    def close(self) -> None:
        self._closed.set()


CLAIMED = (
    "the node stops",
    "two nodes have one id",
    "the leader counts other voters than this node is configured with",
    "a voter is of another cluster",
)
"""The events that a node logs as errors and that well-formed lies justify."""


class Errors:
    """Takes the place of the log and keeps the errors in it, except those that lies justify."""

    def __init__(self) -> None:
        self._errors: list[str] = []

    def __call__(self, entry: LogEntry) -> None:
        if entry["log_level"] in ("error", "critical") and entry["event"] not in CLAIMED:
            self._errors.append(f"logged: {entry}")

    def taken(self) -> list[str]:
        errors, self._errors = self._errors, []
        return errors
