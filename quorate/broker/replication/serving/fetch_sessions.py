"""All fetch sessions of a broker: found by id and epoch, bounded, and evicted as Kafka evicts them."""

from collections import deque
from typing import Final

import trio

from quorate.broker.replication.requests import FetchOptions, SessionRef
from quorate.broker.replication.serving.fetch_session import FetchSession
from quorate.error_code import ErrorCode
from quorate.runtime import Entropy, Slices

_MOST_PARTITIONS: Final = 1_000_000
"""Of all sessions: some 500 MB. Kafka bounds the sessions only."""
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
    """`run` takes apart what was closed."""

    def __init__(self, entropy: Entropy, *, slots: int) -> None:
        self._entropy = entropy
        self._slots = slots
        """`max.incremental.fetch.session.cache.slots`."""
        self._by_id: dict[int, FetchSession] = {}
        """The one used least recently first."""
        self.partitions = 0
        """Of all sessions."""
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
            # Who may join the ISR goes by the epoch of its fetches.
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
            # It has one fetcher for each leader: what is left is of an earlier life or an earlier epoch.
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
        """Return the session that has to make room: one that nobody uses any more, else the smallest that is
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
