"""A client's watch: the records that the state machine applies, without a gap and without a double.

The place in the log is the watch's own, and each request names it. So it does not matter which node answers,
or how often it is asked.
"""

from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from quorate.raft.clients.client_messages import ClientWatch, Watched, decode_runs, encode_client_request
from quorate.raft.clients.leader import Leader
from quorate.types import Offset

_WAIT_MAX_MS: Final = 2000
"""The longest time that a request waits at the leader for records. A node that is silent for twice as long is
given up."""


class Received:
    """The records that a watch has received and not yielded, and its place in the log."""

    __slots__ = ("_end_offset", "_idle_ms", "_records", "_waited_ms", "_yielded_end")

    def __init__(self, from_offset: Offset, *, idle_ms: int | None) -> None:
        self._records: deque[Watched] = deque()
        self._end_offset = self._yielded_end = from_offset
        self._idle_ms = idle_ms
        self._waited_ms: int | None = None
        """The time that was waited at the log's end since the last record. None: the end was not reached."""

    @property
    def end_offset(self) -> Offset:
        """The end of what was received: the offset to ask for next."""
        return self._end_offset

    @property
    def next_offset(self) -> Offset:
        """The end of what was yielded."""
        return self._yielded_end if self._records else self._end_offset

    def take(self) -> Watched | None:
        """Return the next record. None: it must be asked for."""
        if not self._records:
            return None
        watched = self._records.popleft()
        self._yielded_end = Offset(watched.offset + 1)
        self._waited_ms = None
        return watched

    def wait_ms(self) -> int | None:
        """Return the time for which the leader may wait for records. None: there was none for `idle_ms`."""
        if self._idle_ms is None:
            return _WAIT_MAX_MS
        if self._waited_ms is not None and self._waited_ms >= self._idle_ms:
            return None
        return min(_WAIT_MAX_MS, self._idle_ms - (self._waited_ms or 0))

    def add(self, end_offset: Offset, records: Sequence[Watched], *, waited_ms: int) -> None:
        """Add the leader's answer."""
        self._records.extend(records)
        if end_offset == self._end_offset:
            self._waited_ms = (self._waited_ms or 0) + waited_ms
        self._end_offset = end_offset


class WatchedLeader:
    """The way of one watch to the leader. It has a connection of its own, so that a slow watch does not hold
    up other calls."""

    def __init__(self, leader: Leader, *, timeout_ms: int) -> None:
        self._leader = leader
        self._timeout_ms = timeout_ms

    async def find_end(self) -> Offset:
        """Return the offset from which on the next records will be applied. Raises as `Client.watch`."""
        end_offset, _ = await self._ask(None, wait_ms=0)
        return end_offset

    async def fetch(self, received: Received, *, wait_ms: int) -> tuple[Offset, list[Watched]]:
        """Return what follows the received records, as soon as there is something, or nothing after
        `wait_ms`. `received` stays as it is, so a call that is cancelled loses nothing. Raises as iterating
        over a `Watch`."""
        return await self._ask(received.end_offset, wait_ms=wait_ms)

    def fetching(
        self, received: Received, *, wait_ms: int
    ) -> Callable[[object], Awaitable[tuple[Offset, list[Watched]]]]:
        """Return `fetch` as a call for the thread of a client."""
        return lambda _: self.fetch(received, wait_ms=wait_ms)

    async def _ask(self, from_offset: Offset | None, *, wait_ms: int) -> tuple[Offset, list[Watched]]:
        answer = await self._leader.ask(
            lambda left: encode_client_request(ClientWatch(min(left, wait_ms), from_offset)),
            timeout_ms=self._timeout_ms,
            repeatable=True,
        )
        return decode_runs(answer, from_offset=from_offset)

    def close(self) -> None:
        self._leader.close()


class Watch:
    """An iterator over the records that the state machine applies, without end. One task at a time may
    iterate."""

    __slots__ = ("_leader", "_received")

    def __init__(self, leader: WatchedLeader, received: Received) -> None:
        self._leader = leader
        self._received = received

    @property
    def next_offset(self) -> Offset:
        """The offset from which on another watch continues this one: all records below were yielded."""
        return self._received.next_offset

    def __aiter__(self) -> "Watch":
        return self

    async def __anext__(self) -> Watched:
        """Return the next record. No checkpoint if it was received before. A cancelled call loses nothing.

        Raises `OffsetGoneError` if a snapshot has taken the place of the next records, and
        `LeaderNotFoundError` or `OutcomeUnknownError` if no leader answered for `timeout_ms`. The next call
        asks again then.
        """
        received = self._received
        while (watched := received.take()) is None:
            wait_ms = received.wait_ms()
            if wait_ms is None:
                raise StopAsyncIteration
            received.add(*await self._leader.fetch(received, wait_ms=wait_ms), waited_ms=wait_ms)
        return watched
