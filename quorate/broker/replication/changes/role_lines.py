"""A line for each replica that changes its role, is deleted or takes long for it, unless thousands do."""

from collections.abc import Callable
from typing import Final

import trio

from quorate.broker.metadata import PartitionState
from quorate.broker.replication.changes.change_journal import ChangeKind, StateChange
from quorate.broker.replication.replica import PartitionReplica, RoleChange
from quorate.runtime import get_logger

log = get_logger(__name__)

ROLE_CHANGED: Final = "replica is now"
"""The event of a log line; the simulation checks the leaders that these lines name."""
_WINDOW_SECONDS: Final = 10.0
_LINES: Final = 50
"""The lines logged at their level per window. Further ones are logged at debug, and counted."""
_LONG_SECONDS: Final = 5.0


class RoleLines:
    """The log lines about the state changes of this broker's replicas."""

    __slots__ = ("_began_at", "_logged", "_suppressed")

    def __init__(self) -> None:
        self._began_at = -_WINDOW_SECONDS
        self._logged = 0
        self._suppressed = 0

    def changed(self, partition: PartitionReplica, change: RoleChange, state: PartitionState) -> None:
        """`partition` has taken in `state`."""
        self._level(log.info)(
            ROLE_CHANGED,
            partition=str(partition),
            role=change.value,
            leader=state.leader,
            leader_epoch=state.leader_epoch,
            isr=list(state.isr),
            log_end_offset=partition.log.end_offset,
        )

    def completed(self, change: StateChange) -> None:
        """Log a deletion, and a change that took long."""
        if change.kind is ChangeKind.DELETE:
            self._level(log.info)(
                "replica is deleted", partition=_name(change), metadata_offset=change.cause.offset
            )
        if change.duration_s >= _LONG_SECONDS:
            self._level(log.warning)(
                "a state change took long",
                partition=_name(change),
                change=change.kind.value,
                leader_epoch=change.leader_epoch,
                metadata_offset=change.cause.offset,
                seconds=round(change.duration_s, 1),
            )

    def _level(self, say: Callable[..., object]) -> Callable[..., object]:
        """Return `say`, or another for a line too many."""
        now = trio.current_time()
        if now - self._began_at >= _WINDOW_SECONDS:
            self.finish()
            self._began_at, self._logged = now, 0
        if self._logged < _LINES:
            self._logged += 1
            return say
        self._suppressed += 1
        return log.debug

    def finish(self) -> None:
        """Log the number of changes without a line of their own, if any."""
        if self._suppressed:
            log.info("more replicas changed their roles", replicas=self._suppressed)
            self._suppressed = 0


def _name(change: StateChange) -> str:
    return f"{change.topic}-{change.partition_id}"
