"""Fetch as its leader answers it: check, read, and wait until there is enough."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import trio

from quorate.broker.replication.producing import Codec
from quorate.broker.replication.purgatory import Purgatory, Waiter
from quorate.broker.replication.replica import PartitionReplica, ReplicationQuotas
from quorate.broker.replication.replication_errors import PartitionError
from quorate.broker.replication.requests import FetchItem, FetchOptions, FetchResult, TopicRef
from quorate.broker.replication.stats import ReplicationStats
from quorate.error_code import ErrorCode
from quorate.log import DamagedLogError, LogError, OffsetOutOfRangeError
from quorate.log.batches import peek
from quorate.runtime import DiskError, Slices
from quorate.types import Offset

Lookup: TypeAlias = Callable[[TopicRef, int], PartitionReplica]
"""Raises `PartitionError` for a partition that is not hosted here."""

_WITH_LEADER = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)


class ParkedFetch(Waiter):
    """A fetch that waits for records. Whoever holds it gets the answer from `results`, and calls `abandon` if
    nobody wants it any more."""

    __slots__ = ("_deadline", "_options", "_service", "_watched")

    def __init__(self, service: "FetchService", options: FetchOptions, deadline: float) -> None:
        super().__init__()
        self._service = service
        self._options = options
        self._deadline = deadline
        self._watched: list[PartitionReplica] = []

    def watch(self, partition: PartitionReplica) -> None:
        """Let the partition's next change complete the fetch."""
        self._watched.append(partition)
        partition.watchers.watch(self, follower=self._options.from_follower)

    def complete(self) -> None:
        if not self.done:
            for partition in self._watched:
                partition.watchers.unwatch(self)
            self._watched = []
        super().complete()

    def abandon(self) -> None:
        self.complete()

    async def results(self) -> list[FetchResult]:
        """Wait until there is enough or time is up, and read."""
        await self.wait()
        return await self._service.finish(self._options, self._deadline)


class FetchService:
    """Parking and reading. State of followers is taken in once, when a fetch arrives: what is read later, or
    at the deadline, changes nothing (KAFKA-15100)."""

    def __init__(
        self,
        lookup: Lookup,
        purgatory: Purgatory,
        *,
        max_bytes: int,
        disk_failed: Callable[[PartitionReplica, Exception], None],
        cut_off: Callable[[PartitionReplica], bool],
        quotas: ReplicationQuotas,
        stats: ReplicationStats,
    ) -> None:
        self._lookup = lookup
        self._stats = stats
        self._cut_off = cut_off
        self._quota = quotas.leader
        self._disk_failed = disk_failed
        self._purgatory = purgatory
        self._max_bytes = max_bytes

    async def begin(self, options: FetchOptions) -> list[FetchResult] | ParkedFetch:
        """Begin a fetch. Return the answer if it needn't wait."""
        deadline = trio.current_time() + options.max_wait_ms / 1000
        slices = Slices()
        for item in options.items if options.from_follower else ():
            self._note_follower(item, options)
            await slices.pause()
        return await self._read_or_park(options, deadline, wait=options.max_wait_ms > 0)

    async def fetch(self, options: FetchOptions) -> list[FetchResult]:
        """Fetch, and wait if necessary."""
        begun = await self.begin(options)
        if not isinstance(begun, ParkedFetch):
            return begun
        try:
            return await begun.results()
        finally:
            begun.abandon()

    async def finish(self, options: FetchOptions, deadline: float) -> list[FetchResult]:
        """Wait, then read."""
        while True:
            wait = trio.current_time() < deadline
            outcome = await self._read_or_park(options, deadline, wait=wait)
            if not isinstance(outcome, ParkedFetch):
                return outcome
            try:
                await outcome.wait()
            finally:
                outcome.abandon()

    def _note_follower(self, item: FetchItem, options: FetchOptions) -> None:
        try:
            partition = self._lookup(item.topic, item.partition_id)
            partition.follower_fetched(
                item, replica_id=options.replica_id, replica_epoch=options.replica_epoch
            )
        except PartitionError:
            pass  # reported when it is read

    async def _read_or_park(
        self, options: FetchOptions, deadline: float, *, wait: bool
    ) -> list[FetchResult] | ParkedFetch:
        while True:
            read = await self._read(options)
            if read.size >= options.min_bytes or not wait or not options.items or read.urgent:
                return read.results
            parked = await self._parked(read, options, deadline)
            if parked is not None:
                return parked

    async def _parked(self, read: "_Read", options: FetchOptions, deadline: float) -> ParkedFetch | None:
        """Return a fetch that waits for changed partitions; None if one has changed since it was read. Cold
        or large reads let other tasks run, so each partition is watched first and then looked at."""
        parked = ParkedFetch(self, options, deadline)
        slices = Slices()
        try:
            for partition, readable_end in read.readable_ends:
                parked.watch(partition)
                if self._readable_end(partition, options) != readable_end:
                    parked.abandon()
                    return None
                await slices.pause()
                if parked.done:
                    break
        except BaseException:
            parked.abandon()
            raise
        if not parked.done:
            self._purgatory.hold(parked, deadline)
        return parked

    def _readable_end(self, partition: PartitionReplica, options: FetchOptions) -> tuple[object, Offset]:
        end = partition.log.end_offset if options.from_follower else partition.high_watermark
        return (partition.role, end)

    async def _read(self, options: FetchOptions) -> "_Read":
        read = _Read()
        left = min(options.max_bytes, self._max_bytes)
        first = True
        slices = Slices()
        for item in options.items:
            result, readable_end = await self._read_one(item, options, left=left, first=first)
            read.results.append(result)
            read.urgent = read.urgent or result.urgent or _owes_log_start(item, options, result)
            if readable_end is not None:
                read.readable_ends.append(readable_end)
            if result.records:
                read.size += result.size
                left -= result.size
                first = False
            await slices.pause()
        return read

    async def _read_one(
        self, item: FetchItem, options: FetchOptions, *, left: int, first: bool
    ) -> tuple[FetchResult, tuple[PartitionReplica, tuple[object, Offset]] | None]:
        partition = role = None
        try:
            partition = self._lookup(item.topic, item.partition_id)
            readable = partition.readable(item, replica_id=options.replica_id)
            role = partition.role
            readable_end: tuple[object, Offset] | None = self._readable_end(partition, options)
            records = b""
            if not options.zstd and partition.rules.codec is Codec.ZSTD:
                raise _needs_zstd(partition)
            throttled = options.from_follower and partition.leader_throttled
            if throttled and self._holds_back(partition, options.replica_id):
                # Not watched: more records would change nothing. The long poll ends, and the follower asks
                # again.
                readable_end = None
            elif readable.diverging is None and (left > 0 or first):
                records = await partition.log.read(
                    item.fetch_offset,
                    min(item.max_bytes, left),
                    end_offset=readable.end_offset,
                    min_one_batch=first,
                )
                if not options.zstd and records:
                    records = records[: await _size_before_zstd(records)]
                    if not records:
                        raise _needs_zstd(partition)
                if partition.role is not role:
                    # The log may have been cut meanwhile; whatever was read is not ours to give.
                    partition.check_leading(item.current_leader_epoch)
                    records = b""
                if throttled and records:
                    self._quota.record(len(records), now=trio.current_time())
                if records and partition.is_adding(options.replica_id):
                    self._stats.reassignment_bytes_out += len(records)
        except PartitionError as error:
            return _refused(item, error.code, partition), None
        except OffsetOutOfRangeError:
            return _refused(item, ErrorCode.OFFSET_OUT_OF_RANGE, partition), None
        except (DiskError, DamagedLogError, LogError) as error:
            if partition is None or partition.role is not role:
                return _refused(item, ErrorCode.NOT_LEADER_OR_FOLLOWER, partition), None
            self._disk_failed(partition, error)
            return _refused(item, ErrorCode.KAFKA_STORAGE_ERROR, partition), None
        if not records and not options.from_follower and self._cut_off(partition):
            # There is nothing more to come from here, perhaps from another.
            return _refused(item, ErrorCode.NOT_LEADER_OR_FOLLOWER, partition), None
        answer = FetchResult(
            topic=item.topic,
            partition_id=item.partition_id,
            high_watermark=partition.high_watermark,
            last_stable_offset=partition.high_watermark,
            log_start_offset=partition.log.log_start_offset,
            diverging_epoch=readable.diverging,
            records=(records,) if records else (),
        )
        return answer, None if readable_end is None else (partition, readable_end)

    def _holds_back(self, partition: PartitionReplica, replica_id: int) -> bool:
        """Return whether a follower outside the ISR gets nothing for now (KIP-73)."""
        leading = partition.leading
        return (
            leading is not None
            and replica_id not in leading.isr.committed
            and self._quota.exceeded(now=trio.current_time())
        )


def _owes_log_start(item: FetchItem, options: FetchOptions, result: FetchResult) -> bool:
    """Return whether the leader's log start has moved past the follower's: a client may wait for it
    (DeleteRecords), and Kafka's followers learn of it at the end of their long poll."""
    return options.from_follower and 0 <= item.log_start_offset < result.log_start_offset


def _needs_zstd(partition: PartitionReplica) -> PartitionError:
    return PartitionError(
        ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
        f"{partition} has batches in zstd, which needs version 10 of Fetch (KIP-110)",
    )


async def _size_before_zstd(records: bytes) -> int:
    """Bytes of these batches before the first in zstd. Clients that don't know it are few and old, so only
    what would be sent to one is walked, from header to header."""
    slices = Slices()
    position = 0
    while position < len(records):
        size, codec = peek(records, position)
        if codec == Codec.ZSTD:
            break
        position += size
        await slices.pause()
    return position


@dataclass(slots=True)
class _Read:
    """The results of all partitions of a request."""

    results: list[FetchResult] = field(default_factory=list)
    readable_ends: list[tuple[PartitionReplica, tuple[object, Offset]]] = field(default_factory=list)
    """The end of the readable records of each partition at that moment."""
    size: int = 0
    urgent: bool = False


def _refused(item: FetchItem, code: ErrorCode, partition: PartitionReplica | None) -> FetchResult:
    result = FetchResult(topic=item.topic, partition_id=item.partition_id, error=code)
    if partition is None:
        return result
    if code is ErrorCode.OFFSET_OUT_OF_RANGE:
        # So that a follower needn't ask where to begin again.
        return replace(
            result, high_watermark=partition.high_watermark, log_start_offset=partition.log.log_start_offset
        )
    if code in _WITH_LEADER and partition.state is not None:
        if code is ErrorCode.NOT_LEADER_OR_FOLLOWER and partition.state.leader == partition.broker_id:
            return result  # cut off, or its disk has failed
        return replace(result, leader=(partition.state.leader, partition.state.leader_epoch))
    return result
