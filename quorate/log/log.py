"""The log itself: how it is opened and closed, and what is in it."""

from collections.abc import Callable

from quorate.log.appends import AppendInfo, Appends
from quorate.log.durability import own_recovery_point
from quorate.log.log_config import LogConfig
from quorate.log.log_errors import LogError
from quorate.log.reads import FileSlice, Reads
from quorate.log.recovery import recover
from quorate.log.removals import Removals
from quorate.runtime import DescriptorsExhaustedError, Disk, DiskError
from quorate.types import Epoch, EpochEnd, EpochStart, Offset

__all__ = ["AppendInfo", "FileSlice", "Log"]


class Log(Appends, Reads, Removals):
    """One log in one directory. Only one task may use it.

    Appends are plain calls and take effect in the order of the calls. They are durable after `sync`. After a
    `DiskError` the log refuses everything except reads until it is opened again.
    """

    @classmethod
    async def open(
        cls,
        disk: Disk,
        folder: str,
        config: LogConfig,
        *,
        recovery_point: Offset | None = None,
        clean_shutdown: bool = False,
        complete_to: Offset | None = None,
        log_start_offset: Offset | None = None,
        log_start_epoch: Epoch = Epoch(0),  # noqa: B008
        now_ms: Callable[[], int],
    ) -> "Log":
        """Recover the log in `folder`, or begin one at `log_start_offset` (None: 0), whose record below that
        offset has `log_start_epoch`. Use `open_metadata_log` for a metadata log.

        `recovery_point`: the end (exclusive) of the durable part, as the owner knows it. None: unknown, so
        all records are checked as after a crash. A log with `config.own_recovery_point` keeps it itself.
        `complete_to`: the host has not lost power since the log was written, and its partition counts on
        all records below this offset (exclusive). Recovery then cuts off a torn last append at most. None:
        recovery cuts off every invalid batch above the recovery point. All records are durable when this
        returns. Raises `DamagedLogError`, `UnreadableCheckpointError`, `DiskError`; `IncompleteLogError`,
        without a cut, if `complete_to` doesn't hold.
        """
        if not disk.exists(folder):
            disk.make_folder(folder)
            await disk.sync_folder(folder.rpartition("/")[0] or ".")
        if config.own_recovery_point:
            recovery_point = await own_recovery_point(disk, folder, log_start_offset or Offset(0))
        files = await recover(
            disk,
            folder,
            config,
            recovery_point=recovery_point or 0,
            clean_shutdown=clean_shutdown,
            complete_to=complete_to,
            log_start_offset=log_start_offset,
        )
        start = max(log_start_offset or 0, files.segments[0].base_offset)
        self = cls(
            disk, folder, config, files, log_start_offset=Offset(min(start, files.end_offset)), now_ms=now_ms
        )
        self._begin_at(self.log_start_offset, log_start_epoch if start == log_start_offset else Epoch(0))
        await self._epochs.store(disk, folder)
        if config.own_recovery_point and recovery_point != self.end_offset:
            await self._store_recovery_point(self.end_offset)
        return self

    @property
    def folder(self) -> str:
        """The path of the directory with the log's files."""
        return self._folder

    @property
    def config(self) -> LogConfig:
        """The configuration that the log uses now."""
        return self._config

    @property
    def last_epoch(self) -> Epoch:
        """The epoch of the last record, 0 in an empty log."""
        return self._epochs.last_epoch

    @property
    def log_start_epoch(self) -> Epoch:
        """The epoch of the record below the log start. 0: the log starts at offset 0, or that epoch is
        unknown."""
        return self._epochs.start_epoch

    @property
    def epochs(self) -> tuple[EpochStart, ...]:
        """The leader epochs in the log, each with the offset of its first record, in ascending order."""
        return self._epochs.entries

    @property
    def segment_count(self) -> int:
        """The number of segments, including the active one."""
        return len(self._segments)

    @property
    def recovery_point(self) -> Offset:
        """The end (exclusive) of the part that is durable, including the epoch checkpoint. After `flush` the
        owner may store it as the recovery point. Before a truncation below it, the owner must store a lower
        one. `truncate` does so for an own recovery point."""
        return self._recovery_point

    def epoch_at(self, offset: int) -> Epoch | None:
        """Return the epoch of the record at `offset`. None: the offset is below the first known epoch."""
        return self._epochs.epoch_at(offset)

    def end_offset_for_epoch(self, epoch: int) -> EpochEnd | None:
        """Return the largest epoch of the log that is not above `epoch`, and its end offset (KIP-101,
        KIP-279). None: the log knows no epoch."""
        return self._epochs.end_offset_for(epoch, self.end_offset)

    def start_epoch(self, epoch: Epoch) -> None:
        """Record that `epoch` starts at the log's end. A partition's leader does so before its first append
        (KAFKA-7415)."""
        self._epochs.assign(epoch, self.end_offset)

    def roll_if_older(self, first_ms: int) -> bool:
        """Begin another segment if the first record of the active one is older than `first_ms`. Return
        whether it did: it does not while the log is truncated. Raises `DiskError`, `LogFailedError`."""
        first_timestamp = self._active.indexes.first_timestamp
        if self._changing or not self._active.size or first_timestamp is None or first_timestamp >= first_ms:
            return False
        self._check_writable()
        try:
            self._roll()
        except DescriptorsExhaustedError:
            raise
        except DiskError as error:
            self._failure = error
            raise
        return True

    def relocate(self, folder: str) -> None:
        """Continue in `folder`, the new name of the log's folder. The open files stay the same. No sync
        and no change of the log may be under way."""
        self._folder = folder
        for segment in self._segments:
            segment.relocate(folder)

    def configure(self, config: LogConfig) -> None:
        """Use another configuration from the next append on: segment sizes and ages, index intervals."""
        self._config = config
        for segment in self._segments:
            segment.configure(config)

    async def flush_and_close(self) -> None:
        """Make the log durable and close its files, as a clean shutdown does. Raises `DiskError`. The files
        are closed in any case."""
        try:
            if self._failure is None:
                # Before the sync: a start after a clean shutdown does not look for a reserve.
                self._active.release_reserve()
                await self.flush()
                self._active.indexes.save()
        finally:
            self.close()

    def close(self) -> None:
        """Close the files without a sync."""
        self._failure = self._failure or LogError("closed")
        for segment in self._segments:
            segment.close()
