"""The state of an open log, which its parts share."""

from collections.abc import Callable

import trio

from quorate.log.epoch_cache import EpochCache
from quorate.log.log_config import LogConfig
from quorate.log.log_errors import LogError, LogFailedError, LogInterruptedError, OffsetOutOfRangeError
from quorate.log.recovery import RecoveredFiles, RecoveryReport
from quorate.log.segments.segment import Segment
from quorate.log.tail import Tail
from quorate.runtime import Disk
from quorate.types import Epoch, Offset


class OpenLog:
    """The common base of the classes that `Log` is made of. Mutable; owned by one log."""

    def __init__(
        self,
        disk: Disk,
        folder: str,
        config: LogConfig,
        files: RecoveredFiles,
        *,
        log_start_offset: Offset,
        now_ms: Callable[[], int],
    ) -> None:
        self._disk = disk
        self._folder = folder
        self._config = config
        self._now_ms = now_ms
        self._segments = files.segments
        self._active = files.segments[-1]
        self._epochs: EpochCache = files.epochs
        self._tail = Tail(config.tail_bytes)
        self._generation = 0
        """Counts the removals of records."""
        self._layout = 0
        """Counts the removals of records, and their moves to other files."""
        self._folder_writes = 0
        self._folder_synced = 0
        self._durable_end_offset = files.end_offset
        self._recovery_point = files.end_offset
        self._maintenance = trio.Lock()
        self._changing = False
        self._failure: BaseException | None = None
        self._unsynced_bytes = 0
        self._bytes_above_recovery_point = 0
        self.log_start_offset = log_start_offset
        self.durable_log_start_offset = base_of(files.segments[0])
        """The log start that the next start finds at least. It is below `log_start_offset` while segments are
        being removed, and until the owner has stored a log start in the middle of a segment."""
        self.end_offset = files.end_offset
        self.high_watermark = log_start_offset
        """The high watermark, which the owner sets. Nothing below is ever truncated (KAFKA-12460)."""
        self.recovered: RecoveryReport = files.report

    @property
    def size_bytes(self) -> int:
        return sum(segment.size for segment in self._segments)

    @property
    def first_base_offset(self) -> Offset:
        """The base offset of the first segment. Without one, during a reset, the log's end."""
        return base_of(self._segments[0]) if self._segments else self.end_offset

    @property
    def is_interrupted(self) -> bool:
        """True if a change was cancelled halfway, for example at the end of a process."""
        return isinstance(self._failure, trio.Cancelled)

    def _begin_at(self, log_start_offset: Offset, epoch: Epoch) -> None:
        """Drop everything below `log_start_offset`. The last dropped record is of `epoch`."""
        self.log_start_offset = log_start_offset
        self.high_watermark = max(self.high_watermark, log_start_offset)
        self._epochs.trim(log_start_offset)
        if self._config.own_recovery_point:
            self._epochs.start_epoch = epoch
            if log_start_offset == self.end_offset:
                # No record is left to begin an epoch. (A partition's leader may have begun one without.)
                self._epochs.truncate(log_start_offset)

    def _check_writable(self) -> None:
        if self._failure is not None:
            kind = LogInterruptedError if self.is_interrupted else LogFailedError
            raise kind(
                f"{self._folder}: an earlier operation failed ({self._failure}); the log must be opened again"
            ) from self._failure
        if self._changing:
            raise LogError(f"{self._folder}: appended to while being truncated")

    def _check_range(self, offset: int) -> None:
        if not self.log_start_offset <= offset <= self.end_offset:
            raise OffsetOutOfRangeError(
                offset, log_start_offset=self.log_start_offset, end_offset=self.end_offset
            )


def base_of(segment: Segment) -> Offset:
    return Offset(segment.base_offset)
