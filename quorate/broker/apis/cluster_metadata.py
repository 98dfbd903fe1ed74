"""Reads of `__cluster_metadata`: the quorum's log, up to its high watermark, as a topic of one partition."""

import uuid
from dataclasses import dataclass
from typing import Final

from kio.schema.errors import ErrorCode

from quorate.broker.metadata_cache import MetadataCache
from quorate.broker.wire.codecs.fetch_codec import FetchedPartition, FetchPartition
from quorate.log import LogError, OffsetOutOfRangeError
from quorate.raft import Quorum
from quorate.types import UNKNOWN_EPOCH, UNKNOWN_OFFSET, Epoch, Offset

CLUSTER_METADATA: Final = "__cluster_metadata"
CLUSTER_METADATA_ID: Final = uuid.UUID(int=1)
"""Kafka's: AAAAAAAAAAAAAAAAAAAAAQ."""


def is_cluster_metadata(name: str | None, topic_id: uuid.UUID | None) -> bool:
    return name == CLUSTER_METADATA or topic_id == CLUSTER_METADATA_ID


@dataclass(frozen=True, slots=True)
class ListedOffset:
    error: ErrorCode
    offset: Offset = UNKNOWN_OFFSET
    timestamp: int = -1
    leader_epoch: Epoch = UNKNOWN_EPOCH


class ClusterMetadataReader:
    """Any node answers, because committed records are the same everywhere. Leader epochs are not compared."""

    def __init__(self, quorum: Quorum[None], metadata: MetadataCache) -> None:
        self._quorum = quorum
        self._metadata = metadata

    async def read(self, part: FetchPartition, *, max_bytes: int) -> FetchedPartition:
        if part.partition != 0:
            return FetchedPartition(index=part.partition, error=ErrorCode.unknown_topic_or_partition)
        log, end = self._quorum.log, self._end_offset
        error, records = ErrorCode.none, b""
        try:
            if not log.log_start_offset <= part.fetch_offset <= log.end_offset:
                error = ErrorCode.offset_out_of_range
            elif part.fetch_offset < end:
                records = await log.read(part.fetch_offset, min(part.max_bytes, max_bytes), end_offset=end)
        except OffsetOutOfRangeError:
            error = ErrorCode.offset_out_of_range
        except LogError:
            error = ErrorCode.kafka_storage_error
        return FetchedPartition(
            index=0,
            error=error,
            high_watermark=end,
            last_stable_offset=end,
            log_start_offset=log.log_start_offset,
            records=(records,) if records else (),
        )

    async def wait_beyond(self, offset: Offset) -> None:
        """Return when a record at `offset` may be committed."""
        while self._end_offset <= offset:
            await self._metadata.wait_change()

    async def list_offset(self, partition: int, timestamp: int) -> ListedOffset:
        """Answer ListOffsets: -2 and -4 the start, -1 the high watermark, -3 the newest record, -5 and -6 (of
        tiered storage) nothing, else by the leader's clock in ms."""
        if partition != 0:
            return ListedOffset(ErrorCode.unknown_topic_or_partition)
        log = self._quorum.log
        offset: Offset | None
        newest = log.max_timestamp() if timestamp == -3 else None
        at = timestamp if newest is None else newest
        match at:
            case -1:
                offset = self._end_offset
            case -2 | -4:
                offset = log.log_start_offset
            case -3 | -5 | -6:
                offset = None
            case _ if at >= 0:
                offset = await log.offset_for_timestamp(at)
            case _:
                return ListedOffset(ErrorCode.unsupported_version)
        if offset is None or offset > self._end_offset or (at >= 0 and offset == self._end_offset):
            return ListedOffset(ErrorCode.none)
        epoch = log.epoch_at(offset)
        return ListedOffset(
            ErrorCode.none,
            offset=offset,
            timestamp=max(at, -1),
            leader_epoch=UNKNOWN_EPOCH if epoch is None else epoch,
        )

    def end_of_epoch(self, epoch: Epoch) -> tuple[Epoch, Offset]:
        """Return (epoch, end offset) as OffsetForLeaderEpoch answers; -1 where nothing is known."""
        found = self._quorum.log.end_offset_for_epoch(epoch)
        if found is None:
            return (UNKNOWN_EPOCH, UNKNOWN_OFFSET)
        return (found.epoch, min(found.end_offset, self._end_offset))

    @property
    def _end_offset(self) -> Offset:
        """Return the first uncommitted offset, or the log's start while this node does not know it."""
        high_watermark = self._quorum.high_watermark
        return self._quorum.log.log_start_offset if high_watermark is None else high_watermark
