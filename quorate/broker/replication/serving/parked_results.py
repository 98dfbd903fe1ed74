"""Requests that wait for several partitions, with a result for each item."""

from abc import ABC, abstractmethod
from functools import partial
from typing import Generic, TypeVar

from quorate.broker.replication.foundation.purgatory import ParkedBatch, Waiter
from quorate.broker.replication.replica.partition_replica import PartitionReplica
from quorate.error_code import ErrorCode
from quorate.types import Offset

R = TypeVar("R")


class ParkedResults(Waiter, ABC, Generic[R]):
    """A request that waits for its partitions. It has one result per item, in order. `done` is set when no
    result waits any more, or at the deadline."""

    __slots__ = ("_begun", "_results", "_waiting")

    def __init__(self) -> None:
        super().__init__()
        self._begun = False
        self._results: list[R] = []
        self._waiting: dict[int, tuple[PartitionReplica, ParkedBatch]] = {}
        """By the index of the result, the partition that it waits for."""

    def add(self, result: R) -> None:
        """Add the result of the next item."""
        self._results.append(result)

    def _park(self, partition: PartitionReplica, end_offset: Offset) -> ParkedBatch:
        """Let the last result wait until the returned batch is settled, or until the deadline."""
        index = len(self._results) - 1
        batch = ParkedBatch(end_offset, partial(self._settle, index))
        self._waiting[index] = (partition, batch)
        return batch

    def begin(self) -> None:
        """Begin to wait, after the last result was added."""
        self._begun = True
        if not self._waiting:
            self.complete()

    def _settle(self, index: int, error: ErrorCode) -> None:
        partition, _ = self._waiting.pop(index)
        self._results[index] = self._settled(self._results[index], partition, error)
        if self._begun and not self._waiting:
            self.complete()

    def expire(self) -> None:
        """Fail the results that still wait, because the deadline has passed, and complete the request."""
        waiting, self._waiting = self._waiting, {}
        for index, (partition, batch) in waiting.items():
            batch.settled = True
            self._results[index] = self._expired(self._results[index], partition)
        self.complete()

    def results(self) -> list[R]:
        """Return the results. They are final once `done` is set."""
        return self._results

    @abstractmethod
    def _settled(self, result: R, partition: PartitionReplica, error: ErrorCode) -> R:
        """Return the result of an item that waits no more: its offset is reached, or there is an error."""

    @abstractmethod
    def _expired(self, result: R, partition: PartitionReplica) -> R:
        """Return the result of an item that has waited until the deadline."""
