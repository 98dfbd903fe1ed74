"""Produce as the leaders of its partitions answer it: check, append, and wait for the replicas."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeAlias

import trio

from quorate.broker.replication.foundation.errors import PartitionError
from quorate.broker.replication.foundation.purgatory import Purgatory
from quorate.broker.replication.foundation.requests import ProduceItem, ProduceResult, TopicRef
from quorate.broker.replication.foundation.stats import ReplicationStats
from quorate.broker.replication.producing.batch_check import BatchChecker, CheckedBatches, read_unchecked
from quorate.broker.replication.replica.partition_replica import PartitionReplica
from quorate.broker.replication.serving.parked_results import ParkedResults
from quorate.broker.wire.budget import MemoryBudget
from quorate.error_code import ErrorCode
from quorate.runtime import Slices
from quorate.types import Offset


class ParkedProduce(ParkedResults[ProduceResult]):
    """A Produce request that waits until the high watermark of each partition has passed its records."""

    __slots__ = ("_on_expired",)

    def __init__(self, on_expired: Callable[[], None]) -> None:
        super().__init__()
        self._on_expired = on_expired

    def expect(self, partition: PartitionReplica, end_offset: Offset) -> None:
        """Keep the last result until the high watermark reaches `end_offset` (exclusive). Call it in the
        same step of the event loop as the append, because a lost leadership fails only the appends that
        are already expected."""
        if end_offset > partition.high_watermark:
            partition.watchers.expect(self._park(partition, end_offset))

    def expire(self) -> None:
        """Fail the results that still wait, because the deadline has passed, and complete the request."""
        self._on_expired()
        super().expire()

    def _settled(self, result: ProduceResult, partition: PartitionReplica, error: ErrorCode) -> ProduceResult:
        return result if error is ErrorCode.NONE else replace(result, error=error)

    def _expired(self, result: ProduceResult, partition: PartitionReplica) -> ProduceResult:
        partition.watchers.forget_settled()
        leader = partition.leading
        too_few = leader is not None and leader.under_min_isr(partition.min_isr)
        error = ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND if too_few else ErrorCode.REQUEST_TIMED_OUT
        return replace(result, error=error)


Writable: TypeAlias = Callable[[TopicRef, int], PartitionReplica]
"""Raises `PartitionError` for a partition that is not hosted here, or that another broker may lead."""


class ProduceService:
    """Appends of one request happen after the last check, a few milliseconds of them at a time."""

    def __init__(
        self, writable: Writable, purgatory: Purgatory, checker: BatchChecker, stats: ReplicationStats
    ) -> None:
        self._writable = writable
        self._purgatory = purgatory
        self._checker = checker
        self._stats = stats

    async def produce(
        self, items: Sequence[ProduceItem], *, acks: int, timeout_ms: int, zstd: bool, memory: MemoryBudget
    ) -> ParkedProduce:
        """Check a client's batches and append them, as `append`. Returns when the append is done. Large
        batches let other tasks run, so concurrent calls have no order. `zstd`: whether the client's version
        of Produce knows it. `memory`: unpacked records count there."""
        # No error is kept: its traceback would keep all that there is here until the next garbage collection.
        checked: list[CheckedBatches | ProduceResult] = []
        slices = Slices()
        for item in items:
            try:
                partition = self._writable(item.topic, item.partition_id)
                partition.check_appendable(acks)
                batches = await self._checker.check(
                    item.records, partition.rules, slices, zstd=zstd, memory=memory
                )
                checked.append(batches)
            except PartitionError as error:
                checked.append(_refused(item, error))
                await slices.pause()
        results = _Results(self._stats)
        for item, outcome in zip(items, checked, strict=True):
            if isinstance(outcome, ProduceResult):
                results.pending.add(outcome)
                await slices.pause()
                continue
            try:
                # The leader of the time when the check began may have lost the partition since.
                partition = self._writable(item.topic, item.partition_id)
                results.add(item, partition, outcome, acks=acks)
            except PartitionError as error:
                results.pending.add(_refused(item, error))
            await slices.pause()
        return self._begin(results, timeout_ms)

    def append(
        self, items: Sequence[ProduceItem], *, acks: int, timeout_ms: int, internal: bool = False
    ) -> ParkedProduce:
        """Append to each partition, now, batches whose records need no check; the answer is `done`
        when `acks` (0, 1 or -1, all) are satisfied or `timeout_ms` is over. `internal`: from this broker
        itself."""
        results = _Results(self._stats)
        for item in items:
            try:
                partition = self._writable(item.topic, item.partition_id)
                batches = read_unchecked(
                    item.records, max_bytes=partition.rules.max_message_bytes, internal=internal
                )
                results.add(item, partition, batches, acks=acks)
            except PartitionError as error:
                results.pending.add(_refused(item, error))
        return self._begin(results, timeout_ms)

    def _begin(self, results: "_Results", timeout_ms: int) -> ParkedProduce:
        pending = results.pending
        pending.begin()
        if not pending.done:
            self._purgatory.hold(pending, trio.current_time() + timeout_ms / 1000)
        return pending


class _Results:
    """The results of one request, while its batches are appended one by one."""

    def __init__(self, stats: ReplicationStats) -> None:
        self._stats = stats
        self.pending = ParkedProduce(self._count_expired)
        """The results, and the partitions still waited for."""

    def add(
        self, item: ProduceItem, partition: PartitionReplica, batches: CheckedBatches, *, acks: int
    ) -> None:
        """Append one item's batches. On `PartitionError`, nothing was appended."""
        appended = partition.append(batches, acks=acks)
        self.pending.add(
            ProduceResult(
                topic=item.topic,
                partition_id=item.partition_id,
                base_offset=appended.base_offset,
                append_time_ms=appended.append_time_ms if appended.duplicate else batches.append_time_ms,
                log_start_offset=partition.log.log_start_offset,
                duplicate=appended.duplicate,
            )
        )
        if acks == -1:
            self.pending.expect(partition, appended.end_offset)

    def _count_expired(self) -> None:
        self._stats.expired_produces += 1


def _refused(item: ProduceItem, error: PartitionError) -> ProduceResult:
    return ProduceResult(
        topic=item.topic,
        partition_id=item.partition_id,
        error=error.code,
        error_message=error.message,
        record_errors=error.records,
    )
