"""A line for each replica that changes its role, unless thousands do."""

from typing import Final

import trio

from quorate.broker.metadata import PartitionState
from quorate.broker.replication.replica import PartitionReplica, RoleChange
from quorate.runtime import get_logger

log = get_logger(__name__)

_WINDOW_SECONDS: Final = 10.0
_LINES: Final = 50
"""The lines logged at info per window. Further ones are logged at debug, and counted."""


class RoleLines:
    """The log lines about changed roles of this broker's replicas."""

    __slots__ = ("_began_at", "_told", "_untold")

    def __init__(self) -> None:
        self._began_at = -_WINDOW_SECONDS
        self._told = 0
        self._untold = 0

    def changed(self, partition: PartitionReplica, change: RoleChange, state: PartitionState) -> None:
        """`partition` has taken in `state`."""
        now = trio.current_time()
        if now - self._began_at >= _WINDOW_SECONDS:
            self.finish()
            self._began_at, self._told = now, 0
        if self._told < _LINES:
            self._told += 1
            say = log.info
        else:
            self._untold += 1
            say = log.debug
        say(
            "replica is now",
            partition=str(partition),
            role=change.value,
            leader=state.leader,
            leader_epoch=state.leader_epoch,
            isr=list(state.isr),
            log_end_offset=partition.log.end_offset,
        )

    def finish(self) -> None:
        """Log the number of changes without a line of their own, if any."""
        if self._untold:
            log.info("more replicas changed their roles", replicas=self._untold)
            self._untold = 0
