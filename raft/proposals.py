"""Appends on their way: joined into batches without waiting for more, resolved when applied.

Appends that arrive in the same pass of the event loop become one batch with one header, one write and one
sync. Each stays atomic, because the batch is.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from quorate.raft.core.types import Epoch, Offset
from quorate.raft.errors import QuorumError


class AppendWaiter(Protocol):
    """Hears how an append ended: exactly one of these is called, once."""

    def applied(self, base_offset: Offset, epoch: Epoch, results: Sequence[object]) -> None: ...

    def failed(self, error: QuorumError) -> None: ...


@dataclass(slots=True)
class PendingAppend:
    records: Sequence[bytes]
    size: int
    waiter: AppendWaiter


@dataclass(slots=True)
class Group:
    """Appends that share a batch."""

    appends: list[PendingAppend] = field(default_factory=list)
    size: int = 0
    count: int = 0
    base_offset: Offset = Offset(0)
    end_offset: Offset = Offset(0)
    epoch: Epoch = Epoch(0)
    timestamp_ms: int = 0
    appended_at: float = 0.0

    def records(self) -> list[bytes]:
        if len(self.appends) == 1:
            return list(self.appends[0].records)
        return [record for append in self.appends for record in append.records]

    def resolve(self, results: Sequence[object]) -> None:
        position = 0
        for append in self.appends:
            end = position + len(append.records)
            append.waiter.applied(Offset(self.base_offset + position), self.epoch, results[position:end])
            position = end

    def fail(self, error: QuorumError) -> None:
        for append in self.appends:
            append.waiter.failed(error)


class Proposals:
    """Appends that were not proposed yet, and batches that are in the log but not applied."""

    __slots__ = ("_max_batch_bytes", "_next_id", "_proposed", "_waiting", "in_log")

    def __init__(self, *, max_batch_bytes: int) -> None:
        self._max_batch_bytes = max_batch_bytes
        self._waiting: deque[PendingAppend] = deque()
        self._proposed: dict[int, Group] = {}
        self._next_id = 0
        self.in_log: deque[Group] = deque()
        """In offset order, contiguous, all of the epoch in which this node leads."""

    def add(self, append: PendingAppend) -> None:
        self._waiting.append(append)

    @property
    def has_waiting(self) -> bool:
        return bool(self._waiting)

    def next_group(self) -> tuple[int, Group]:
        """Join waiting appends, at least one, into a group that fits a batch."""
        group = Group()
        while self._waiting:
            append = self._waiting[0]
            if group.appends and group.size + append.size > self._max_batch_bytes:
                break
            self._waiting.popleft()
            group.appends.append(append)
            group.size += append.size
            group.count += len(append.records)
        self._next_id += 1
        self._proposed[self._next_id] = group
        return self._next_id, group

    def take(self, proposal: int) -> Group:
        """The group of a proposal that the core has decided on."""
        return self._proposed.pop(proposal)

    def fail_in_log(self, error: QuorumError) -> None:
        groups, self.in_log = self.in_log, deque()
        for group in groups:
            group.fail(error)

    def fail_all(self, error: QuorumError) -> None:
        """Nothing that waits will be answered otherwise."""
        waiting, self._waiting = self._waiting, deque()
        proposed, self._proposed = self._proposed, {}
        for append in waiting:
            append.waiter.failed(error)
        for group in proposed.values():
            group.fail(error)
        self.fail_in_log(error)
