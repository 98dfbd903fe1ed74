"""Fetches in sessions: a request updates the session, changed partitions are read, and only differences are
sent."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

import trio

from quorate.broker.replication.foundation.errors import PartitionError
from quorate.broker.replication.foundation.purgatory import Purgatory
from quorate.broker.replication.foundation.requests import FetchOptions, FetchResult, SessionRef
from quorate.broker.replication.serving.fetch_sessions import (
    FetchSession,
    FetchSessionError,
    FetchSessions,
    PartitionKey,
    SessionPartition,
)
from quorate.broker.replication.serving.partition_fetch import may_join_isr, take_in_fetch
from quorate.broker.replication.serving.partition_reader import PartitionReader, is_urgent
from quorate.broker.replication.serving.plain_fetch import ParkedFetch, finish
from quorate.error_code import ErrorCode
from quorate.runtime import Slices

_NEWS_HELD: Final = 16
"""A follower whose partitions are new one after the other overtakes poll after poll. So many results that it
was not told are an answer: until then each poll looks at them again."""


@dataclass(slots=True)
class _Read:
    """The reads of the dirty partitions."""

    visited: list[tuple[SessionPartition, FetchResult, bool]] = field(default_factory=list)
    """(partition, result, whether the next read may give more without a change)."""
    size: int = 0
    news: int = 0
    """Results that a follower was not told yet."""
    urgent: bool = False


class SessionFetches:
    """The fetches of followers in sessions (KIP-227). Call `enter`, then `begin`."""

    def __init__(
        self,
        reader: PartitionReader,
        purgatory: Purgatory,
        sessions: FetchSessions,
        *,
        max_bytes: int,
        doubtful: Callable[[], bool],
        tells_high_watermarks: bool,
    ) -> None:
        self._reader = reader
        self._purgatory = purgatory
        self._sessions = sessions
        self._max_bytes = max_bytes
        self._doubtful = doubtful
        """Whether leaders here may have been replaced while this broker heard nothing of it."""
        self._tells_high_watermarks = tells_high_watermarks
        """Whether a follower is told of a high watermark that has moved without waiting for records, because
        consumers read from followers up to there (KIP-392)."""

    async def enter(
        self, ref: SessionRef, options: FetchOptions, forgotten: Sequence[PartitionKey]
    ) -> FetchSession | None:
        """Return the request's session, with the request taken in; None if it is a full one without a
        session. One that fetches nothing any more is closed. Raises `FetchSessionError`."""
        session = self._sessions.enter(ref, options)
        if session is None:
            return None
        session.eager = session.from_follower and self._tells_high_watermarks
        epoch = session.epoch
        slices = Slices()
        for item in options.items:
            session.name(item)
            await slices.pause()
        for key in forgotten:
            session.forget(key)
            await slices.pause()
        if session.epoch != epoch:
            raise FetchSessionError(ErrorCode.INVALID_FETCH_SESSION_EPOCH)
        self._sessions.resized(session)
        session.clock.fetched_at = trio.current_time()
        if session.from_follower:
            await self._note(session, options)
        elif self._doubtful() or _permissions_changed(session, options):
            for _ in session.mark_all():
                await slices.pause()
        return session

    async def _note(self, session: FetchSession, options: FetchOptions) -> None:
        """Take in what a follower's fetch says of the logs that it names, and of those that changed here."""
        slices = Slices()
        for each in list(session.dirty):
            self._note_one(session, each, options)
            await slices.pause()

    def _note_one(self, session: FetchSession, each: SessionPartition, options: FetchOptions) -> None:
        item = each.item
        try:
            partition = self._reader.lookup(item.topic, item.partition_id)
            each.observe(partition)
            take_in_fetch(
                partition,
                item,
                replica_id=options.replica_id,
                replica_epoch=options.replica_epoch,
                clock=session.clock,
            )
        except PartitionError:
            pass  # reported when it is read

    async def begin(self, session: FetchSession, options: FetchOptions) -> list[FetchResult] | ParkedFetch:
        """Read. Return the answer if it needn't wait. Raises `FetchSessionError`, as waiting for the answer
        does."""
        deadline = trio.current_time() + options.max_wait_ms / 1000
        return await self._read_or_park(
            session, session.epoch, options, deadline, wait=options.max_wait_ms > 0
        )

    def close(self, session: FetchSession) -> None:
        """Close the session, so that later requests of it are refused."""
        self._sessions.close(session)

    async def _read_or_park(
        self, session: FetchSession, epoch: int, options: FetchOptions, deadline: float, *, wait: bool
    ) -> list[FetchResult] | ParkedFetch:
        # A follower has its session with the first answer, and can send requests ahead then.
        wait = wait and (session.answered or not session.from_follower)
        while True:
            if session.epoch != epoch:
                return _overtaken(session)
            session.woken = False
            read = await self._read(session, options, wait=wait)
            if session.epoch != epoch:
                return _overtaken(session)
            if read.size >= options.min_bytes or not wait or read.urgent:
                return await self._answer(session, epoch, read, options)
            if not session.woken:
                return self._parked(session, epoch, options, deadline)

    def _parked(
        self, session: FetchSession, epoch: int, options: FetchOptions, deadline: float
    ) -> ParkedFetch:
        def read_or_park(wait: bool) -> Awaitable[list[FetchResult] | ParkedFetch]:
            return self._read_or_park(session, epoch, options, deadline, wait=wait)

        parked = ParkedFetch(lambda: finish(read_or_park, deadline), from_follower=session.from_follower)
        session.parked = parked
        self._purgatory.hold(parked, deadline)
        return parked

    async def _read(self, session: FetchSession, options: FetchOptions, *, wait: bool) -> _Read:
        read = _Read()
        left = min(options.max_bytes, self._max_bytes)
        first = True
        slices = Slices()
        for each in list(session.dirty):
            if left <= 0 and not first and session.answered:
                # The rest stays dirty, and comes before what is read now. A first answer names everything.
                break
            each.touched = False
            item = each.item
            if each.opening is not None:
                # What the request said of it could not be taken in before.
                self._note_one(session, each, options)
            try:
                each.observe(self._reader.lookup(item.topic, item.partition_id))
            except PartitionError:
                each.observe(None)
            one = await self._reader.read(item, options, left=left, first=first)
            if one.opening is not None and session.from_follower and wait:
                # An error would make the follower pause, and ask again.
                each.await_opening(one.opening)
                continue
            result = one.result
            read.visited.append((each, result, one.leaves_some(item)))
            read.urgent = read.urgent or is_urgent(item, options, result)
            if session.from_follower and each.is_news(result):
                read.news += 1
                read.urgent = read.urgent or read.news >= _NEWS_HELD or (session.eager and session.answered)
            if result.records:
                read.size += result.size
                left -= result.size
                first = False
            await slices.pause()
        return read

    async def _answer(
        self, session: FetchSession, epoch: int, read: _Read, options: FetchOptions
    ) -> list[FetchResult]:
        session.answered = True
        results: list[FetchResult] = []
        slices = Slices()
        for each, result, leaves_some in read.visited:
            if each.is_news(result):
                each.sent(result)
                results.append(result)
            if result.records:
                # Last in turn, so that others come first when an answer is full.
                session.dirty.pop(each, None)
                session.dirty[each] = None
            elif not (
                leaves_some
                or each.touched
                or result.urgent
                or (
                    session.from_follower
                    and each.replica is not None
                    and may_join_isr(each.replica, options.replica_id)
                )
            ):
                session.dirty.pop(each, None)
            await slices.pause()
        if session.epoch != epoch and not session.from_follower:
            # This answer will not be sent.
            self._sessions.close(session)
            raise FetchSessionError(ErrorCode.INVALID_FETCH_SESSION_EPOCH)
        return results


def _permissions_changed(session: FetchSession, options: FetchOptions) -> bool:
    """Return whether partitions that have not changed may have another answer than before: one that may not
    be read any more is an error at once, and not when the next record comes."""
    version = None if options.permission is None else options.permission.version
    changed = session.allowed_by != version
    session.allowed_by = version
    return changed


def _overtaken(session: FetchSession) -> list[FetchResult]:
    """Return the answer to a request that another has followed: nothing for a follower, which has sent the
    other ahead and gets there what there is. Raises `FetchSessionError` for others, or a closed session."""
    if session.from_follower and not session.closed:
        return []
    raise FetchSessionError(ErrorCode.INVALID_FETCH_SESSION_EPOCH)
