"""The writes of one group's record. A write that failed is answered after a pause.

A stock client whose assignment could not be stored joins again at once (librdkafka), so that a group would
begin hundreds of generations a second for as long as `__consumer_offsets` is below `min.insync.replicas`.
"""

from collections.abc import Callable
from typing import Final

import trio
from kio.schema.errors import ErrorCode

from quorate.broker.groups.group_records import GroupValue
from quorate.broker.groups.group_state import GroupHost, GroupTimerKind, GroupTimers
from quorate.broker.groups.members import MemberList

_FIRST_PAUSE_S: Final = 0.1
_LONGEST_PAUSE_S: Final = 5.0
_SHARE_OF_TIMEOUT: Final = 1 / 3
"""The limit of the pause, as a share of the members' shortest timeout: clients wait for no answer longer than
for their session."""

_Done = Callable[[ErrorCode], None]


class GroupStore:
    """Writes the record of one group. It owns the timer of the pause, which doubles with each failure and
    begins anew after a success."""

    def __init__(self, group_id: str, members: MemberList, timers: GroupTimers, host: GroupHost) -> None:
        self._group_id = group_id
        self._members = members
        self._timers = timers
        self._host = host
        self._held: list[tuple[_Done, ErrorCode]] = []
        """The answers to failed writes that wait for the end of the pause."""
        self._is_closed = False
        self.failures = 0
        """The pauses since the last success; a failure while answers are held waits with them."""

    def write(self, value: GroupValue, done: _Done) -> None:
        """Write the group's record. `done` gets the outcome: a failure no sooner than a pause after the
        write's begin."""
        began = trio.current_time()

        def written(error: ErrorCode) -> None:
            if error is ErrorCode.none:
                self.failures = 0
                done(error)
                self.end_pause()
            elif self._is_closed:
                done(error)
            else:
                self._hold(done, error, waited_s=trio.current_time() - began)

        self._host.store(self._group_id, value, written)

    def _hold(self, done: _Done, error: ErrorCode, *, waited_s: float) -> None:
        if not self._held:
            self.failures += 1
            self._timers.arm(GroupTimerKind.STORE, max(0.0, self._pause_s() - waited_s))
        self._held.append((done, error))

    def _pause_s(self) -> float:
        doubled = _FIRST_PAUSE_S * (1 << min(self.failures - 1, 10))
        limit = self._members.shortest_timeout_ms / 1000 * _SHARE_OF_TIMEOUT
        return min(doubled, _LONGEST_PAUSE_S, limit)

    def end_pause(self) -> None:
        """Answer the writes that failed."""
        self._timers.cancel(GroupTimerKind.STORE)
        held, self._held = self._held, []
        for done, error in held:
            done(error)

    def close(self) -> None:
        """Refuse the held writes: their members go to the next coordinator."""
        self._is_closed = True
        self._held = [(done, ErrorCode.not_coordinator) for done, _ in self._held]
        self.end_pause()
