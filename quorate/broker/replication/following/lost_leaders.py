"""Leaders whose connection broke a moment ago and has not been opened again.

Such a leader may be dead, and then the controller names another within some tenths of a second. The
answer to Metadata waits for that: a client that is sent back to the dead leader may not ask again for a
second.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

import trio

PATIENCE_S: Final = 1.0
"""After so long nothing is waited for any more: it is the session that decides then."""


@dataclass(slots=True)
class _Lost:
    at: float
    found: trio.Event = field(default_factory=trio.Event)


class LostLeaders:
    """The lost leaders of one broker, as its fetchers see them. One that is silent, or slow, is not lost."""

    __slots__ = ("_lost",)

    def __init__(self) -> None:
        self._lost: dict[int, _Lost] = {}

    def lost(self, leader: int) -> None:
        """The connection to the leader broke."""
        self.found(leader)
        self._lost[leader] = _Lost(at=trio.current_time())

    def found(self, leader: int) -> None:
        """A connection to the leader is open."""
        lost = self._lost.pop(leader, None)
        if lost is not None:
            lost.found.set()

    def recent(self, *, within_s: float = PATIENCE_S) -> Iterator[int]:
        """Yield the leaders that were lost within the last seconds, and not found since."""
        if self._lost:
            now = trio.current_time()
            yield from [leader for leader, lost in self._lost.items() if now - lost.at < within_s]

    async def wait_found(self, leader: int) -> None:
        """Return when the leader is found, or can't be called lost recently any more."""
        lost = self._lost.get(leader)
        if lost is not None:
            with trio.move_on_at(lost.at + PATIENCE_S):
                await lost.found.wait()
