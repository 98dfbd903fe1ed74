"""The limit on administrative requests from connections, and their log lines."""

from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

import trio

from quorate.error_code import ErrorCode
from quorate.raft.quorum_errors import QuorumError, RequestRefusedError
from quorate.raft.transport.frames import FrameKind
from quorate.runtime import get_logger

log = get_logger(__name__)

Answer = TypeVar("Answer")

PAUSE_SECONDS: Final = {
    FrameKind.CHANGE_VOTERS: 0.0,
    # Each costs an election; in between there must be time to append.
    FrameKind.TRANSFER_LEADERSHIP: 1.0,
    FrameKind.TAKE_SNAPSHOT: 0.0,
}
"""The pause between two requests of a kind."""
WAITING_MAX: Final = 20
"""The most requests of a kind that wait. More are refused."""


class Turnstile:
    """Lets one administrative request of a kind through at a time. There is no authentication yet, so any
    client that reaches the listener may send them, and must not keep the quorum busy.

    Each request leaves one log line, with its sender and its outcome. Repeated ones (a node that asks until
    it may join) leave one until something changes.
    """

    def __init__(self) -> None:
        self._locks = {kind: trio.Lock() for kind in PAUSE_SECONDS}
        self._ready_at = dict.fromkeys(PAUSE_SECONDS, 0.0)
        self._logged: tuple[str, str, str] | None = None

    async def pass_through(
        self, kind: FrameKind, what: str, peer: str, act: Callable[[], Awaitable[Answer]]
    ) -> Answer:
        """Call `act` when it is the turn of this request of `kind`, one of `PAUSE_SECONDS`. Raises the errors
        of `act`, or `RequestRefusedError` if too many wait."""
        lock = self._locks[kind]
        try:
            if lock.statistics().tasks_waiting >= WAITING_MAX:
                raise RequestRefusedError(
                    ErrorCode.REQUEST_TIMED_OUT,
                    f"{WAITING_MAX} requests of this kind wait here already; try again later, and see in the "
                    "log of this node who asks",
                )
            async with lock:
                await trio.sleep_until(self._ready_at[kind])
                try:
                    answer = await act()
                finally:
                    self._ready_at[kind] = trio.current_time() + PAUSE_SECONDS[kind]
        except QuorumError as error:
            self._log_request(what, peer, str(error) or type(error).__name__)
            raise
        self._log_request(what, peer, "done")
        return answer

    def _log_request(self, what: str, peer: str, outcome: str) -> None:
        line = (what, peer.rpartition(":")[0], outcome)
        if line != self._logged:
            self._logged = line
            log.info("an administrative request", request=what, peer=peer, outcome=outcome)
