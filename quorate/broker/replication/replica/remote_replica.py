"""A leader's view of one follower, from its fetches."""

import math

from quorate.types import UNKNOWN_OFFSET, Offset


class RemoteReplica:
    """Times are `trio.current_time()`, in seconds. Offsets are `UNKNOWN_OFFSET` until the follower has
    fetched in this leader epoch."""

    __slots__ = (
        "_last_fetch_at",
        "_leader_end_at_last_fetch",
        "broker_epoch",
        "broker_id",
        "heard_at",
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
        self.heard_at = now
        """The time of its last fetch, or the time from which it could fetch."""
        self._last_fetch_at = -math.inf
        self._leader_end_at_last_fetch: float = math.inf

    def fetched(
        self,
        offset: Offset,
        *,
        log_start_offset: Offset,
        leader_end_offset: Offset,
        broker_epoch: int,
        now: float,
    ) -> None:
        """The follower asked for `offset`, so everything below is in its log.

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
        self._last_fetch_at = self.heard_at = now

    def caught_up(self, *, leader_end_offset: Offset, now: float, lag_s: float) -> bool:
        """Return whether it belongs in the ISR by time. An idle partition's follower always does
        (KAFKA-7152)."""
        return self.log_end_offset == leader_end_offset or now - self.last_caught_up_at <= lag_s
