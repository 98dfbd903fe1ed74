"""A partition's log in memory, with the operations that a replica uses and the shipped cache of leader
epochs."""

import functools
from collections.abc import Sequence
from typing import Final, NamedTuple

from quorate.log import AppendInfo, EpochCache, Log, LogError
from quorate.log.batches.batch import BatchHeader, read_header, read_headers
from quorate.log.batches.records import build_batch
from quorate.runtime import Buffer
from quorate.types import Offset


class LoggedValue(NamedTuple):
    """One record, which is a batch of its own."""

    epoch: int
    value: int
    """Tells it from every other record ever produced. It is the record's timestamp."""


Values = tuple[LoggedValue, ...]

_ZERO: Final = Offset(0)


@functools.cache
def batch_of(offset: int, epoch: int, value: int) -> bytes:
    """Return the bytes of a record as they are in a log and on the wire."""
    return build_batch(base_offset=offset, epoch=epoch, timestamp_ms=value, values=[b""])


@functools.cache
def produced(value: int) -> tuple[bytes, BatchHeader]:
    """Return a record as a producer sends it, and its header."""
    batch = batch_of(0, -1, value)
    return batch, read_header(batch, 0)


class MemoryLog(Log):
    """It always starts at offset 0: no records are deleted here. There are no files, so the base class's
    fields for them are not set, and any use of them fails."""

    def __init__(self, values: Values, epochs: EpochCache, high_watermark: int) -> None:
        self._folder = "memory"
        self._failure = None
        self._changing = False
        self._epochs = epochs
        self.values = values
        self.log_start_offset = self.durable_log_start_offset = _ZERO
        self.end_offset = Offset(len(values))
        self.high_watermark = Offset(high_watermark)

    @classmethod
    def opened(cls, values: Values, *, high_watermark: int) -> "MemoryLog":
        """Open the log on a disk. Epochs without a record are forgotten, as recovery does."""
        epochs = EpochCache()
        for offset, each in enumerate(values):
            epochs.assign(each.epoch, offset)
        return cls(values, epochs, min(high_watermark, len(values)))

    def copy(self) -> "MemoryLog":
        """Return a log of its own that starts out equal."""
        return MemoryLog(self.values, EpochCache(self._epochs.entries), self.high_watermark)

    def append_as_leader(
        self, records: Buffer, epoch: int, *, headers: Sequence[BatchHeader] | None = None
    ) -> AppendInfo:
        """Do the same as a log on a disk."""
        if epoch < self._epochs.last_epoch:
            raise LogError(f"epoch {epoch} is older than {self._epochs.last_epoch}")
        base = self.end_offset
        for header in read_headers(records, contiguous=False):
            self._add(LoggedValue(epoch, header.base_timestamp))
        return AppendInfo(base, self.end_offset, len(records))

    def append_as_follower(
        self, records: Buffer, *, headers: Sequence[BatchHeader] | None = None, in_memory: bool = True
    ) -> AppendInfo:
        """Do the same as a log on a disk."""
        base = self.end_offset
        for header in read_headers(records):
            if header.base_offset != self.end_offset:
                raise LogError(f"base offset {header.base_offset}, expected {self.end_offset}")
            if header.leader_epoch < self._epochs.last_epoch:
                raise LogError(f"epoch {header.leader_epoch} is older than {self._epochs.last_epoch}")
            self._add(LoggedValue(header.leader_epoch, header.base_timestamp))
        return AppendInfo(base, self.end_offset, len(records))

    def _add(self, appended: LoggedValue) -> None:
        self._epochs.assign(appended.epoch, self.end_offset)
        self.values = (*self.values, appended)
        self.end_offset = Offset(len(self.values))

    async def read(
        self, offset: int, max_bytes: int, *, end_offset: int | None = None, min_one_batch: bool = True
    ) -> bytes:
        """Return all batches from `offset` on, below `end_offset`."""
        return b"".join(
            batch_of(at, each.epoch, each.value)
            for at, each in enumerate(self.values[offset:end_offset], start=offset)
        )

    async def truncate(self, end_offset: Offset) -> Offset:
        """Do the same as a log on a disk."""
        if end_offset < min(self.high_watermark, self.end_offset):
            raise LogError(
                f"refusing to truncate to {end_offset}, below the high watermark {self.high_watermark}"
            )
        self.values = self.values[:end_offset]
        self.end_offset = Offset(len(self.values))
        self._epochs.truncate(min(end_offset, self.end_offset))
        return self.end_offset

    async def truncate_fully_and_start_at(self, offset: Offset) -> None:
        """Do the same as a log on a disk. Only offset 0 occurs."""
        if offset:
            raise LogError(f"nothing is deleted here, so that no log starts at {offset}")
        self.values, self.end_offset, self.high_watermark = (), _ZERO, _ZERO
        self._epochs.truncate(0)
