"""Requests that wait: produces for the high watermark, deletions for the low one, fetches for records.

| a request that waits | is tried again when |
|---|---|
| a consumer's fetch | the high watermark of its partition rises, because a consumer reads up to there |
| a follower's fetch | a batch is appended to the leader's log, because a follower reads up to the log end |
| a produce with acks=all | the high watermark rises |
| a deletion of records | the low watermark rises |

The high watermark may rise when the ISR changes, when the leader appends, and when a follower's fetch shows
that its log has grown. The change of a leader, of its epoch or of the log start completes every fetch.

Each request waits on the partitions that can complete it, and one timer holds all deadlines. So a request
that waits costs nothing until either comes. A request is completed after a partition's state has changed,
never within the change (KAFKA-13254).
"""

import heapq
import math
from collections import deque
from collections.abc import Callable
from typing import Final, Protocol

import trio

from quorate.error_code import ErrorCode
from quorate.runtime import Slices
from quorate.types import Offset

_PURGE_INTERVAL: Final = 1000
"""Kafka's `*.purgatory.purge.interval.requests`: so many completed requests may stay with the timer."""
_LONG_WAIT_S: Final = 0.1
_LONG_WAIT_TICK_MS: Final = 5
"""The tick of waits of 0.1 s and more; it is a millisecond for others, as Kafka's is."""


class Waiter:
    """Something that is completed once, by its partitions or by its deadline."""

    __slots__ = ("_callback", "_event", "done")

    def __init__(self) -> None:
        self.done = False
        self._event: trio.Event | None = None
        self._callback: Callable[[], None] | None = None

    def complete(self) -> None:
        """Complete the waiter. Idempotent."""
        if self.done:
            return
        self.done = True
        if self._event is not None:
            self._event.set()
        callback, self._callback = self._callback, None
        if callback is not None:
            callback()

    def expire(self) -> None:
        """The deadline has passed."""
        self.complete()

    def notify(self, callback: Callable[[], None]) -> None:
        """Register the one callback. It is called once: on completion, or now if completed."""
        if self.done:
            callback()
        else:
            self._callback = callback

    async def wait(self) -> None:
        if not self.done:
            if self._event is None:
                self._event = trio.Event()
            await self._event.wait()


class Purgatory:
    """The deadlines of all parked requests, in `trio.current_time()` seconds. Requests that expire in one
    tick of the timer end together, in one wake-up, and never early."""

    __slots__ = ("_at", "_held", "_next", "_sleep", "_ticks", "expired")

    def __init__(self) -> None:
        self._at: dict[int, list[Waiter]] = {}
        """Waiters by their tick, in ms."""
        self._ticks: list[int] = []
        """A heap."""
        self._held = 0
        self._next = math.inf
        self._sleep = trio.CancelScope()
        self.expired = 0

    def count(self, kind: type[Waiter]) -> int:
        """Return the number of waiters of this kind."""
        return sum(
            isinstance(waiter, kind) and not waiter.done for held in self._at.values() for waiter in held
        )

    def hold(self, waiter: Waiter, deadline: float) -> None:
        """Call `waiter.expire()` at `deadline`, unless the waiter is done by then."""
        tick = math.ceil(deadline * 1000)
        if deadline - trio.current_time() >= _LONG_WAIT_S:
            tick += -tick % _LONG_WAIT_TICK_MS
        held = self._at.get(tick)
        if held is None:
            held = self._at[tick] = []
            heapq.heappush(self._ticks, tick)
            if tick / 1000 < self._next:
                # The sleep under way ends sooner: its task needn't be woken to be told so.
                self._next = self._sleep.deadline = tick / 1000
        held.append(waiter)
        self._held += 1
        if self._held % _PURGE_INTERVAL == 0:
            self._purge()

    def _purge(self) -> None:
        for tick, held in self._at.items():
            self._at[tick] = [waiter for waiter in held if not waiter.done]

    async def run(self) -> None:
        """Expire waiters. Runs until cancelled."""
        while True:
            slices = Slices()
            while self._ticks and self._ticks[0] / 1000 <= trio.current_time():
                for waiter in self._at.pop(heapq.heappop(self._ticks)):
                    if not waiter.done:
                        self.expired += 1
                        waiter.expire()
                        if slices.over:
                            await slices.pause()
            self._next = self._ticks[0] / 1000 if self._ticks else math.inf
            with trio.CancelScope(deadline=self._next) as self._sleep:
                await trio.sleep_forever()


class ParkedBatch:
    """A produced batch that waits until the high watermark reaches `end_offset` (exclusive), or a deletion of
    what is below `end_offset` that waits for the low watermark."""

    __slots__ = ("_settle", "end_offset", "settled")

    def __init__(self, end_offset: Offset, settle: Callable[[ErrorCode], None]) -> None:
        self.end_offset = end_offset
        self.settled = False
        self._settle = settle

    def settle(self, error: ErrorCode) -> None:
        if not self.settled:
            self.settled = True
            self._settle(error)


class Observer(Protocol):
    """Something that hears of every change of a partition until it is detached."""

    def changed(self, *, wake: bool) -> None:
        """The partition has changed. `wake`: a fetch that waits for it can be answered now."""


class Watchers:
    """The waiters and the observers of one partition. A completed produce costs one pop, however many
    wait."""

    __slots__ = (
        "_consumers",
        "_deletions",
        "_followers",
        "_observing_consumers",
        "_observing_followers",
        "_produces",
    )

    def __init__(self) -> None:
        self._produces: deque[ParkedBatch] = deque()
        """Waiting produces by end offset."""
        self._deletions: list[ParkedBatch] = []
        self._followers: dict[Waiter, None] = {}
        self._consumers: dict[Waiter, None] = {}
        self._observing_followers: dict[Observer, None] = {}
        self._observing_consumers: dict[Observer, None] = {}

    def expect(self, batch: ParkedBatch) -> None:
        if self._produces and batch.end_offset < self._produces[-1].end_offset:
            # A batch sent twice waits for its first appearance.
            self._produces = deque(sorted((*self._produces, batch), key=_end_offset))
        else:
            self._produces.append(batch)

    def forget_settled(self) -> None:
        """Drop the oldest waiters that have expired."""
        while self._produces and self._produces[0].settled:
            self._produces.popleft()

    def expect_deletion(self, deletion: ParkedBatch) -> None:
        self._deletions = [each for each in self._deletions if not each.settled]
        self._deletions.append(deletion)

    @property
    def await_deletion(self) -> bool:
        """Return whether a deletion waits for the low watermark."""
        return bool(self._deletions)

    def low_watermark_moved(self, low_watermark: Offset) -> None:
        """Complete the deletions up to the low watermark."""
        deletions, self._deletions = self._deletions, []
        for each in deletions:
            if each.end_offset <= low_watermark:
                each.settle(ErrorCode.NONE)
            elif not each.settled:
                self._deletions.append(each)

    def watch(self, fetch: Waiter, *, follower: bool) -> None:
        (self._followers if follower else self._consumers)[fetch] = None

    def unwatch(self, fetch: Waiter) -> None:
        self._followers.pop(fetch, None)
        self._consumers.pop(fetch, None)

    def attach(self, observer: Observer, *, follower: bool) -> None:
        """Let `observer` hear of changes: a follower of the log's end, a consumer of the high watermark."""
        (self._observing_followers if follower else self._observing_consumers)[observer] = None

    def detach(self, observer: Observer) -> None:
        self._observing_followers.pop(observer, None)
        self._observing_consumers.pop(observer, None)

    def appended(self) -> None:
        """Complete the fetches of followers: the log has grown."""
        _complete(self._followers)
        for observer in self._observing_followers:
            observer.changed(wake=True)

    def high_watermark_moved(self, high_watermark: Offset) -> None:
        """Complete the fetches of consumers, and the produces below the new high watermark."""
        produces = self._produces
        while produces and produces[0].end_offset <= high_watermark:
            produces.popleft().settle(ErrorCode.NONE)
        _complete(self._consumers)
        for observer in self._observing_consumers:
            observer.changed(wake=True)
        # Followers wait for records, and learn of this with the next (KAFKA-9952).
        self.isr_changed()

    def isr_changed(self) -> None:
        """Let followers' next fetches count: the ISR or the replicas have changed."""
        for observer in self._observing_followers:
            observer.changed(wake=False)

    def changed(self) -> None:
        """Complete every fetch: the leader, the epoch or the log start has changed."""
        _complete(self._followers)
        _complete(self._consumers)
        for observer in (*self._observing_followers, *self._observing_consumers):
            observer.changed(wake=True)

    def leadership_lost(self, error: ErrorCode) -> None:
        """Fail the produces and deletions that wait here."""
        produces, self._produces = self._produces, deque()
        deletions, self._deletions = self._deletions, []
        for batch in (*produces, *deletions):
            batch.settle(error)
        self.changed()


def _complete(waiters: dict[Waiter, None]) -> None:
    if waiters:
        for waiter in list(waiters):
            waiter.complete()


def _end_offset(batch: ParkedBatch) -> Offset:
    return batch.end_offset
