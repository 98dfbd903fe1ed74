"""Offsets, epochs and producers in the log of a replica, for requests that read no records."""

from collections.abc import Callable, Iterator
from functools import partial

from quorate.broker.replication.foundation.errors import PartitionError
from quorate.broker.replication.foundation.failures import Failures
from quorate.broker.replication.foundation.requests import (
    DescribedProducer,
    EpochEndResult,
    OffsetResult,
    TopicRef,
)
from quorate.broker.replication.replica.partition_lookups import PartitionLookups
from quorate.broker.replication.replica.partition_replica import DamageRead, LogFailed, PartitionReplica
from quorate.error_code import ErrorCode
from quorate.log import (
    Codec,
    CompressedDataError,
    DamagedLogError,
    DecompressedTooLargeError,
    LogError,
    OffsetOutOfRangeError,
    decompress,
)
from quorate.log.batches.batch import HEADER_BYTES, Batch, read_batches
from quorate.log.batches.record_walk import RecordBytes
from quorate.log.batches.records import stamps_of
from quorate.runtime import Compute, DiskError, Slices
from quorate.types import UNKNOWN_EPOCH, Epoch, Offset


async def find_offset(
    partition: PartitionReplica,
    timestamp: int,
    failures: Failures,
    *,
    compute: Compute,
    uncompressed_max_bytes: int,
) -> OffsetResult:
    """Return offsets visible to consumers, below the high watermark; -1 everywhere if there are none. For a
    batch of more than `uncompressed_max_bytes` when decompressed, they are its first offset and its newest
    timestamp. Raises `PartitionError`."""
    opened = partition.log
    match timestamp:
        case -1:
            _check_available(partition)
            return OffsetResult(offset=partition.high_watermark, leader_epoch=partition.leader_epoch)
        case -2 | -4:
            start = opened.log_start_offset
            epoch = opened.epoch_at(start)
            return OffsetResult(offset=start, leader_epoch=UNKNOWN_EPOCH if epoch is None else epoch)
        case -5 | -6:
            return OffsetResult()  # there is no tiered storage: nothing is in it, and nothing waits for it
        case -3:
            newest = opened.max_timestamp()
            if newest is None:
                return OffsetResult()
            timestamp = newest
    if timestamp < 0:
        raise PartitionError(ErrorCode.UNSUPPORTED_VERSION, f"no timestamp is {timestamp}")
    role = partition.role
    try:
        return await _offset_at(partition, timestamp, compute, uncompressed_max_bytes)
    except OffsetOutOfRangeError:
        return OffsetResult()  # retention was faster
    except (DiskError, LogError) as error:
        if partition.role is not role or partition.log is not opened:
            raise PartitionError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"{partition} has moved") from error
        if isinstance(error, DamagedLogError):
            failures.report(DamageRead(partition, error))
            raise PartitionError(ErrorCode.CORRUPT_MESSAGE, str(error)) from error
        failures.report(LogFailed(partition, error))
        raise PartitionError(ErrorCode.KAFKA_STORAGE_ERROR, str(error)) from error


def _check_available(partition: PartitionReplica) -> None:
    """Raise while a new leader's high watermark may be behind its predecessor's: nobody may learn of an end
    before it has caught up with the start of the epoch (KIP-207)."""
    leader = partition.check_leading()
    if partition.high_watermark < leader.epoch_start_offset:
        raise PartitionError(
            ErrorCode.OFFSET_NOT_AVAILABLE,
            f"{partition}: the high watermark {partition.high_watermark} has not reached the start of epoch "
            f"{leader.leader_epoch}, {leader.epoch_start_offset}, yet",
        )


async def _offset_at(
    partition: PartitionReplica, timestamp: int, compute: Compute, uncompressed_max_bytes: int
) -> OffsetResult:
    """Return the first record at or after `timestamp` that is not below the log start."""
    opened = partition.log
    start = 0
    while (base := await opened.offset_for_timestamp(timestamp, from_offset=start)) is not None:
        if base >= partition.high_watermark:
            _check_available(partition)
            return OffsetResult()
        data = await opened.read(base, 1, end_offset=partition.high_watermark)
        if not data:
            return OffsetResult()
        (batch,) = read_batches(data, check_crc=False)
        records = await _records(batch, compute, uncompressed_max_bytes)
        found = await _in_batch(batch, records, timestamp, base)
        if found is not None:
            return found
        # The match is below the log start, or the header's maximum is above all its records.
        start = batch.header.end_offset
    return OffsetResult()


async def _records(batch: Batch, compute: Compute, uncompressed_max_bytes: int) -> RecordBytes | None:
    """Return the decompressed records, or None if they are damaged or too large."""
    body = batch.data[HEADER_BYTES:]
    if not batch.header.codec:
        return bytes(body)
    try:
        codec = Codec(batch.header.codec)
        return await compute.run(partial(decompress, codec, body, uncompressed_max_bytes))
    except (ValueError, CompressedDataError, DecompressedTooLargeError):
        return None


async def _in_batch(
    batch: Batch, records: RecordBytes | None, timestamp: int, from_offset: Offset
) -> OffsetResult | None:
    header = batch.header
    epoch = Epoch(header.leader_epoch)
    if records is None:
        return OffsetResult(offset=from_offset, timestamp=header.max_timestamp, leader_epoch=epoch)
    slices = Slices()
    for offset, at in stamps_of(header, records):
        if at >= timestamp and offset >= from_offset:
            return OffsetResult(offset=Offset(offset), timestamp=at, leader_epoch=epoch)
        await slices.pause()
    return None


class LogQueries:
    """Answers from the logs of replicas. Owns nothing."""

    def __init__(
        self,
        lookups: PartitionLookups,
        failures: Failures,
        *,
        compute: Compute,
        now_ms: Callable[[], int],
        uncompressed_max_bytes: int,
    ) -> None:
        self._lookups = lookups
        self._failures = failures
        self._compute = compute
        self._now_ms = now_ms
        self._uncompressed_max_bytes = uncompressed_max_bytes

    async def list_offset(
        self,
        topic: TopicRef,
        partition_id: int,
        *,
        timestamp: int,
        current_leader_epoch: Epoch = UNKNOWN_EPOCH,
    ) -> OffsetResult:
        """Return the offset for ListOffsets. `timestamp` -1: the high watermark; -2 and -4: the log start;
        -3: the record with the newest timestamp; -5 and -6 (tiered storage): none. Otherwise: the first
        record at or after `timestamp` (ms)."""
        try:
            partition = self._lookups.partition(topic, partition_id)
            partition.check_leading(current_leader_epoch)
            return await find_offset(
                partition,
                timestamp,
                self._failures,
                compute=self._compute,
                uncompressed_max_bytes=self._uncompressed_max_bytes,
            )
        except PartitionError as error:
            return OffsetResult(error=error.code)

    def offset_for_leader_epoch(
        self,
        topic: TopicRef,
        partition_id: int,
        *,
        leader_epoch: Epoch,
        current_leader_epoch: Epoch = UNKNOWN_EPOCH,
    ) -> EpochEndResult:
        """OffsetForLeaderEpoch (KIP-101, KIP-279): the largest epoch of the log that is not above
        `leader_epoch`, and its end. An epoch that has not begun has neither."""
        try:
            partition = self._lookups.partition(topic, partition_id)
            partition.check_leading(current_leader_epoch)
        except PartitionError as error:
            return EpochEndResult(error=error.code)
        has_begun = 0 <= leader_epoch <= partition.leader_epoch
        found = partition.log.end_offset_for_epoch(leader_epoch) if has_begun else None
        if found is None:
            return EpochEndResult()
        return EpochEndResult(leader_epoch=found.epoch, end_offset=found.end_offset)

    def producers(self, topic: TopicRef, partition_id: int) -> Iterator[DescribedProducer]:
        """Yield the idempotent producers of a replica, leader or follower, each in its state when it is
        yielded. Raises `PartitionError`."""
        partition = self._lookups.partition(topic, partition_id)
        if partition.failure is not None:
            raise PartitionError(ErrorCode.KAFKA_STORAGE_ERROR, partition.failure)
        return partition.producers.described(self._now_ms)
