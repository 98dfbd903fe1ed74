"""Fetch sessions (KIP-227): what a client fetches, remembered, so that a request names only what is new and
an answer only what has changed. Sessions are found by id and epoch, bounded, and evicted as Kafka evicts
them.

A partition costs nothing while it stays as it is. It observes its replica; a change makes it dirty, and a
request looks at what it names and at what is dirty. Kafka walks the whole session in every request.
"""

from collections import deque
from collections.abc import Iterator
from typing import Final, TypeAlias

import trio

from quorate.broker.replication.foundation.purgatory import Waiter, Watchers
from quorate.broker.replication.foundation.requests import (
    FetchItem,
    FetchOptions,
    FetchResult,
    SessionRef,
    TopicRef,
)
from quorate.broker.replication.replica.partition_replica import PartitionReplica
from quorate.broker.replication.replica.roles import FetchClock
from quorate.broker.replication.serving.partition_fetch import leave_session
from quorate.error_code import ErrorCode
from quorate.runtime import Entropy, Slices
from quorate.types import UNKNOWN_OFFSET

PartitionKey: TypeAlias = tuple[TopicRef, int]

_LAST_EPOCH = 2**31 - 1


class SessionPartition:
    """One partition of a session, with the client's last request for it and the last answer."""

    __slots__ = (
        "_sent_high_watermark",
        "_sent_log_start",
        "item",
        "opening",
        "replica",
        "session",
        "touched",
    )

    def __init__(self, session: "FetchSession", item: FetchItem) -> None:
        self.session = session
        self.item = item
        self.replica: PartitionReplica | None = None
        """The replica that it observes."""
        self.opening: Watchers | None = None
        """The watchers that it waits with until the replica's log is opened."""
        self.touched = False
        """Whether it has changed since it was last read."""
        self._sent_high_watermark = self._sent_log_start = UNKNOWN_OFFSET

    def changed(self, *, wake: bool) -> None:
        """The replica has changed (`Observer`)."""
        self.touched = True
        self.session.mark(self, wake=wake or self.session.eager)

    def observe(self, replica: PartitionReplica | None) -> None:
        """Observe this replica, in place of another that had the same name."""
        if self.replica is replica:
            return
        self.let_go()
        self.replica = replica
        if replica is not None:
            replica.watchers.attach(self, follower=self.session.from_follower)

    def await_opening(self, opening: Watchers) -> None:
        """Change next when the replica's log is open."""
        self.let_go()
        self.opening = opening
        opening.attach(self, follower=True)
        self.session.dirty.pop(self, None)

    def let_go(self) -> None:
        """Observe nothing any more."""
        if self.opening is not None:
            self.opening.detach(self)
            self.opening = None
        if self.replica is not None:
            self.replica.watchers.detach(self)
            if self.session.from_follower:
                leave_session(self.replica, self.session.replica_id, self.session.clock)
            self.replica = None

    def is_news(self, result: FetchResult) -> bool:
        """Return whether an incremental answer has to have this result."""
        return bool(
            result.records
            or result.urgent
            or result.high_watermark != self._sent_high_watermark
            or result.log_start_offset != self._sent_log_start
        )

    def not_sent(self) -> None:
        """Note that the last answer is of no use to the client any more."""
        self._sent_high_watermark = self._sent_log_start = UNKNOWN_OFFSET

    def sent(self, result: FetchResult) -> None:
        """`result` is in an answer. After an error, the first good result is news."""
        failed = result.error is not ErrorCode.NONE
        self._sent_high_watermark = UNKNOWN_OFFSET if failed else result.high_watermark
        self._sent_log_start = UNKNOWN_OFFSET if failed else result.log_start_offset


class FetchSession:
    """The partitions that one client fetches. `epoch` is that of the next incremental request."""

    __slots__ = (
        "_partitions",
        "allowed_by",
        "answered",
        "clock",
        "counted",
        "created_at",
        "dirty",
        "eager",
        "epoch",
        "from_follower",
        "parked",
        "replica_epoch",
        "replica_id",
        "session_id",
        "used_at",
        "with_ids",
        "woken",
    )

    def __init__(
        self, session_id: int, *, with_ids: bool, replica_id: int, replica_epoch: int, now: float
    ) -> None:
        self.session_id = session_id
        self.with_ids = with_ids
        """Whether its requests name topics by id (Fetch 13 and later)."""
        self.replica_id = replica_id
        self.from_follower = replica_id >= 0
        self.replica_epoch = replica_epoch
        """The follower's broker epoch: another life of it begins another session."""
        self.epoch = 1
        self.created_at = self.used_at = now
        self.eager = False
        """Whether it is told of a high watermark that moved too, without waiting for records."""
        self.answered = False
        """Whether it was told of all its partitions once."""
        self.clock = FetchClock(now)
        self.counted = 0
        """The partitions that the cache counts for it: a request may be overtaken while it names its own."""
        self.dirty: dict[SessionPartition, None] = {}
        """The partitions that the next request looks at. Those that gave records last come last."""
        self.woken = False
        """Whether a change came with which a waiting fetch can be answered."""
        self.parked: Waiter | None = None
        self.allowed_by: object = None
        """The version of the permissions that its last request was read with (`ReadPermission`)."""
        self._partitions: dict[PartitionKey, SessionPartition] = {}

    def __len__(self) -> int:
        return len(self._partitions)

    @property
    def closed(self) -> bool:
        return self.epoch < 0

    def next_epoch(self) -> int:
        """Let the epoch move on, and return it."""
        self.epoch = 1 if self.epoch == _LAST_EPOCH else self.epoch + 1
        return self.epoch

    def name(self, item: FetchItem) -> SessionPartition:
        """Take in what a request says of a partition: it is new, or fetched from elsewhere."""
        key = (item.topic, item.partition_id)
        found = self._partitions.get(key)
        if found is None:
            found = self._partitions[key] = SessionPartition(self, item)
        elif found.item.current_leader_epoch != item.current_leader_epoch:
            found.not_sent()
        found.item = item
        found.touched = True
        self.dirty[found] = None
        return found

    def forget(self, key: PartitionKey) -> None:
        """Fetch it no longer. An unknown one is passed over, as Kafka does."""
        found = self._partitions.pop(key, None)
        if found is not None:
            self.dirty.pop(found, None)
            found.let_go()

    def mark(self, partition: SessionPartition, *, wake: bool) -> None:
        """A partition is dirty."""
        self.dirty[partition] = None
        if wake:
            self.woken = True
            if self.parked is not None:
                self.parked.complete()

    def mark_all(self) -> Iterator[None]:
        """Make everything dirty, in steps."""
        for partition in list(self._partitions.values()):
            self.dirty[partition] = None
            yield

    def close(self) -> Iterator[None]:
        """Observe nothing any more, in steps. A waiting fetch is told that the session is closed."""
        self.epoch = -1
        if self.parked is not None:
            self.parked.complete()
        while self._partitions:
            self._partitions.popitem()[1].let_go()
            yield
        self.dirty.clear()


_MOST_PARTITIONS: Final = 1_000_000
"""The bound for all sessions together: some 500 MB. Kafka bounds the sessions only."""
_EVICTABLE_AFTER_S: Final = 120.0
"""Kafka's `MIN_INCREMENTAL_FETCH_SESSION_EVICTION_MS`."""
FULL_IN_NO_SESSION: Final = -1
FULL_IN_NEW_SESSION: Final = 0


class FetchSessionError(Exception):
    """The request is of no session here: FETCH_SESSION_ID_NOT_FOUND, INVALID_FETCH_SESSION_EPOCH or
    FETCH_SESSION_TOPIC_ID_ERROR. The client begins anew with a full request."""

    def __init__(self, code: ErrorCode) -> None:
        super().__init__(code.name)
        self.code = code


class FetchSessions:
    """All fetch sessions of a broker. `run` takes closed sessions apart."""

    def __init__(self, entropy: Entropy, *, slots: int) -> None:
        self._entropy = entropy
        self._slots = slots
        """`max.incremental.fetch.session.cache.slots`."""
        self._by_id: dict[int, FetchSession] = {}
        """The sessions by id, with the least recently used one first."""
        self.partitions = 0
        """The partitions of all sessions."""
        self.evictions = 0
        self._closed: deque[FetchSession] = deque()
        self._wake = trio.Event()

    def __len__(self) -> int:
        return len(self._by_id)

    def enter(self, ref: SessionRef, options: FetchOptions) -> FetchSession | None:
        """Return the session that a request belongs to; None for a full request without one, or without
        room for one. The epoch has moved on then. Raises `FetchSessionError`."""
        if ref.epoch not in (FULL_IN_NO_SESSION, FULL_IN_NEW_SESSION):
            return self._continued(ref, options)
        if ref.session_id:
            self.close(self._by_id.get(ref.session_id))
        return None if ref.epoch == FULL_IN_NO_SESSION else self._create(ref, options)

    def _continued(self, ref: SessionRef, options: FetchOptions) -> FetchSession:
        session = self._by_id.get(ref.session_id)
        if session is None:
            raise FetchSessionError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        if session.replica_id != options.replica_id or session.replica_epoch != options.replica_epoch:
            # The epoch of its fetches decides whether a follower may join the ISR.
            raise FetchSessionError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        if session.epoch != ref.epoch:
            raise FetchSessionError(ErrorCode.INVALID_FETCH_SESSION_EPOCH)
        if session.with_ids != ref.with_ids:
            raise FetchSessionError(ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR)
        session.next_epoch()
        if session.from_follower and session.parked is not None:
            # It has sent this one ahead, and waits for the other to be answered.
            session.parked.complete()
        session.used_at = trio.current_time()
        self._by_id[session.session_id] = self._by_id.pop(session.session_id)
        return session

    def _create(self, ref: SessionRef, options: FetchOptions) -> FetchSession | None:
        now = trio.current_time()
        if options.from_follower:
            # It has one fetcher for each leader: other sessions are of an earlier life or an earlier epoch.
            for each in [one for one in self._by_id.values() if one.replica_id == options.replica_id]:
                self.close(each)
        if not options.items or not self._make_room(len(options.items), options.from_follower, now):
            return None
        session_id = 0
        while not session_id or session_id in self._by_id:
            session_id = 1 + self._entropy.below(2**31 - 1)
        session = self._by_id[session_id] = FetchSession(
            session_id,
            with_ids=ref.with_ids,
            replica_id=options.replica_id,
            replica_epoch=options.replica_epoch,
            now=now,
        )
        return session

    def _make_room(self, size: int, privileged: bool, now: float) -> bool:
        while len(self._by_id) >= self._slots or self.partitions + size > _MOST_PARTITIONS:
            victim = self._evictable(size, privileged, now)
            if victim is None:
                return False
            self.evictions += 1
            self.close(victim)
        return True

    def _evictable(self, size: int, privileged: bool, now: float) -> FetchSession | None:
        """Return the session that has to make room: one that is no longer used, else the smallest that is
        smaller than the new one. Followers' sessions count more than consumers'."""
        if not self._by_id:
            return None
        oldest = next(iter(self._by_id.values()))
        if now - oldest.used_at > _EVICTABLE_AFTER_S:
            return oldest
        candidates = (
            each
            for each in self._by_id.values()
            if now - each.created_at > _EVICTABLE_AFTER_S or (privileged and not each.from_follower)
        )
        least = min(candidates, key=_rank, default=None)
        return least if least is not None and _rank(least) < (privileged, size, 0) else None

    def resized(self, session: FetchSession) -> None:
        """Count what a request has added or forgotten. One that fetches nothing is closed, and so is one that
        has no room: then raises `FetchSessionError`."""
        self.partitions += len(session) - session.counted
        session.counted = len(session)
        if not len(session):
            self.close(session)
        elif self.partitions > _MOST_PARTITIONS:
            self.close(session)
            raise FetchSessionError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)

    def close(self, session: FetchSession | None) -> None:
        """Close the session, so that later requests of it are refused."""
        if session is not None and self._by_id.pop(session.session_id, None) is not None:
            self.partitions -= session.counted
            session.epoch = -1
            self._closed.append(session)
            self._wake.set()

    async def run(self) -> None:
        """Take closed sessions apart, until cancelled."""
        slices = Slices()
        while True:
            while self._closed:
                for _ in self._closed.popleft().close():
                    await slices.pause()
            self._wake = trio.Event()
            await self._wake.wait()


def _rank(session: FetchSession) -> tuple[bool, int, int]:
    return (session.from_follower, len(session), session.session_id)
