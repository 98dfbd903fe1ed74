"""DeleteRecords as the leaders of its partitions answer it (KIP-107): raise the log start, store it, and wait
for the followers."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeAlias

import trio

from quorate.broker.replication.foundation import (
    DeleteRecordsItem,
    DeleteRecordsResult,
    ParkedBatch,
    PartitionError,
    Purgatory,
    TopicRef,
    Waiter,
)
from quorate.broker.replication.replica import LogStarts, PartitionReplica
from quorate.error_code import ErrorCode
from quorate.present import present
from quorate.runtime import Slices
from quorate.types import Offset

Deletable: TypeAlias = Callable[[TopicRef, int], PartitionReplica]
"""Return the replica. Raises `PartitionError` for a partition that is not hosted here, or whose records may
not be deleted."""


class ParkedDeletions(Waiter):
    """`done` when every partition's low watermark is where the request wants it, or time is up. One result
    per item, in order."""

    __slots__ = ("_begun", "_results", "_waiting")

    def __init__(self) -> None:
        super().__init__()
        self._begun = False
        self._results: list[DeleteRecordsResult] = []
        self._waiting: dict[int, PartitionReplica] = {}
        """Index of the result, and the partition whose low watermark it waits for."""

    def refuse(self, item: DeleteRecordsItem, error: PartitionError) -> None:
        self._results.append(
            DeleteRecordsResult(topic=item.topic, partition_id=item.partition_id, error=error.code)
        )

    def expect(self, item: DeleteRecordsItem, partition: PartitionReplica, offset: Offset) -> None:
        """Wait until the low watermark reaches `offset`. Called in one stretch with the deletion."""
        index = len(self._results)
        self._results.append(DeleteRecordsResult(topic=item.topic, partition_id=item.partition_id))
        self._waiting[index] = partition
        partition.watchers.expect_deletion(
            ParkedBatch(offset, lambda error: self._settle(index, partition, error))
        )

    def begin(self) -> None:
        """Begin to wait. Every expectation was added."""
        self._begun = True
        if not self._waiting:
            self.complete()

    def _settle(self, index: int, partition: PartitionReplica, error: ErrorCode) -> None:
        if self._waiting.pop(index, None) is None:
            return
        result = self._results[index]
        if error is ErrorCode.NONE:
            low_watermark = present(partition.low_watermark(), "the low watermark of a leader")
            self._results[index] = replace(result, low_watermark=low_watermark)
        else:
            self._results[index] = replace(result, error=error)
        if self._begun and not self._waiting:
            self.complete()

    def expire(self) -> None:
        waiting, self._waiting = self._waiting, {}
        for index in waiting:
            self._results[index] = replace(self._results[index], error=ErrorCode.REQUEST_TIMED_OUT)
        self.complete()

    def results(self) -> list[DeleteRecordsResult]:
        """Return the results, final once `done`."""
        return self._results


class DeletionService:
    """Deletes records of partitions that this broker leads."""

    def __init__(self, deletable: Deletable, purgatory: Purgatory, log_starts: LogStarts) -> None:
        self._deletable = deletable
        self._purgatory = purgatory
        self._log_starts = log_starts

    async def delete(self, items: Sequence[DeleteRecordsItem], *, timeout_ms: int) -> ParkedDeletions:
        """Delete, and return when this broker has done it; the followers have when the result is `done`. What
        times out is deleted here all the same, and may be asked for again."""
        deadline = trio.current_time() + timeout_ms / 1000
        pending = ParkedDeletions()
        led: list[PartitionReplica] = []
        slices = Slices()
        for item in items:
            try:
                partition = self._deletable(item.topic, item.partition_id)
                wanted = partition.delete_records(item.offset)
            except PartitionError as error:
                pending.refuse(item, error)
            else:
                pending.expect(item, partition, wanted)
                led.append(partition)
            await slices.pause()
        await self._log_starts.raised([each for each in led if not _is_durable(each)])
        for partition in led:
            partition.settle_deletions()
            await slices.pause()
        pending.begin()
        if not pending.done:
            self._purgatory.hold(pending, deadline)
        return pending


def _is_durable(partition: PartitionReplica) -> bool:
    return partition.log.durable_log_start_offset == partition.log.log_start_offset
