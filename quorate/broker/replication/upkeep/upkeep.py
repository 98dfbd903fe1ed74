"""The periodic work of replicas: ISR scans, checkpoints, flushes, retention."""

from collections.abc import Awaitable, Callable

import trio

from quorate.broker.replication.foundation.current_metadata import CurrentMetadata
from quorate.broker.replication.foundation.failures import Failures
from quorate.broker.replication.producing.producer_snapshot import store, take
from quorate.broker.replication.replica.hosted_replicas import HostedReplicas
from quorate.broker.replication.replica.partition_replica import LogFailed, PartitionReplica
from quorate.broker.replication.storage.log_manager import LogManager
from quorate.broker.settings.replication_config import ReplicationConfig
from quorate.log import LogError, LogInterruptedError, TopicPartition
from quorate.runtime import DescriptorsExhaustedError, Disk, DiskError, Slices, get_logger, in_slices
from quorate.types import Offset

log = get_logger(__name__)


class Upkeep:
    """Each chore in a task of its own, so that a slow disk delays none of the others."""

    def __init__(
        self,
        config: ReplicationConfig,
        logs: LogManager,
        hosted: HostedReplicas,
        metadata: CurrentMetadata,
        failures: Failures,
        *,
        disk: Disk,
        now_ms: Callable[[], int],
    ) -> None:
        self._config = config
        self.producer_id_expiration_ms = config.producer_id_expiration_ms
        """May change while the broker runs."""
        self._logs = logs
        self._hosted = hosted
        self._disk = disk
        self._metadata = metadata
        self._failures = failures
        self._now_ms = now_ms
        self._flushed: dict[PartitionReplica, Offset] = {}
        """The log ends of the last round that `_flush_one` has seen."""
        self._logged: dict[TopicPartition, int] = {}
        """The base offset of the last segment of a partition that was told to be kept by a later date."""

    async def run(self) -> None:
        """Run the chores until cancelled."""
        config = self._config
        async with trio.open_nursery() as nursery:
            # Half the lag time: a follower is out at most one and a half lag times after its last good fetch.
            nursery.start_soon(self._every, config.replica_lag_time_max_ms / 2, self._scan_isrs)
            nursery.start_soon(
                self._every,
                config.replica_high_watermark_checkpoint_interval_ms,
                self._logs.store_high_watermarks,
            )
            nursery.start_soon(self._every, config.log_flush_offset_checkpoint_interval_ms, self._flush)
            nursery.start_soon(self._every, config.log_retention_check_interval_ms, self._retain)

    async def _every(self, interval_ms: float, chore: Callable[[], Awaitable[None]]) -> None:
        while True:
            await trio.sleep(interval_ms / 1000)
            try:
                await chore()
            except DescriptorsExhaustedError as error:
                log.error("a checkpoint can't be written for now", reason=str(error))
            except DiskError as error:
                # The logs' own failures are noted where they happen; this is a checkpoint that could not be
                # written, which the next round tries again.
                self._logs.forsake()
                log.error("a checkpoint can't be written", reason=str(error))

    async def _scan_isrs(self) -> None:
        slices = Slices()
        for partition in list(self._hosted.partitions()):
            # One that has gone meanwhile leads nothing any more.
            partition.scan_isr()
            await slices.pause()

    async def _flush(self) -> None:
        await self.flush_all()
        await self._logs.store_recovery_points()

    async def flush_all(self) -> None:
        """Sync every log and save its producers, so that the next start needn't read the log for them. Failed
        logs go offline."""
        flushed, self._flushed = self._flushed, {}
        slices = Slices()
        for partition in self._hosted.partitions():
            end, has_producers = partition.log.end_offset, bool(partition.producers.producers)
            if flushed.get(partition) == end and not has_producers and partition.log.is_flushed:
                # Of thousands of idle ones, each would cost as much as a small request.
                self._flushed[partition] = end
                await slices.pause()
            else:
                await self._run_chore(partition, self._flush_one)

    async def _flush_one(self, partition: PartitionReplica) -> None:
        folder, end = partition.log.folder, partition.log.end_offset
        await in_slices(partition.producers.expire_steps(after_ms=self.producer_id_expiration_ms))
        # Before the sync, as it must not cover what is appended meanwhile.
        snapshot = await take(self._disk, folder, partition.producers)
        await partition.log.flush()
        if snapshot is not None:
            await store(self._disk, folder, snapshot)
        self._flushed[partition] = end

    async def _retain(self) -> None:
        for partition in self._hosted.partitions():
            if self._metadata.config(partition.topic).cleanup_delete:
                await self._run_chore(partition, self._retain_one)

    async def _retain_one(self, partition: PartitionReplica) -> None:
        config = self._metadata.config(partition.topic)
        removed = await partition.log.delete_old_segments(
            retention_bytes=None if config.retention_bytes < 0 else config.retention_bytes,
            retention_ms=None if config.retention_ms < 0 else config.retention_ms,
            high_watermark=partition.high_watermark,
        )
        if removed:
            log.info(
                "removed old segments",
                partition=str(partition),
                segments=removed,
                log_start_offset=partition.log.log_start_offset,
            )
            partition.watchers.changed()
        if config.retention_ms >= 0:
            self._check_dates(partition)

    def _check_dates(self, partition: PartitionReplica) -> None:
        """Say once if a record that is dated in the future keeps the oldest segment, and with it all others
        (KAFKA-18929)."""
        oldest = next((segment for segment, _ in partition.log.closed_spans()), None)
        key = (partition.topic, partition.partition_id)
        if (
            oldest is not None
            and oldest.max_timestamp > self._now_ms()
            and self._logged.get(key) != oldest.base_offset
        ):
            self._logged[key] = oldest.base_offset
            log.warning(
                "a segment stays beyond retention.ms: a record in it is dated in the future; move the log "
                "start past it (DeleteRecords), set retention.bytes, or lower message.timestamp.after.max.ms",
                partition=str(partition),
                path=oldest.path,
                timestamp_ms=oldest.max_timestamp,
            )

    async def _run_chore(
        self, partition: PartitionReplica, chore: Callable[[PartitionReplica], Awaitable[None]]
    ) -> None:
        async with partition.upkeep:
            # It may have failed or gone while this waited.
            if partition.failure is not None or not self._hosted.has(partition):
                return
            try:
                await chore(partition)
            except LogInterruptedError:
                pass  # The broker is stopping, and the next start recovers the log.
            except (DiskError, LogError) as error:
                self._failures.report(LogFailed(partition, error))
