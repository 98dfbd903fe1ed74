"""ListOffsets on one partition."""


from quorate.broker.replication.errors import ErrorCode
from quorate.broker.replication.partition import Partition
from quorate.broker.replication.requests import OffsetResult
from quorate.log.batch import read_batches
from quorate.log.records import records_of


async def find_offset(partition: Partition, timestamp: int) -> OffsetResult:
    """What a consumer may know: nothing at or above the high watermark. -1 everywhere if there is nothing."""
    opened = partition.log
    match timestamp:
        case -1:
            return OffsetResult(offset=partition.high_watermark, leader_epoch=partition.leader_epoch)
        case -2 | -4:
            start = int(opened.log_start_offset)
            epoch = opened.epoch_at(start)
            return OffsetResult(offset=start, leader_epoch=-1 if epoch is None else int(epoch))
        case -5:
            return OffsetResult()  # there is no tiered storage
        case -3:
            newest = opened.max_timestamp()
            return OffsetResult() if newest is None else await _at(partition, newest)
    if timestamp < 0:
        return OffsetResult(error=ErrorCode.UNKNOWN_SERVER_ERROR)
    return await _at(partition, timestamp)


async def _at(partition: Partition, timestamp: int) -> OffsetResult:
    opened = partition.log
    base = opened.offset_for_timestamp(timestamp)
    if base is None or base >= partition.high_watermark:
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
