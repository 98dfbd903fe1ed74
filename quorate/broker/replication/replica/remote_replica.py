"""A leader's view of one follower, from its fetches."""

import math

from quorate.types import UNKNOWN_OFFSET, Offset


class FetchClock:
    """The time of the last fetch of a follower's session, for all partitions that its requests do not
    name."""

    __slots__ = ("fetched_at",)

    def __init__(self, now: float) -> None:
        self.fetched_at = now


class RemoteReplica:
    """Times are `trio.current_time()`, in seconds. Offsets are `UNKNOWN_OFFSET` until the follower has
    fetched in this leader epoch."""

    __slots__ = (
        "_clock",
        "_heard_at",
        "_last_fetch_at",
        "_leader_end_at_last_fetch",
        "broker_epoch",
        "broker_id",
        "last_caught_up_at",
        "log_end_offset",
        "log_start_offset",
    )

    def __init__(self, broker_id: int, *, in_sync: bool, now: float) -> None:
        self.broker_id = broker_id
        self.broker_epoch = -1
        self.log_end_offset = UNKNOWN_OFFSET
        self.log_start_offset = UNKNOWN_OFFSET
        self.last_caught_up_at = now if in_sync else -math.inf
        """A member of the ISR is given the whole lag time to come for the first time."""
        self._heard_at = now
        self._clock: FetchClock | None = None
        self._last_fetch_at = -math.inf
        self._leader_end_at_last_fetch: float = math.inf

    @property
    def heard_at(self) -> float:
        """The time of its last fetch, or the time from which it could fetch."""
        return self._heard_at if self._clock is None else max(self._heard_at, self._clock.fetched_at)

    def fetched(
        self,
        offset: Offset,
        *,
        log_start_offset: Offset,
        leader_end_offset: Offset,
        broker_epoch: int,
        now: float,
        clock: FetchClock | None = None,
    ) -> None:
        """The follower asked for `offset`, so everything below is in its log. `clock`: its session, whose
        further fetches ask for the same offset without naming it.

        Caught up: now, if it asks at the leader's end; or when it fetched last, if it asks for what was
        the end then: a follower of a partition that is always written to is never quite at its end.
        """
        if offset >= leader_end_offset:
            self.last_caught_up_at = max(self.last_caught_up_at, now)
        elif offset >= self._leader_end_at_last_fetch:
            self.last_caught_up_at = max(self.last_caught_up_at, self._last_fetch_at)
        self.log_end_offset = offset
        self.log_start_offset = log_start_offset
        self.broker_epoch = broker_epoch
        self._leader_end_at_last_fetch = leader_end_offset
        self._last_fetch_at = self._heard_at = now
        self._clock = clock

    def leader_appends(self, end_offset: Offset) -> None:
        """The leader's log is about to grow from `end_offset`: a session's fetches until now were at its
        end, those from now on are not."""
        if self._clock is not None and self.log_end_offset >= end_offset:
            self.last_caught_up_at = max(self.last_caught_up_at, self._clock.fetched_at)
            self._leader_end_at_last_fetch = end_offset
            self._last_fetch_at = max(self._last_fetch_at, self._clock.fetched_at)

    def leave_session(self, clock: FetchClock | None, *, leader_end_offset: Offset) -> None:
        """The session with `clock`, or whichever it is in, does not fetch this partition any more."""
        if self._clock is not None and clock in (None, self._clock):
            self.leader_appends(leader_end_offset)
            self._heard_at = self.heard_at
            self._clock = None

    def caught_up(self, *, leader_end_offset: Offset, now: float, lag_s: float) -> bool:
        """Return whether it belongs in the ISR by time. An idle partition's follower always does
        (KAFKA-7152)."""
        return self.log_end_offset == leader_end_offset or now - self.last_caught_up_at <= lag_s
