"""DeleteRecords as the leaders of its partitions answer it (KIP-107): raise the log start, store it, and wait
for the followers."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final, TypeAlias

import trio

from quorate.broker.replication.foundation.errors import PartitionError
from quorate.broker.replication.foundation.failures import Failures
from quorate.broker.replication.foundation.purgatory import Purgatory
from quorate.broker.replication.foundation.requests import DeleteRecordsItem, DeleteRecordsResult, TopicRef
from quorate.broker.replication.replica.log_starts import LogStarts
from quorate.broker.replication.replica.partition_replica import LogFailed, PartitionReplica
from quorate.broker.replication.serving.parked_results import ParkedResults
from quorate.error_code import ErrorCode
from quorate.log import LogFailedError
from quorate.present import present
from quorate.runtime import DiskError, Slices
from quorate.types import Offset

TO_HIGH_WATERMARK: Final = -1
"""The offset of a DeleteRecords that deletes everything that is committed."""

Deletable: TypeAlias = Callable[[TopicRef, int], PartitionReplica]
"""Return the replica. Raises `PartitionError` unless this broker leads the partition and its records may be
deleted."""


class ParkedDeletions(ParkedResults[DeleteRecordsResult]):
    """A DeleteRecords request that waits until the low watermark of each partition is high enough."""

    __slots__ = ()

    def refuse(self, item: DeleteRecordsItem, error: PartitionError) -> None:
        """Add the result of an item that is refused."""
        self.add(DeleteRecordsResult(topic=item.topic, partition_id=item.partition_id, error=error.code))

    def expect(self, item: DeleteRecordsItem, partition: PartitionReplica, offset: Offset) -> None:
        """Add a result that waits until the low watermark reaches `offset`. Call it in the same step of the
        event loop as the deletion."""
        self.add(DeleteRecordsResult(topic=item.topic, partition_id=item.partition_id))
        partition.watchers.expect_deletion(self._park(partition, offset))

    def _settled(
        self, result: DeleteRecordsResult, partition: PartitionReplica, error: ErrorCode
    ) -> DeleteRecordsResult:
        if error is not ErrorCode.NONE:
            return replace(result, error=error)
        low_watermark = present(partition.low_watermark(), "the low watermark of a leader")
        return replace(result, low_watermark=low_watermark)

    def _expired(self, result: DeleteRecordsResult, partition: PartitionReplica) -> DeleteRecordsResult:
        return replace(result, error=ErrorCode.REQUEST_TIMED_OUT)


class DeletionService:
    """Deletes records of partitions that this broker leads."""

    def __init__(
        self, deletable: Deletable, purgatory: Purgatory, log_starts: LogStarts, failures: Failures
    ) -> None:
        self._deletable = deletable
        self._purgatory = purgatory
        self._log_starts = log_starts
        self._failures = failures

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
                wanted = self._raise_log_start(partition, item.offset)
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

    def _raise_log_start(self, partition: PartitionReplica, offset: Offset) -> Offset:
        """Raise the log start to `offset`, or to the high watermark (-1), and return it. It is durable later
        (`PartitionReplica.low_watermark`). Below the log start nothing happens. Raises `PartitionError`."""
        wanted = partition.high_watermark if offset == TO_HIGH_WATERMARK else offset
        if not 0 <= wanted <= partition.high_watermark:
            raise PartitionError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"{partition}: records can be deleted up to the high watermark {partition.high_watermark} "
                f"(-1), and not up to {offset}",
            )
        try:
            raised = partition.log.raise_log_start(wanted)
        except (DiskError, LogFailedError) as error:
            self._failures.report(LogFailed(partition, error))
            raise PartitionError(ErrorCode.KAFKA_STORAGE_ERROR, partition.failure or str(error)) from error
        if raised:
            # Consumers below are told now, and followers where the log starts.
            partition.watchers.changed()
        return wanted


def _is_durable(partition: PartitionReplica) -> bool:
    return partition.log.durable_log_start_offset == partition.log.log_start_offset
