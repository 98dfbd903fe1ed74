"""A follower's session with one leader (KIP-227), and its requests that are under way: one, or two while a
long poll makes room for the next.

The session is what the leader knows of the follower's fetches, so that a request names only what differs.
"""

import math
import uuid
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias

import trio

from quorate.broker.wire.codecs.fetch_codec import FetchPartition, FetchTopic, ForgottenTopic
from quorate.broker.wire.kafka_client import SentFetch
from quorate.error_code import ErrorCode
from quorate.runtime import NetworkError, Steps

FetchKey: TypeAlias = tuple[str | uuid.UUID, int]
"""A partition, with its topic by id or, to an old leader, by name."""

_NO_SESSION: Final = 0
_LAST_EPOCH: Final = 2**31 - 1
_AT_ONCE: Final = 1000
"""Partitions in one step: less than 1 ms."""
LOST_SESSION: Final = (
    ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
    ErrorCode.INVALID_FETCH_SESSION_EPOCH,
    ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
)
"""Errors after which the follower begins anew with a full request."""


class FollowerSession:
    """Remembers what the leader was last asked for. `restart` is called at the beginning of each connection,
    then `name` and `forget`, `sent` and `answered` in turn. In a session, a request may be sent before the
    last one is answered."""

    __slots__ = ("_asked", "epoch", "session_id")

    def __init__(self) -> None:
        self.session_id = _NO_SESSION
        self.epoch = 0
        self._asked: dict[FetchKey, FetchPartition] = {}

    @property
    def incremental(self) -> bool:
        """Return whether the next request names only what differs from `asks`."""
        return self.epoch > 0

    def restart(self) -> None:
        """Fetch everything next. The leader, if it still knows the session, closes it."""
        self.epoch = 0
        self._asked.clear()

    def __len__(self) -> int:
        """Return the number of partitions that the leader is asked for."""
        return len(self._asked)

    def asks(self, key: FetchKey) -> FetchPartition | None:
        """Return what the leader was last asked for."""
        return self._asked.get(key)

    def name(self, key: FetchKey, part: FetchPartition) -> bool:
        """Ask for `part`. Return whether the request has to name it."""
        if self._asked.get(key) == part:
            return False
        self._asked[key] = part
        return True

    def forget(self, key: FetchKey) -> bool:
        """Ask for it no longer. Return whether the request has to say so."""
        return self._asked.pop(key, None) is not None

    def sent(self) -> None:
        """A request was sent: the leader lets the epoch move on when it arrives."""
        if self.incremental:
            self.epoch = 1 if self.epoch == _LAST_EPOCH else self.epoch + 1

    def answered(self, error: ErrorCode, session_id: int) -> None:
        """Take in the top of the leader's answer. The session is lost if it is not `incremental` then."""
        if error is ErrorCode.FETCH_SESSION_ID_NOT_FOUND:
            self.session_id = _NO_SESSION
        if error is not ErrorCode.NONE or session_id == _NO_SESSION:
            if error is ErrorCode.NONE:
                self.session_id = _NO_SESSION
            self.restart()
            return
        self.session_id = session_id
        if not self.incremental:
            self.epoch = 1


def by_topic(parts: Mapping[FetchKey, FetchPartition]) -> Steps[Sequence[FetchTopic]]:
    """Return partitions as a request names them, in steps."""
    topics: dict[str | uuid.UUID, list[FetchPartition]] = {}
    for number, ((topic, _), part) in enumerate(parts.items(), 1):
        topics.setdefault(topic, []).append(part)
        if number % _AT_ONCE == 0:
            yield
    return tuple(
        FetchTopic(None, topic, named) if isinstance(topic, uuid.UUID) else FetchTopic(topic, None, named)
        for topic, named in topics.items()
    )


def forgotten_by_topic(keys: Iterable[FetchKey]) -> Steps[Sequence[ForgottenTopic]]:
    """Return partitions that are fetched no longer as a request names them, in steps."""
    topics: dict[str | uuid.UUID, list[int]] = {}
    for number, (topic, partition_id) in enumerate(keys, 1):
        topics.setdefault(topic, []).append(partition_id)
        if number % _AT_ONCE == 0:
            yield
    return tuple(
        ForgottenTopic(None, topic, ids) if isinstance(topic, uuid.UUID) else ForgottenTopic(topic, None, ids)
        for topic, ids in topics.items()
    )


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
    """Decides when the next request may be sent that no answer has called for: a partition is new, or its
    pause is over. One request names all partitions that are due. A request costs both brokers much more than
    a name in it, so the least time between two grows from 10 to 80 ms while thousands of partitions are
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
    """The fetches that are under way, in the order in which they were sent, which is that of the answers."""

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
        """Note that the next request names everything that is due."""
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
