"""The active controller's walks over the partitions that records change: over many in pieces.

The deletion of a topic changes all its partitions with one record.
"""

from collections import deque
from collections.abc import Callable, Iterator
from typing import Final

import trio

from quorate.broker.metadata.delta import MetadataDelta, PartitionDelta
from quorate.runtime import Slices

_AT_ONCE: Final = 1000
"""Partitions that are noted when their delta comes, in about a millisecond."""


class PartitionWalks:
    """Calls `note` with the last offset (inclusive) of each delta and each of its partitions, in order.
    Large deltas are noted in pieces."""

    __slots__ = ("_note", "_wake", "_walks")

    def __init__(self, note: Callable[[int, PartitionDelta], None]) -> None:
        self._note = note
        self._walks: deque[tuple[int, Iterator[PartitionDelta | None]]] = deque()
        self._wake = trio.Event()

    @property
    def under_way(self) -> bool:
        """True while partitions are left that `run` will note."""
        return bool(self._walks)

    def begin(self, delta: MetadataDelta) -> None:
        """Note some partitions of `delta`, and leave the others to `run`."""
        self._walks.append((delta.end_offset - 1, delta.looks()))
        if len(self._walks) == 1:
            for _ in range(_AT_ONCE):
                if not self._step():
                    return
        self._wake.set()

    def forget(self) -> None:
        """Drop the partitions that are not noted yet."""
        self._walks.clear()

    async def run(self) -> None:
        """Note the partitions that `begin` left. Runs until cancelled."""
        while True:
            await self._wake.wait()
            self._wake = trio.Event()
            slices = Slices()
            while self._step():
                await slices.pause()

    def _step(self) -> bool:
        """Note one partition. False: none is left."""
        while self._walks:
            offset, looks = self._walks[0]
            for each in looks:
                if each is not None:
                    self._note(offset, each)
                return True
            self._walks.popleft()
        return False
