"""The progress of each broker with the state changes that the metadata log asks of it. Kafka's V2 controller
calls it the backup of state changes on slow followers.

Brokers report it with their heartbeats. A silent broker is measured by its last report, and by the commit
times of later records, so a paused broker looks like a slow one. Soft state of the active controller: a new
one knows it from the first heartbeats on. Times are seconds on a monotonic clock.
"""

from bisect import bisect_right
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

from quorate.broker.controller.partition_walks import PartitionWalks
from quorate.broker.controller.rpc import BrokerHeartbeatRequest
from quorate.broker.controller.state_machines import ReplicaPhase, deletion_phase
from quorate.broker.metadata.delta import MetadataDelta, PartitionDelta
from quorate.broker.metadata.image import MetadataImage

_WINDOW_SECONDS: Final = 0.1
"""Seconds: records committed within them have one mark."""
_MARKS: Final = 4096
_REMOVALS: Final = 1000
"""The number of removals kept apart for each broker. Above it, the newest are counted as one."""


class _Mark(NamedTuple):
    offset: int
    """The offset of the last record in its window (inclusive)."""
    at: float
    """The commit time of the first record in the window."""


@dataclass(slots=True)
class _Removals:
    """Replicas that records up to `offset` removed from a broker."""

    offset: int
    replicas: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeProgress:
    """One broker's progress."""

    broker_id: int
    pending: int
    """Changes that it had begun and not ended, by its last heartbeat."""
    completed_offset: int
    """The last offset (inclusive) up to which all its changes had ended then."""
    lag: int
    """Committed records after that."""
    oldest_s: float
    """The age of the oldest of these that changes partitions; 0: there is none."""


class BrokerProgress:
    """The progress of brokers with their state changes. Report every run of committed records to
    `committed`, and every heartbeat to `heard`."""

    __slots__ = ("_behind", "_marks", "_offset", "_removals", "_reports", "_started", "_walks")

    def __init__(self) -> None:
        self._marks: list[_Mark] = []
        self._offset = -1
        self._reports: dict[int, BrokerHeartbeatRequest] = {}
        self._started: dict[int, float] = {}
        """The times of the first heartbeat of brokers that have started meanwhile: no change is older for
        them."""
        self._removals: dict[int, deque[_Removals]] = {}
        self._behind: frozenset[int] = frozenset()
        self._walks = PartitionWalks(self._note_removals)

    async def run(self) -> None:
        """Count the removed replicas of large changes, in pieces. Runs until cancelled."""
        await self._walks.run()

    def committed(self, delta: MetadataDelta, *, now: float, active: bool) -> None:
        """Record committed changes. `active`: this node's controller is active. Only then their removed
        replicas count."""
        self._offset = delta.end_offset - 1
        if delta.partitions:
            self._mark(_Mark(self._offset, now))
            if active:
                self._walks.begin(delta)
        for each in delta.brokers:
            if each.after is None:
                self._reports.pop(each.broker_id, None)
                self._started.pop(each.broker_id, None)
                self._removals.pop(each.broker_id, None)

    def _mark(self, mark: _Mark) -> None:
        marks = self._marks
        if marks and mark.at - marks[-1].at < _WINDOW_SECONDS:
            marks[-1] = _Mark(mark.offset, marks[-1].at)
            return
        marks.append(mark)
        if len(marks) > _MARKS:
            self._marks = [
                _Mark(later.offset, earlier.at)
                for earlier, later in zip(marks[::2], marks[1::2], strict=False)
            ] + (marks[-1:] if len(marks) % 2 else [])

    def _note_removals(self, offset: int, each: PartitionDelta) -> None:
        before, after = each.before, each.after
        if before is None or (after is not None and after.replicas is before.replicas):
            return
        left = () if after is None else after.replicas
        for broker_id in before.replicas:
            if broker_id in left:
                continue
            removals = self._removals.get(broker_id)
            if removals is None:
                removals = self._removals[broker_id] = deque()
            if removals and (removals[-1].offset == offset or len(removals) >= _REMOVALS):
                removals[-1].offset = offset
                removals[-1].replicas += 1
            else:
                removals.append(_Removals(offset, 1))

    def heard(self, heartbeat: BrokerHeartbeatRequest, *, now: float) -> None:
        """Record a heartbeat of the registered incarnation."""
        broker_id = heartbeat.broker_id
        earlier = self._reports.get(broker_id)
        if heartbeat.want_fence and (earlier is None or earlier.broker_epoch != heartbeat.broker_epoch):
            self._started[broker_id] = now
        self._reports[broker_id] = heartbeat
        if heartbeat.want_fence:
            return  # it has caught up with the metadata at most, and removed nothing that was left to it
        removals, completed = self._removals.get(broker_id), _completed(heartbeat)
        while removals and removals[0].offset <= completed:
            removals.popleft()

    def forget(self) -> None:
        """Forget all progress, because this controller is no longer active and gets no heartbeats."""
        self._reports.clear()
        self._started.clear()
        self._removals.clear()
        self._walks.forget()
        self._behind = frozenset()

    def progress(self, *, now: float) -> Iterator[ChangeProgress]:
        """Yield the progress of each broker that sent a heartbeat, by ascending id."""
        for broker_id in sorted(self._reports):
            report = self._reports[broker_id]
            completed = _completed(report)
            yield ChangeProgress(
                broker_id=broker_id,
                pending=report.pending_changes,
                completed_offset=completed,
                lag=max(self._offset - completed, 0),
                oldest_s=self._age(broker_id, completed, now),
            )

    def _age(self, broker_id: int, completed: int, now: float) -> float:
        at = bisect_right(self._marks, completed, key=_offset_of)
        if at == len(self._marks):
            return 0.0
        return now - max(self._marks[at].at, self._started.get(broker_id, 0.0))

    def behind(self, *, now: float, patience: float) -> frozenset[int]:
        """Return the brokers with a change that is older than `patience` (s)."""
        return frozenset(each.broker_id for each in self.progress(now=now) if each.oldest_s > patience)

    def newly_behind(self, *, now: float, patience: float) -> list[ChangeProgress]:
        """Return the brokers that fell `behind` since the last call."""
        before, self._behind = self._behind, self.behind(now=now, patience=patience)
        new = self._behind - before
        return [each for each in self.progress(now=now) if each.broker_id in new]

    def removed_replicas(self, image: MetadataImage) -> dict[ReplicaPhase, int]:
        """Return the number of replicas that were removed while this controller was active and are not yet
        deleted, by the state of their deletion."""
        counts = {ReplicaPhase.DELETION_STARTED: 0, ReplicaPhase.DELETION_INELIGIBLE: 0}
        for broker_id, removals in self._removals.items():
            report = self._reports.get(broker_id)
            applied = -1 if report is None or report.want_fence else _completed(report)
            for each in removals:
                phase = deletion_phase(image.broker(broker_id), removed_at=each.offset, applied=applied)
                if phase in counts:
                    counts[phase] += each.replicas
        return counts


def _offset_of(mark: _Mark) -> int:
    return mark.offset


def _completed(heartbeat: BrokerHeartbeatRequest) -> int:
    # Brokers of an earlier version tell only what they have begun.
    completed = heartbeat.completed_metadata_offset
    return heartbeat.current_metadata_offset if completed is None else completed
