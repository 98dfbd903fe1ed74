"""Chunks of snapshots for followers that fetch them, read without holding up the event loop."""

from collections.abc import Callable
from dataclasses import replace

import trio

from quorate.error_code import ErrorCode
from quorate.log import PositionOutOfRangeError, SnapshotMissingError
from quorate.log.snapshots.snapshots import SnapshotStore
from quorate.raft.core import FetchSnapshotResponse, SendSnapshotChunk
from quorate.types import NodeId

_READERS = 4
CHUNK_BYTES = 1024 * 1024
"""Enough for a fast transfer, little enough to encode, receive and store without a stall."""


class SnapshotSender:
    """Reads for four followers at once, so that there are at most 4 MiB of chunks in memory here, and one
    chunk in each follower's outbox."""

    def __init__(self, store: SnapshotStore, *, answer: Callable[[FetchSnapshotResponse], None]) -> None:
        """`answer` gets each response, filled in."""
        self._store = store
        self._answer = answer
        self._asked: dict[NodeId, SendSnapshotChunk] = {}
        self._wake = trio.Event()

    def send(self, effect: SendSnapshotChunk) -> None:
        """A follower that asks again before its turn has given up waiting for the first answer."""
        follower = effect.response.destination
        self._asked.pop(follower, None)
        self._asked[follower] = effect
        wake, self._wake = self._wake, trio.Event()
        wake.set()

    async def run(self) -> None:
        """Run until cancelled. Raises `DiskError`."""
        async with trio.open_nursery() as nursery:
            for _ in range(_READERS):
                nursery.start_soon(self._read_all)

    async def _read_all(self) -> None:
        while True:
            while self._asked:
                effect = self._asked.pop(next(iter(self._asked)))
                self._answer(await self._read_chunk(effect))
            await self._wake.wait()

    async def _read_chunk(self, effect: SendSnapshotChunk) -> FetchSnapshotResponse:
        response = effect.response
        max_bytes = max(0, min(effect.max_bytes, CHUNK_BYTES))
        try:
            chunk, size = await self._store.read_chunk(response.snapshot, response.position, max_bytes)
        except SnapshotMissingError:
            return replace(response, error=ErrorCode.SNAPSHOT_NOT_FOUND)
        except PositionOutOfRangeError:
            return replace(response, error=ErrorCode.POSITION_OUT_OF_RANGE)
        return replace(response, size=size, length=len(chunk), chunk=chunk)
