"""The state changes of this broker's replicas over their whole life, and their lines in the log.

A change is requested by a record of the metadata log: its offset, time and epoch say when and by which
controller, its reason says why. The journal has what only the broker knows: when it received the change, and
when it completed it or failed to. Of each replica one change is pending at the most, because a later record
takes the place of an earlier one. So the replicas bound the number of pending changes.

Each replica that changes its role, is deleted or takes long for it has a line in the log, unless thousands
do.
"""

import enum
import uuid
from bisect import bisect_left
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, NamedTuple

import trio

from quorate.broker.metadata.metadata_records import NO_LEADER
from quorate.broker.metadata.states import PartitionState
from quorate.broker.replication.replica.partition_replica import PartitionReplica, RoleChange
from quorate.runtime import get_logger

log = get_logger(__name__)

KEPT: Final = 10_000
"""The finished changes that are kept, the newest."""
BOUNDS: Final = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0)
"""Upper bounds of the buckets of durations in seconds (inclusive). Above the last there is one more."""


class ChangeKind(enum.Enum):
    """The kinds of changes that a broker makes to a replica."""

    LEAD = "lead"
    """The replica becomes the leader. Its log is opened first, if the replica is new here."""
    FOLLOW = "follow"
    """The replica becomes a follower. Its log is opened first, if the replica is new here."""
    STOP = "stop"
    """The partition has no leader."""
    DELETE = "delete"
    """The replica's log is closed and removed."""
    DIRECTORY = "directory"
    """The replica is recorded in another directory."""
    UPDATE = "update"
    """The same leader has another ISR, or other replicas."""


_WITHIN_A_ROLE: Final = (ChangeKind.DIRECTORY, ChangeKind.UPDATE)


class ChangeOutcome(enum.Enum):
    PENDING = "pending"
    COMPLETED = "completed"
    FAILED = "failed"
    SUPERSEDED = "superseded"
    """A later change took its place before it was carried out."""


ENDS: Final = (ChangeOutcome.COMPLETED, ChangeOutcome.FAILED, ChangeOutcome.SUPERSEDED)
"""How a change ends."""


class Cause(NamedTuple):
    """The run of records that changes came with."""

    offset: int
    """The offset of the last of them (inclusive)."""
    at: float
    """The time at which the broker received it, on trio's clock."""
    at_ms: int
    """The same time by the wall clock, since the Unix epoch."""


class StateChange:
    """A change of one replica. Only the journal changes it."""

    __slots__ = (
        "cause",
        "ended_at",
        "kind",
        "leader_epoch",
        "outcome",
        "partition_epoch",
        "partition_id",
        "problem",
        "since",
        "topic",
        "topic_id",
    )

    def __init__(
        self,
        kind: ChangeKind,
        topic: str,
        topic_id: uuid.UUID,
        partition_id: int,
        state: PartitionState | None,
        cause: Cause,
    ) -> None:
        self.kind = kind
        self.topic = topic
        self.topic_id = topic_id
        self.partition_id = partition_id
        self.leader_epoch = -1 if state is None else state.leader_epoch
        self.partition_epoch = -1 if state is None else state.partition_epoch
        self.cause = cause
        self.since = cause
        """The cause of the oldest change that it took the place of in an unbroken row; its own if of none."""
        self.outcome = ChangeOutcome.PENDING
        self.ended_at = cause.at
        """The time of the outcome on trio's clock. It means nothing while the change is pending."""
        self.problem: str | None = None
        """Why it failed, or what keeps it from being completed."""

    @property
    def duration_s(self) -> float:
        """Seconds from its receipt, or from that of the oldest that it took the place of, to its end."""
        return self.ended_at - self.since.at


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeSummary:
    """The progress of a broker with its state changes."""

    pending: int = 0
    """Changes that were begun and have not ended."""
    backlog: int = 0
    """Runs of records that were received, with changes that were not begun."""
    oldest_ms: int = 0
    """The age of the oldest of both, since its receipt; 0: there is none."""
    received_offset: int = -1
    """The last offset (inclusive) that was received; -1: none."""
    acted_offset: int = -1
    """The last offset (inclusive) whose changes were begun; -1: none."""
    completed_offset: int = -1
    """The last offset (inclusive) up to which all changes have ended; -1: none."""


class ChangeJournal:
    """The pending changes of a broker's replicas, and the last finished ones. All of it in constant time per
    change."""

    __slots__ = (
        "_finished",
        "_pending",
        "_waiting",
        "acted_offset",
        "buckets",
        "counts",
        "dropped_offset",
        "seconds",
    )

    def __init__(self, *, kept: int = KEPT) -> None:
        self._pending: dict[tuple[uuid.UUID, int], StateChange] = {}
        self._finished: deque[StateChange] = deque(maxlen=kept)
        self._waiting: deque[Cause] = deque()
        self.acted_offset = -1
        """The last offset (inclusive) whose changes were begun; -1: none."""
        self.dropped_offset = -1
        """The highest offset of a finished change that is not kept any more; -1: all are."""
        self.counts: dict[tuple[ChangeKind, ChangeOutcome], int] = {}
        """The finished changes by kind and outcome."""
        self.buckets = [0] * (len(BOUNDS) + 1)
        """The completed changes by duration."""
        self.seconds = 0.0
        """Their durations in all."""

    # Runs of records

    def arrived(self, cause: Cause) -> None:
        """Note a run of records whose changes are to be begun."""
        self._waiting.append(cause)

    def acted(self) -> None:
        """Note that the changes of the run that has waited longest have begun."""
        self.acted_offset = self._waiting.popleft().offset

    # One change

    def begin(
        self,
        topic: str,
        topic_id: uuid.UUID,
        partition_id: int,
        kind: ChangeKind,
        state: PartitionState | None,
        cause: Cause,
    ) -> None:
        """Begin a change, in the place of one that is still pending for the same replica. It is as old as
        that one, and its role is still to be taken."""
        key = (topic_id, partition_id)
        change = StateChange(kind, topic, topic_id, partition_id, state, cause)
        earlier = self._pending.get(key)
        if earlier is not None:
            if kind in _WITHIN_A_ROLE and earlier.kind is not ChangeKind.DELETE:
                change.kind = earlier.kind
            change.since = earlier.since
            self._end(earlier, ChangeOutcome.SUPERSEDED, cause.at)
        # A key that is there keeps its place: the first is the oldest.
        self._pending[key] = change

    def completed(self, topic_id: uuid.UUID, partition_id: int, *, now: float) -> StateChange | None:
        """End the replica's pending change, if there is one, and return it."""
        change = self._pending.pop((topic_id, partition_id), None)
        if change is not None:
            self._end(change, ChangeOutcome.COMPLETED, now)
            seconds = change.duration_s
            self.buckets[bisect_left(BOUNDS, seconds)] += 1
            self.seconds += seconds
        return change

    def failed(self, topic_id: uuid.UUID, partition_id: int, problem: str, *, now: float) -> None:
        """End the replica's pending change, if there is one, without success."""
        change = self._pending.pop((topic_id, partition_id), None)
        if change is not None:
            change.problem = problem
            self._end(change, ChangeOutcome.FAILED, now)

    def hindered(self, topic_id: uuid.UUID, partition_id: int, problem: str) -> None:
        """Note what keeps the replica's pending change, which is tried again."""
        change = self._pending.get((topic_id, partition_id))
        if change is not None:
            change.problem = problem

    def _end(self, change: StateChange, outcome: ChangeOutcome, now: float) -> None:
        change.outcome, change.ended_at = outcome, now
        finished = self._finished
        if len(finished) == finished.maxlen:
            self.dropped_offset = max(self.dropped_offset, finished[0].cause.offset)
        finished.append(change)
        key = (change.kind, outcome)
        self.counts[key] = self.counts.get(key, 0) + 1

    # What the journal reports

    def ended(self) -> list[StateChange]:
        """Return the changes that have ended and are kept, oldest first."""
        return list(self._finished)

    def pending(self) -> list[StateChange]:
        """Return the changes that have not ended, oldest first. It takes 10 ms for a million."""
        return list(self._pending.values())

    def summary(self, *, now: float) -> ChangeSummary:
        """Return how far the broker is."""
        oldest = next(iter(self._pending.values()), None)
        causes = [each for each in (self._first_waiting(), None if oldest is None else oldest.since) if each]
        received = self._waiting[-1].offset if self._waiting else self.acted_offset
        return ChangeSummary(
            pending=len(self._pending),
            backlog=len(self._waiting),
            oldest_ms=max((round((now - each.at) * 1000) for each in causes), default=0),
            received_offset=received,
            acted_offset=self.acted_offset,
            completed_offset=self.acted_offset
            if oldest is None
            else min(self.acted_offset, oldest.since.offset - 1),
        )

    def _first_waiting(self) -> Cause | None:
        return self._waiting[0] if self._waiting else None


def kind_of(broker_id: int, before: PartitionState | None, after: PartitionState) -> ChangeKind:
    """Return what the broker is to do with its replica. `before`: the state that it was to reach; None: it
    had no replica."""
    if before is not None and before.leader_epoch == after.leader_epoch:
        moved = before.directories is not after.directories and before.directory_of(
            broker_id
        ) != after.directory_of(broker_id)
        return ChangeKind.DIRECTORY if moved else ChangeKind.UPDATE
    if after.leader == broker_id:
        return ChangeKind.LEAD
    return ChangeKind.STOP if after.leader == NO_LEADER else ChangeKind.FOLLOW


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
        """Log that `partition` has taken in `state`."""
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
