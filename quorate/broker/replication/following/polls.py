"""The fetches that are under way to one leader: one, or two while a long poll makes room for the next."""

import math
from collections import deque
from typing import Final, NamedTuple

import trio

from quorate.broker.wire import SentFetch
from quorate.runtime import NetworkError

_APART_MIN_S: Final = 0.01
_APART_MAX_S: Final = 0.08
_SLOWEST_POLLS: Final = 2
"""How many long polls an answer may take once the next request was sent. A leader that is alive answers at
once or, if it knows nothing of requests sent ahead, at the end of the poll."""


class Poll(NamedTuple):
    """A request that was sent and not answered."""

    number: int
    fetch: SentFetch


class RequestPace:
    """When the next request may be sent that no answer has called for: for a partition that is new, or one
    whose pause is over. What is due together is named together. A request costs both brokers much more than a
    name in it, so the least time between two grows from 10 to 80 ms while thousands of partitions are
    opened."""

    __slots__ = ("_apart_s", "_last")

    def __init__(self) -> None:
        self._apart_s = _APART_MIN_S
        self._last = -math.inf

    @property
    def next_at(self) -> float:
        """The earliest time of the next such request."""
        return self._last + self._apart_s

    def sent(self, now: float) -> None:
        """Such a request is sent."""
        goes_on = now < self._last + 2 * self._apart_s
        self._apart_s = min(2 * self._apart_s, _APART_MAX_S) if goes_on else _APART_MIN_S
        self._last = now


class Polls:
    """In the order in which they were sent, which is that of the answers."""

    def __init__(self, *, poll_s: float) -> None:
        """`poll_s`: the longest time that a leader holds a request."""
        self._poll_s = poll_s
        self._under_way: deque[Poll] = deque()
        self._news = trio.Event()
        self._waiting = trio.CancelScope()
        self.pace = RequestPace()

    def __len__(self) -> int:
        return len(self._under_way)

    def begun(self, poll: Poll) -> None:
        """A request was sent."""
        self._under_way.append(poll)

    def forget(self) -> None:
        """Take no answer any more."""
        while self._under_way:
            self._under_way.popleft().fetch.forget()

    def tell_news(self) -> None:
        """There is something to ask for that no request has named."""
        self._news.set()
        self._waiting.cancel()

    def take_news(self) -> None:
        """The next request has what there is to ask for."""
        self._news = trio.Event()

    async def wait_for_news(self, until: float) -> None:
        """Wait for news while nothing is fetched, at most until `until`."""
        with trio.move_on_at(until):
            await self._news.wait()
        self.take_news()

    async def may_go_ahead(self) -> bool:
        """Wait for the answer to the only request. Return True, before it has come, if there is news and it
        is time for the next one."""
        fetch = self._under_way[0].fetch
        while not fetch.over:
            now = trio.current_time()
            if now >= fetch.deadline:
                break
            if not self._news.is_set():
                with trio.CancelScope(deadline=fetch.deadline) as self._waiting:
                    await fetch.wait()
            elif now < self.pace.next_at:
                with trio.move_on_at(self.pace.next_at):
                    await fetch.wait()
            else:
                self.pace.sent(now)
                return True
        return False

    async def answered(self) -> Poll:
        """Wait for the first answer, or too long for it, and return its request. Raises `NetworkError` if it
        does not come although the next was sent."""
        fetch, is_last = self._under_way[0].fetch, len(self) == 1
        if not fetch.over:
            patience = math.inf if is_last else trio.current_time() + _SLOWEST_POLLS * self._poll_s
            with trio.move_on_at(min(fetch.deadline, patience)) as waiting:
                await fetch.wait()
            if waiting.cancelled_caught and not is_last:
                raise NetworkError("the leader answers no more")
        return self._under_way.popleft()
