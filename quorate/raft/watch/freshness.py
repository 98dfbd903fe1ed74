"""The maximum age of a node's state, from its last read index and the leader's last answer."""

from collections.abc import Callable

from quorate.error_code import ErrorCode
from quorate.raft.core import Core, FetchRequest, FetchResponse, Role
from quorate.types import Epoch, Offset


class Freshness:
    """Records when the last read index that is applied was asked for, and when the last answered Fetch was
    sent.

    A read index is above all that was committed before it was asked for. The node that answered the Fetch led
    at that time, or at most 1.5 fetch timeouts before: a leader without its majority resigns (KIP-595). So
    the answer's high watermark is above all that was committed 1.5 fetch timeouts before the Fetch."""

    __slots__ = ("_answered_at", "_asked_at", "_correlation", "_epoch", "_leader_lag_ms", "_now", "_read_at")

    def __init__(self, *, fetch_timeout_ms: int, now: Callable[[], float]) -> None:
        """`now`: a clock in seconds, which other threads may read."""
        self._now = now
        self._leader_lag_ms = fetch_timeout_ms * 3 // 2
        self._correlation = -1
        self._asked_at = 0.0
        self._answered_at: float | None = None
        self._epoch = Epoch(-1)
        self._read_at: float | None = None

    def now(self) -> float:
        """Return the time for `note_read`, in seconds."""
        return self._now()

    def note_read(self, asked_at: float) -> None:
        """Record that a read index that was asked for at `asked_at`, or later, is applied."""
        if self._read_at is None or asked_at > self._read_at:
            self._read_at = asked_at

    def note_request(self, request: FetchRequest) -> None:
        self._correlation = request.correlation
        self._asked_at = self._now()

    def sent_at(self, response: FetchResponse) -> float | None:
        """Return the time of the request that this response answers. None: it is not the last request.
        Call it before the core takes the response and asks the next."""
        return self._asked_at if response.correlation == self._correlation else None

    def note_answer(self, response: FetchResponse, asked_at: float | None, core: Core) -> None:
        """Record an answer after the core has taken it."""
        if (
            asked_at is not None
            and response.error is ErrorCode.NONE
            and response.leader == response.source
            and response.high_watermark is not None
            and response.diverging is None
            and response.epoch == core.epoch
            and core.high_watermark is not None
            and core.high_watermark >= response.high_watermark
        ):
            self._answered_at = asked_at
            self._epoch = response.epoch

    def staleness_ms(self, core: Core, applied_offset: Offset) -> int | None:
        """Return an upper bound of the state's age. None: no bound is known, because no read index was, and
        this node does not follow, or has not applied all that it knows to be committed."""
        heard_ms = self._heard_ms(core, applied_offset)
        if self._read_at is None:
            return heard_ms
        read_ms = int((self._now() - self._read_at) * 1000) + 1
        return read_ms if heard_ms is None else min(read_ms, heard_ms)

    def _heard_ms(self, core: Core, applied_offset: Offset) -> int | None:
        """Return the bound from the answers to Fetches. A leader has none: while its process was paused,
        others may have elected another one, and a Fetch that comes late looks like a new one. Only a read
        round tells."""
        if core.role is Role.LEADER or self._answered_at is None or self._epoch != core.epoch:
            return None
        if core.high_watermark is None or applied_offset < core.high_watermark:
            return None
        return int((self._now() - self._answered_at) * 1000) + self._leader_lag_ms + 1
