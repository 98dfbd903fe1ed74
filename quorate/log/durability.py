"""Durability of a log: its syncs, and the recovery point for the next start."""

from quorate.invariant import invariant
from quorate.log.checkpoints import RECOVERY_POINTS, TopicPartition, load_offsets, store_offsets
from quorate.log.epoch_cache import LEADER_EPOCHS
from quorate.log.log_errors import DamagedLogError
from quorate.log.open_log import OpenLog
from quorate.log.segments.segment_files import segment_bases
from quorate.runtime import DescriptorsExhaustedError, Disk, DiskError
from quorate.types import Offset


class Durability(OpenLog):
    """Syncs, and the checkpoints behind them."""

    async def sync(self) -> Offset:
        """Make everything that is in the log at the call durable, and return its end offset (exclusive).

        A `DiskError` is final: the log must be opened again. If cancelled, the sync may or may not have
        happened.
        """
        if self._changing:
            async with self._maintenance:
                pass
        self._check_writable()
        end, generation = self.end_offset, self._generation
        self._active.indexes.add_max()
        unsynced, self._unsynced_bytes = self._unsynced_bytes, 0
        folder_writes = self._folder_writes
        done = False
        try:
            # Oldest first; only the last few can be dirty.
            for segment in [segment for segment in self._segments if segment.synced < segment.writes]:
                if segment not in self._segments:
                    continue  # removed meanwhile
                writes = segment.writes
                await segment.file.sync()
                segment.synced = max(segment.synced, writes)
            if self._folder_synced < folder_writes:
                await self._disk.sync_folder(self._folder)
                self._folder_synced = max(self._folder_synced, folder_writes)
            done = True
        except DescriptorsExhaustedError:
            # The folder could not be opened to be synced: the next sync does it.
            raise
        except DiskError as error:
            self._failure = error
            raise
        finally:
            if not done:
                self._unsynced_bytes += unsynced
        if generation == self._generation:
            self._durable_end_offset = max(self._durable_end_offset, end)
            self._bytes_above_recovery_point += unsynced
            if (
                self._config.own_recovery_point
                and self._bytes_above_recovery_point >= self._config.recovery_point_interval_bytes
                and not self._maintenance.locked()
            ):
                await self._checkpoint()
        return end

    def sync_at_once(self) -> Offset | None:
        """Do the same as `sync`, if the disk can sync at once and only one file needs it. None: it can't, and
        nothing happened."""
        segment = self._active
        if (
            self._changing
            or self._folder_synced < self._folder_writes
            or (len(self._segments) > 1 and self._segments[-2].synced < self._segments[-2].writes)
            or self._bytes_above_recovery_point + self._unsynced_bytes
            >= self._config.recovery_point_interval_bytes
        ):
            return None
        self._check_writable()
        try:
            if not segment.file.sync_at_once():
                return None
        except DiskError as error:
            self._failure = error
            raise
        segment.synced = segment.writes
        self._durable_end_offset = self.end_offset
        self._bytes_above_recovery_point += self._unsynced_bytes
        self._unsynced_bytes = 0
        return self.end_offset

    @property
    def is_flushed(self) -> bool:
        """Return whether a `flush` would find nothing to make durable."""
        return (
            self._recovery_point == self._durable_end_offset == self.end_offset
            and self._folder_synced == self._folder_writes
            and self._failure is None
            and not self._changing
            and not self._epochs.dirty
            and all(
                segment.synced == segment.writes and not segment.indexes.times_unsynced
                for segment in self._segments
            )
        )

    async def flush(self) -> Offset:
        """Do the same as `sync`, and make the epoch checkpoint and an own recovery point durable:
        `recovery_point` is then the returned offset."""
        end = await self.sync()
        await self._checkpoint()
        return end

    async def _checkpoint(self) -> None:
        async with self._maintenance:
            end = self._durable_end_offset
            try:
                # The epochs and times first: below the recovery point they are not read from the batches.
                # A log that never had a record has no epochs to lose, and thousands are created at once.
                if end or self._disk.exists(f"{self._folder}/{LEADER_EPOCHS}"):
                    await self._epochs.store(self._disk, self._folder)
                for segment in [one for one in self._segments if one.indexes.times_unsynced]:
                    await segment.indexes.sync_times()
                if self._config.own_recovery_point and end != self._recovery_point:
                    await self._store_recovery_point(end)
            except DescriptorsExhaustedError:
                # The old files are as they were: the next flush writes them.
                raise
            except DiskError as error:
                self._failure = error
                raise
            # A start takes damage below the recovery point for lost records.
            invariant(end <= self.end_offset, "a recovery point is beyond the log's end", point=end)
            self._recovery_point = end
            self._bytes_above_recovery_point = 0

    async def _store_recovery_point(self, offset: Offset) -> None:
        path = f"{self._folder}/{RECOVERY_POINTS}"
        await store_offsets(self._disk, path, {_partition_of(self._folder): offset})


def _partition_of(folder: str) -> TopicPartition:
    name = folder.rpartition("/")[2]
    topic, _, partition = name.rpartition("-")
    return (topic, int(partition)) if topic and partition.isdecimal() else (name, 0)


async def own_recovery_point(disk: Disk, folder: str, log_start_offset: Offset) -> Offset:
    """Return the recovery point that the log in `folder` keeps itself, and store one if the log is new.

    Raises `DamagedLogError`, `UnreadableCheckpointError`, `DiskError`.
    """
    path = f"{folder}/{RECOVERY_POINTS}"
    begun = bool(segment_bases(disk, folder))
    # Durable before the first segment is made, so that a missing one is damage.
    if not disk.exists(path):
        if begun:
            raise DamagedLogError(path, 0, "the log's recovery point is missing")
        await store_offsets(disk, path, {_partition_of(folder): log_start_offset})
    elif not begun:
        # Whoever stored it may have ended before its name was durable.
        await disk.sync_folder(folder)
    offsets = load_offsets(disk, path)
    if _partition_of(folder) not in offsets:
        raise DamagedLogError(path, 0, f"it has no entry for {_partition_of(folder)}")
    return offsets[_partition_of(folder)]
