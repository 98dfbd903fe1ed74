"""A produce request on its way: appended here, waiting for the replicas that its acks ask for."""

from collections.abc import Callable
from dataclasses import replace

from quorate.broker.replication.purgatory import ParkedBatch, Waiter
from quorate.broker.replication.replica import PartitionReplica
from quorate.broker.replication.requests import ProduceResult
from quorate.error_code import ErrorCode
from quorate.types import Offset


class ParkedProduce(Waiter):
    """`done` when every partition has what it waits for, or time is up. One result per item, in order."""

    __slots__ = ("_begun", "_on_expired", "_results", "_waiting")

    def __init__(self, on_expired: Callable[[], None]) -> None:
        super().__init__()
        self._begun = False
        self._results: list[ProduceResult] = []
        self._waiting: dict[int, PartitionReplica] = {}
        """Index of the result, and the partition whose high watermark it waits for."""
        self._on_expired = on_expired

    def add(self, result: ProduceResult) -> None:
        """Add the result of the next item."""
        self._results.append(result)

    def expect(self, partition: PartitionReplica, end_offset: Offset) -> None:
        """Keep the last result until the high watermark reaches `end_offset` (exclusive). Called in one
        stretch with the append, because a lost leadership fails only the appends expected before it."""
        index = len(self._results) - 1
        if end_offset > partition.high_watermark:
            self._waiting[index] = partition
            partition.watchers.expect(ParkedBatch(end_offset, lambda error: self._settle(index, error)))

    def begin(self) -> None:
        """Begin to wait. Every expectation was added."""
        self._begun = True
        if not self._waiting:
            self.complete()

    def _settle(self, index: int, error: ErrorCode) -> None:
        if self._waiting.pop(index, None) is None:
            return
        if error is not ErrorCode.NONE:
            self._results[index] = replace(self._results[index], error=error)
        if self._begun and not self._waiting:
            self.complete()

    def expire(self) -> None:
        self._on_expired()
        waiting, self._waiting = self._waiting, {}
        for index, partition in waiting.items():
            leader = partition.leading
            too_few = leader is not None and leader.under_min_isr(partition.min_isr)
            error = ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND if too_few else ErrorCode.REQUEST_TIMED_OUT
            self._results[index] = replace(self._results[index], error=error)
            partition.watchers.forget_settled()
        self.complete()

    def results(self) -> list[ProduceResult]:
        """Return the results, final once `done`."""
        return self._results
