"""ListOffsets on one partition."""

from collections.abc import Callable

from quorate.broker.replication.errors import ErrorCode, PartitionError
from quorate.broker.replication.partition import Partition
from quorate.broker.replication.requests import OffsetResult
from quorate.log.batch import read_batches
from quorate.log.errors import LogError, OffsetOutOfRangeError
from quorate.log.records import records_of
from quorate.runtime.disk import DiskError


async def find_offset(
    partition: Partition, timestamp: int, disk_failed: Callable[[Partition, Exception], None]
) -> OffsetResult:
    """What a consumer may know: nothing at or above the high watermark. -1 everywhere if there is nothing.
    Raises `PartitionError`."""
    opened = partition.log
    match timestamp:
        case -1:
            _check_available(partition)
            return OffsetResult(offset=partition.high_watermark, leader_epoch=partition.leader_epoch)
        case -2 | -4:
            start = int(opened.log_start_offset)
            epoch = opened.epoch_at(start)
            return OffsetResult(offset=start, leader_epoch=-1 if epoch is None else int(epoch))
        case -5:
            return OffsetResult()  # there is no tiered storage
        case -3:
            newest = opened.max_timestamp()
            if newest is None:
                return OffsetResult()
            timestamp = newest
    if timestamp < 0:
        return OffsetResult(error=ErrorCode.UNKNOWN_SERVER_ERROR)
    role = partition.role
    try:
        return await _at(partition, timestamp)
    except OffsetOutOfRangeError:
        return OffsetResult()  # retention was faster
    except (DiskError, LogError) as error:
        if partition.role is not role:
            raise PartitionError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"{partition} has moved") from error
        disk_failed(partition, error)
        raise PartitionError(ErrorCode.KAFKA_STORAGE_ERROR, str(error)) from error


def _check_available(partition: Partition) -> None:
    """A new leader's high watermark may be behind what the one before has shown: until it has caught up with
    the start of the epoch nobody may be told that the partition ends there (KIP-207)."""
    leader = partition.check_leading()
    if partition.high_watermark < leader.epoch_start_offset:
        raise PartitionError(
            ErrorCode.OFFSET_NOT_AVAILABLE,
            f"{partition}: the high watermark {partition.high_watermark} has not reached the start of epoch "
            f"{leader.leader_epoch}, {leader.epoch_start_offset}, yet",
        )


async def _at(partition: Partition, timestamp: int) -> OffsetResult:
    opened = partition.log
    base = opened.offset_for_timestamp(timestamp)
    if base is None:
        return OffsetResult()
    if base >= partition.high_watermark:
        _check_available(partition)
        return OffsetResult()
    data = await opened.read(base, 1, max_offset=partition.high_watermark)
    for batch in read_batches(data, check_crc=False):
        epoch = batch.header.leader_epoch
        if batch.header.codec or batch.header.is_log_append_time:
            return OffsetResult(offset=int(base), timestamp=batch.header.max_timestamp, leader_epoch=epoch)
        for record in records_of(batch):
            if record.timestamp >= timestamp and record.offset >= base:
                return OffsetResult(offset=record.offset, timestamp=record.timestamp, leader_epoch=epoch)
    return OffsetResult()
