"""A produce request on its way: appended here, waiting for the replicas that its acks ask for."""

from collections.abc import Callable
from dataclasses import replace

from quorate.broker.replication.purgatory import ParkedBatch, Waiter
from quorate.broker.replication.replica import PartitionReplica
from quorate.broker.replication.requests import ProduceResult
from quorate.error_code import ErrorCode
from quorate.types import Offset


class ParkedProduce(Waiter):
    """A Produce request that waits for its partitions. `done` is set when every partition has reached its
    offset, or at the deadline. It has one result per item, in order."""

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
        """Keep the last result until the high watermark reaches `end_offset` (exclusive). Call it in the
        same step of the event loop as the append, because a lost leadership fails only the appends that
        are already expected."""
        index = len(self._results) - 1
        if end_offset > partition.high_watermark:
            self._waiting[index] = partition
            partition.watchers.expect(ParkedBatch(end_offset, lambda error: self._settle(index, error)))

    def begin(self) -> None:
        """Begin to wait, after every call of `expect`."""
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
        """Fail the results that still wait, because the deadline has passed, and complete the request."""
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
        """Return the results. They are final once `done` is set."""
        return self._results
