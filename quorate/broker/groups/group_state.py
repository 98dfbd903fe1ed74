"""The states of a group, its timers, and the interface to its coordinator."""

import enum
from collections.abc import Callable
from typing import Final, NamedTuple, Protocol

from kio.schema.errors import ErrorCode

from quorate.broker.groups.group_records import GroupValue


class GroupState(enum.Enum):
    """Kafka's names, as ListGroups shows them."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


REBALANCING: Final = (GroupState.PREPARING_REBALANCE, GroupState.COMPLETING_REBALANCE)


class GroupTimerKind(enum.Enum):
    HEARTBEAT = "heartbeat"
    """The session time-out of a member."""
    PENDING = "pending"
    """The time-out of a member id that was handed out and not used yet."""
    JOIN = "join"
    SYNC = "sync"
    STORE = "store"
    """The pause before the answer to a write that failed."""


class GroupTimer(NamedTuple):
    group_id: str
    kind: GroupTimerKind
    member_id: str = ""


class GroupHost(Protocol):
    """The calls of a group into its coordinator."""

    def arm(self, timer: GroupTimer, seconds: float) -> None: ...

    def cancel(self, timer: GroupTimer) -> None: ...

    def store(self, group_id: str, value: GroupValue, done: Callable[[ErrorCode], None]) -> None:
        """Write the group's record. `done` gets the outcome, unless the coordinator moves away before."""
        ...

    def draw_member_id(self, prefix: str) -> str: ...

    def now_ms(self) -> int:
        """Return the wall clock, for the stored timestamp only."""
        ...


class GroupTimers:
    """The timers of one group."""

    __slots__ = ("_group_id", "_host")

    def __init__(self, group_id: str, host: GroupHost) -> None:
        self._group_id = group_id
        self._host = host

    def arm(self, kind: GroupTimerKind, seconds: float, member_id: str = "") -> None:
        self._host.arm(GroupTimer(self._group_id, kind, member_id), seconds)

    def cancel(self, kind: GroupTimerKind, member_id: str = "") -> None:
        self._host.cancel(GroupTimer(self._group_id, kind, member_id))
