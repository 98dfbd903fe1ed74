"""The log itself: how it is opened and closed, and what is in it."""

from collections.abc import Callable

from quorate.log.appends import AppendInfo, Appends
from quorate.log.changes import Changes
from quorate.log.durability import own_recovery_point
from quorate.log.errors import LogError
from quorate.log.log_config import LogConfig
from quorate.log.reads import FileSlice, Reads
from quorate.log.recovery import recover
from quorate.runtime import Disk
from quorate.types import Epoch, EpochEnd, EpochStart, Offset

__all__ = ["AppendInfo", "FileSlice", "Log"]


class Log(Appends, Reads, Changes):
    """One log in one folder, owned by one task at a time.

    Appends are plain calls, first in, first out; nothing is durable before `sync`. After a `DiskError` the
    log refuses everything but reads until it is opened again.
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
        log_start_offset: Offset | None = None,
        log_start_epoch: Epoch = Epoch(0),  # noqa: B008
        now_ms: Callable[[], int],
    ) -> "Log":
        """Recover what is there, or begin a new log at `log_start_offset` (0 if None), below which the last
        record was of `log_start_epoch`. A metadata log is opened by `open_metadata_log`.

        `recovery_point`: what the owner knows to be durable (exclusive); None checks everything as after a
        crash. With `config.own_recovery_point` the log knows better. Everything in the log is durable when
        this returns. Raises `DamagedLogError`, `UnreadableCheckpointError`, `DiskError`.
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
        return self._folder

    @property
    def last_epoch(self) -> Epoch:
        return self._epochs.last_epoch

    @property
    def log_start_epoch(self) -> Epoch:
        """Of the record below the log start; 0 at offset 0, and where nobody said it."""
        return self._epochs.start_epoch

    @property
    def epochs(self) -> tuple[EpochStart, ...]:
        return self._epochs.entries

    @property
    def segment_count(self) -> int:
        return len(self._segments)

    @property
    def recovery_point(self) -> Offset:
        """Everything below is durable, the epoch checkpoint included: what an owner may write into
        its recovery-point checkpoint after `flush`. Before a truncation below it, the owner must write a
        lower one (`truncate` does so for an own recovery point)."""
        return self._recovery_point

    def epoch_at(self, offset: int) -> Epoch | None:
        """The epoch of the record at `offset`; None below the first known."""
        return self._epochs.epoch_at(offset)

    def end_offset_for_epoch(self, epoch: int) -> EpochEnd | None:
        """The largest epoch <= `epoch` in the log and its end offset (KIP-101, KIP-279); None if the log
        knows no epoch."""
        return self._epochs.end_offset_for(epoch, self.end_offset)

    def start_epoch(self, epoch: Epoch) -> None:
        """A partition's leader begins `epoch` at the log's end, before any append (KAFKA-7415)."""
        self._epochs.assign(epoch, self.end_offset)

    def configure(self, config: LogConfig) -> None:
        """Kept otherwise from the next append on: segment sizes and ages, index intervals."""
        self._config = config
        for segment in self._segments:
            segment.configure(config)

    async def flush_and_close(self) -> None:
        """A clean shutdown. Raises `DiskError`; the files are closed in any case."""
        try:
            if self._failure is None:
                # Before the sync: after a clean shutdown nobody looks for a reserve.
                self._active.release_reserve()
                await self.flush()
                self._active.indexes.save()
        finally:
            self.close()

    def close(self) -> None:
        """Close the files as they are."""
        self._failure = self._failure or LogError("closed")
        for segment in self._segments:
            segment.close()
