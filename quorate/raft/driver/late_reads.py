"""Answers to Fetches of records that are no longer in memory: read from the disk, in a task of their own."""

from collections.abc import Callable

import trio

from quorate.log import Log, OffsetOutOfRangeError
from quorate.raft.core import SendRecords
from quorate.runtime import Buffer
from quorate.types import Epoch


class LateReads:
    """Reads from the disk for one Fetch at a time, in their order."""

    def __init__(
        self,
        log: Log,
        *,
        generation: Callable[[Epoch], int | None],
        answer: Callable[[SendRecords, Buffer], None],
    ) -> None:
        """`generation`: returns the log's generation while this node leads in that epoch. Records read in an
        earlier generation may have been cut off, so they are not sent. `answer`: sends the records."""
        self._log = log
        self._generation = generation
        self._answer = answer
        self._asked: list[tuple[SendRecords, int]] = []
        self._wake = trio.Event()

    def read_later(self, effect: SendRecords, max_bytes: int) -> None:
        self._asked.append((effect, max_bytes))
        self._wake.set()

    async def run(self) -> None:
        """Run until cancelled. Raises `DiskError`."""
        while True:
            await self._wake.wait()
            self._wake = trio.Event()
            asked, self._asked = self._asked, []
            for effect, max_bytes in asked:
                await self._read_records(effect, max_bytes)

    async def _read_records(self, effect: SendRecords, max_bytes: int) -> None:
        epoch = effect.response.epoch
        generation = self._generation(epoch)
        records: Buffer
        try:
            records = await self._log.read(effect.start_offset, max_bytes)
        except OffsetOutOfRangeError:
            # The log start moved, or the log was cut. The follower asks again, and then learns what to do.
            records = b""
        if generation is not None and self._generation(epoch) == generation:
            self._answer(effect, records)
