"""Offsets, epochs and producers in the log of a replica, for requests that read no records."""

from collections.abc import Callable, Iterator

from quorate.broker.replication.replica import PartitionReplica
from quorate.broker.replication.replication_errors import PartitionError
from quorate.broker.replication.requests import DescribedProducer, EpochEndResult, OffsetResult, TopicRef
from quorate.broker.replication.serving.offset_lookup import find_offset
from quorate.error_code import ErrorCode
from quorate.log import DamagedLogError
from quorate.runtime import Compute
from quorate.types import UNKNOWN_EPOCH, Epoch


class LogQueries:
    """Answers from the logs of replicas. Owns nothing."""

    def __init__(
        self,
        find: Callable[[TopicRef, int], PartitionReplica],
        *,
        disk_failed: Callable[[PartitionReplica, Exception], None],
        damaged: Callable[[PartitionReplica, DamagedLogError], None],
        compute: Compute,
        now_ms: Callable[[], int],
        uncompressed_max_bytes: int,
    ) -> None:
        """`find` raises `PartitionError` for a replica that isn't here."""
        self._find = find
        self._disk_failed = disk_failed
        self._damaged = damaged
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
            partition = self._find(topic, partition_id)
            partition.check_leading(current_leader_epoch)
            return await find_offset(
                partition,
                timestamp,
                self._disk_failed,
                damaged=self._damaged,
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
            partition = self._find(topic, partition_id)
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
        partition = self._find(topic, partition_id)
        if partition.failure is not None:
            raise PartitionError(ErrorCode.KAFKA_STORAGE_ERROR, partition.failure)
        return partition.producers.described(self._now_ms)
