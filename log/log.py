"""The log itself: append, sync, read, truncate, roll."""

import struct
from bisect import bisect_right
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import pairwise

import trio

from quorate.log.batch import STAMP_BYTES, BatchHeader, read_headers, stamp
from quorate.log.checkpoints import RECOVERY_POINTS, TopicPartition, load_offsets, store_offsets
from quorate.log.config import LogConfig
from quorate.log.epoch_cache import EpochCache
from quorate.log.errors import (
    DamagedLogError,
    EpochRegressionError,
    LogError,
    LogFailedError,
    OffsetGapError,
    OffsetOutOfRangeError,
)
from quorate.log.recovery import RecoveredFiles, RecoveryReport, recover, segment_bases
from quorate.log.segment import Segment
from quorate.log.tail import Tail
from quorate.raft.core.types import Epoch, EpochEnd, EpochStart, Offset
from quorate.runtime.disk import Buffer, Disk, DiskError, File

_NO_LIMIT = 2**63 - 1
_TIMESTAMPS = struct.Struct(">qq")
_TIMESTAMPS_START = 27


@dataclass(frozen=True, slots=True)
class AppendInfo:
    """What an append wrote: offsets [base_offset, end_offset), not yet durable."""

    base_offset: Offset
    end_offset: Offset
    size_bytes: int


@dataclass(frozen=True, slots=True)
class FileSlice:
    """Whole batches in a file, for a copy that needn't pass through Python. Valid until the log is next
    truncated or its start moves."""

    file: File
    position: int
    size: int


@dataclass(slots=True)
class _Span:
    base_offset: int
    end_offset: int
    epoch: int
    size: int
    base_timestamp: int
    max_timestamp: int


class Log:
    """One log in one folder, owned by one task at a time.

    Appends are plain calls, first in, first out; nothing is durable before `sync`. After a `DiskError` the
    log refuses everything but reads until it is opened again.
    """

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
        """Use `open`."""
        self._disk = disk
        self._folder = folder
        self._config = config
        self._now_ms = now_ms
        self._segments = files.segments
        self._active = files.segments[-1]
        self._epochs: EpochCache = files.epochs
        self._tail = Tail(config.tail_bytes)
        self._generation = 0
        self._folder_writes = 0
        self._folder_synced = 0
        self._durable_end = files.end_offset
        self._checkpointed_end = files.end_offset
        self._maintenance = trio.Lock()
        self._changing = False
        self._failure: BaseException | None = None
        self._unsynced_bytes = 0
        self._bytes_above_recovery_point = 0
        self.log_start_offset = log_start_offset
        self.end_offset = files.end_offset
        self.high_watermark = log_start_offset
        """Kept by the owner. Nothing below is ever truncated (KAFKA-12460)."""
        self.recovered: RecoveryReport = files.report

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
        now_ms: Callable[[], int],
    ) -> "Log":
        """Recover what is there, or begin a new log at `log_start_offset` (0 if None).

        `recovery_point`: what the owner knows to be durable (exclusive); None checks everything as after a
        crash. With `config.own_recovery_point` the log knows better. Everything in the log is durable when
        this returns. Raises `DamagedLogError`, `UnreadableCheckpointError`, `DiskError`.
        """
        if not disk.exists(folder):
            disk.make_folder(folder)
            await disk.sync_folder(folder.rpartition("/")[0] or ".")
        if config.own_recovery_point:
            recovery_point = await _own_recovery_point(disk, folder, log_start_offset or Offset(0))
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
        self._epochs.trim_start(self.log_start_offset)
        await self._epochs.store(disk, folder)
        if config.own_recovery_point and recovery_point != self.end_offset:
            await self._store_recovery_point(self.end_offset)
        return self

    # What is in it

    @property
    def folder(self) -> str:
        return self._folder

    @property
    def last_epoch(self) -> Epoch:
        return self._epochs.last_epoch

    @property
    def epochs(self) -> tuple[EpochStart, ...]:
        return self._epochs.entries

    @property
    def size_bytes(self) -> int:
        return sum(segment.size for segment in self._segments)

    @property
    def segment_count(self) -> int:
        return len(self._segments)

    @property
    def recovery_point(self) -> Offset:
        """Everything below is durable, the epoch checkpoint included: what an owner may write into
        its recovery-point checkpoint after `flush`. Before a truncation below it, the owner must write a
        lower one (`truncate` does so for an own recovery point)."""
        return self._checkpointed_end

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

    # Append

    def append_as_leader(
        self, records: Buffer, epoch: int, *, headers: Sequence[BatchHeader] | None = None
    ) -> AppendInfo:
        """Append a client's batches, giving them offsets and `epoch`. The record bytes are not copied into
        the file write, and the CRC stays as it is.

        `headers`: of all batches in `records`, if the caller has already read and checked them.
        Raises `InvalidBatchError` (nothing was appended), `DiskError`, `LogFailedError`.
        """
        self._check_writable()
        if headers is None:
            headers = list(read_headers(records, contiguous=False, max_bytes=self._config.max_batch_bytes))
        if epoch < self._epochs.last_epoch:
            raise EpochRegressionError(f"epoch {epoch} is older than {self._epochs.last_epoch}", position=0)
        view = memoryview(records)
        pieces: list[Buffer] = []
        spans: list[_Span] = []
        base = int(self.end_offset)
        for header in headers:
            start, size = header.position, header.size
            pieces += (stamp(base, header.length, epoch), view[start + STAMP_BYTES : start + size])
            end = base + header.last_offset_delta + 1
            spans.append(_Span(base, end, epoch, size, header.base_timestamp, header.max_timestamp))
            base = end
        return self._append(pieces, spans)

    def append_as_follower(
        self, records: Buffer, *, headers: Sequence[BatchHeader] | None = None
    ) -> AppendInfo:
        """Append the leader's batches as they are. They must start at the log's end, be contiguous, and not
        go back in epochs. Parameters and errors as `append_as_leader`."""
        self._check_writable()
        if headers is None:
            headers = list(read_headers(records))
        view = memoryview(records)
        pieces: list[Buffer] = []
        spans: list[_Span] = []
        expected, epoch = int(self.end_offset), int(self._epochs.last_epoch)
        for header in headers:
            if header.base_offset != expected:
                raise OffsetGapError(
                    f"base offset {header.base_offset}, expected {expected}", position=header.position
                )
            if header.leader_epoch < epoch:
                raise EpochRegressionError(
                    f"epoch {header.leader_epoch} is older than {epoch}", position=header.position
                )
            expected, epoch = header.end_offset, header.leader_epoch
            size = header.size
            pieces.append(view[header.position : header.position + size])
            spans.append(
                _Span(header.base_offset, expected, epoch, size, header.base_timestamp, header.max_timestamp)
            )
        return self._append(pieces, spans)

    def append_own(self, batch: bytes, *, base_offset: int, end_offset: int, epoch: int) -> AppendInfo:
        """Append one batch that this process built and stamped, without parsing it."""
        self._check_writable()
        if base_offset != self.end_offset:
            raise OffsetGapError(f"base offset {base_offset}, expected {self.end_offset}", position=0)
        if epoch < self._epochs.last_epoch:
            raise EpochRegressionError(f"epoch {epoch} is older than {self._epochs.last_epoch}", position=0)
        base_timestamp, max_timestamp = _TIMESTAMPS.unpack_from(batch, _TIMESTAMPS_START)
        span = _Span(base_offset, end_offset, epoch, len(batch), base_timestamp, max_timestamp)
        return self._append([batch], [span])

    def _append(self, pieces: list[Buffer], spans: list[_Span]) -> AppendInfo:
        """`pieces` hold one batch each, or two pieces per batch."""
        start = self.end_offset
        if not spans:
            return AppendInfo(start, start, 0)
        last = spans[-1]
        total = last.size if len(spans) == 1 else sum(span.size for span in spans)
        try:
            segment = self._active
            if not segment.has_room_for(total, end_offset=last.end_offset, timestamp=last.max_timestamp):
                segment = self._roll()
            position = segment.append(pieces, total)
            per_batch = len(pieces) // len(spans)
            for number, span in enumerate(spans):
                segment.noted(
                    position=position,
                    last_offset=span.end_offset - 1,
                    base_timestamp=span.base_timestamp,
                    max_timestamp=span.max_timestamp,
                )
                if span.epoch > self._epochs.newest:
                    self._epochs.assign(span.epoch, span.base_offset)
                position += span.size
                if total <= self._config.tail_bytes:
                    batch = b"".join(pieces[number * per_batch : (number + 1) * per_batch])
                    self._tail.add(span.base_offset, span.end_offset, batch)
        except DiskError as error:
            self._failure = error
            raise
        if total > self._config.tail_bytes:
            self._tail.clear()
        self._unsynced_bytes += total
        self.end_offset = Offset(last.end_offset)
        return AppendInfo(start, self.end_offset, total)

    def _roll(self) -> Segment:
        self._active.release_reserve()
        self._active.save_index()
        self._active = Segment(self._disk, self._folder, self.end_offset, self._config, create=True)
        self._segments.append(self._active)
        self._folder_writes += 1
        return self._active

    def _check_writable(self) -> None:
        if self._failure is not None:
            raise LogFailedError(
                f"{self._folder}: an earlier operation failed ({self._failure}); the log must be opened again"
            ) from self._failure
        if self._changing:
            raise LogError(f"{self._folder}: appended to while being truncated")

    # Durability

    async def sync(self) -> Offset:
        """Make everything that is in the log at the call durable; its end offset (exclusive).

        A `DiskError` is final: see the class. If cancelled, the sync may or may not have happened.
        """
        if self._changing:
            async with self._maintenance:
                pass
        self._check_writable()
        end, generation = self.end_offset, self._generation
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
        except DiskError as error:
            self._failure = error
            raise
        finally:
            if not done:
                self._unsynced_bytes += unsynced
        if generation == self._generation:
            self._durable_end = max(self._durable_end, end)
            self._bytes_above_recovery_point += unsynced
            if (
                self._config.own_recovery_point
                and self._bytes_above_recovery_point >= self._config.recovery_point_interval_bytes
                and not self._maintenance.locked()
            ):
                await self._checkpoint()
        return end

    async def flush(self) -> Offset:
        """As `sync`, and the epoch checkpoint and an own recovery point too: `recovery_point` is then the
        returned offset."""
        end = await self.sync()
        await self._checkpoint()
        return end

    async def _checkpoint(self) -> None:
        async with self._maintenance:
            end = self._durable_end
            try:
                # The epochs first: below the recovery point they are not read from the batches.
                await self._epochs.store(self._disk, self._folder)
                if self._config.own_recovery_point and end != self._checkpointed_end:
                    await self._store_recovery_point(end)
            except DiskError as error:
                self._failure = error
                raise
            self._checkpointed_end = end
            self._bytes_above_recovery_point = 0

    async def _store_recovery_point(self, offset: Offset) -> None:
        path = f"{self._folder}/{RECOVERY_POINTS}"
        await store_offsets(self._disk, path, {_partition_of(self._folder): offset})

    async def flush_and_close(self) -> None:
        """A clean shutdown. Raises `DiskError`; the files are closed in any case."""
        try:
            if self._failure is None:
                # Before the sync: after a clean shutdown nobody looks for a reserve.
                self._active.release_reserve()
                await self.flush()
                self._active.save_index()
        finally:
            self.close()

    def close(self) -> None:
        """Close the files as they are."""
        self._failure = self._failure or LogError("closed")
        for segment in self._segments:
            segment.close()

    # Read

    def read_tail(
        self, offset: int, max_bytes: int, *, max_offset: int | None = None, min_one_batch: bool = True
    ) -> bytes | None:
        """As `read`, from memory alone; None if that does not reach back far enough."""
        if offset >= self.end_offset or offset < self.log_start_offset:
            self._check_range(offset)
            return b""
        return self._tail.read(
            offset, max_bytes, _NO_LIMIT if max_offset is None else max_offset, min_one_batch
        )

    async def read(
        self, offset: int, max_bytes: int, *, max_offset: int | None = None, min_one_batch: bool = True
    ) -> bytes:
        """Whole batches from the one that holds `offset` on, undecoded and unchecked; empty at the end.

        `max_offset`: an end offset (exclusive) that none of them passes, such as the high watermark.
        `min_one_batch`: the first may be larger than `max_bytes`. Raises `OffsetOutOfRangeError`. No
        checkpoint if it needn't wait for the disk.
        """
        while True:
            records = self.read_tail(offset, max_bytes, max_offset=max_offset, min_one_batch=min_one_batch)
            if records is not None:
                return records
            generation = self._generation
            found = self.slice_of(offset, max_bytes, max_offset=max_offset, min_one_batch=min_one_batch)
            if found is None:
                return b""
            try:
                records = await found.file.read(found.position, found.size)
            except DiskError:
                if generation == self._generation and offset >= self.log_start_offset:
                    raise
                continue
            # Otherwise the log was truncated under the read.
            if generation == self._generation:
                return records

    def slice_of(
        self, offset: int, max_bytes: int, *, max_offset: int | None = None, min_one_batch: bool = True
    ) -> FileSlice | None:
        """Where `read` would read; None where it would return nothing. Never spans segments. May read a few
        pages of the file."""
        self._check_range(offset)
        limit = self.end_offset if max_offset is None else min(max_offset, self.end_offset)
        if offset >= limit:
            return None
        index = bisect_right(self._segments, offset, key=_base_of) - 1
        for segment in self._segments[index:]:
            spot = segment.find(offset)
            if spot is None:
                continue
            if spot.end_offset > limit:
                return None
            if spot.size > max_bytes:
                return FileSlice(segment.file, spot.position, spot.size) if min_one_batch else None
            end = segment.extent(spot, max_bytes=max_bytes, max_offset=limit)
            return FileSlice(segment.file, spot.position, end - spot.position)
        raise DamagedLogError(
            self._segments[index].path, self._segments[index].size, f"offset {offset} is missing"
        )

    def offset_for_timestamp(self, timestamp: int) -> Offset | None:
        """Base offset of the first batch that holds a record at or after `timestamp` (ms); None if there is
        none. Walks headers: for rare requests."""
        for segment in self._segments:
            for spot in segment.walk(0):
                if spot.max_timestamp >= timestamp and spot.end_offset > self.log_start_offset:
                    return Offset(max(spot.base_offset, self.log_start_offset))
        return None

    def _check_range(self, offset: int) -> None:
        if not self.log_start_offset <= offset <= self.end_offset:
            raise OffsetOutOfRangeError(
                offset, log_start_offset=self.log_start_offset, end_offset=self.end_offset
            )

    # Truncation and retention

    async def truncate(self, end_offset: Offset) -> Offset:
        """Cut the log to `end_offset`, or to the start of the batch that holds it; the new end offset.

        Epochs that start at or above it are forgotten even if no record is cut. Durable when it returns.
        If cancelled or failed, the log must be opened again. Raises `OffsetOutOfRangeError` below the log
        start, `LogError` below the high watermark.
        """
        self._check_writable()
        if end_offset < self.log_start_offset:
            raise OffsetOutOfRangeError(
                end_offset, log_start_offset=self.log_start_offset, end_offset=self.end_offset
            )
        if end_offset < min(self.high_watermark, self.end_offset):
            raise LogError(
                f"{self._folder}: refusing to truncate to {end_offset}, below the high watermark "
                f"{self.high_watermark}"
            )
        async with self._changes():
            if end_offset < self.end_offset:
                await self._cut_to(end_offset)
            self._epochs.trim_end(min(end_offset, self.end_offset))
            await self._epochs.store(self._disk, self._folder)
        return self.end_offset

    async def _cut_to(self, end_offset: Offset) -> None:
        keep = max(bisect_right(self._segments, end_offset, key=_base_of) - 1, 0)
        segment = self._segments[keep]
        spot = segment.find(end_offset)
        end = Offset(segment.base_offset if spot is None and not segment.size else end_offset)
        if spot is not None:
            end = Offset(min(end_offset, spot.base_offset))
        await self._lower_recovery_point(end)
        self._forget_memory(end)
        await self._remove_segments(keep + 1)
        if spot is not None:
            segment.cut(spot.position)
        await segment.file.sync()
        segment.synced = segment.writes

    @asynccontextmanager
    async def _changes(self) -> AsyncIterator[None]:
        """No append and no checkpoint meanwhile; a failure or cancellation halfway is final."""
        async with self._maintenance:
            self._changing = True
            try:
                yield
            except BaseException as error:
                self._failure = error
                raise
            finally:
                self._changing = False

    async def truncate_fully_and_start_at(self, offset: Offset) -> None:
        """Drop everything; the log is then empty and starts at `offset`, and so does its high watermark
        (KAFKA-9491). Durable when it returns; failures as for `truncate`."""
        self._check_writable()
        async with self._changes():
            await self._lower_recovery_point(Offset(0))
            self._forget_memory(offset)
            self.log_start_offset = self.high_watermark = offset
            await self._remove_segments(0)
            self._epochs.trim_end(0)
            await self._epochs.store(self._disk, self._folder)
            self._active = Segment(self._disk, self._folder, offset, self._config, create=True)
            self._segments.append(self._active)
            await self._disk.sync_folder(self._folder)
            if self._config.own_recovery_point:
                await self._store_recovery_point(offset)
            self._checkpointed_end = offset

    async def _lower_recovery_point(self, offset: Offset) -> None:
        """Before anything is cut: otherwise a crash halfway looks like damage."""
        if self._checkpointed_end > offset:
            if self._config.own_recovery_point:
                await self._store_recovery_point(offset)
            self._checkpointed_end = offset

    def _forget_memory(self, end_offset: Offset) -> None:
        self._generation += 1
        self._tail.clear()
        self.end_offset = end_offset
        self._durable_end = end_offset

    async def _remove_segments(self, keep: int) -> None:
        """Newest first, so that a crash leaves no hole."""
        if len(self._segments) == keep:
            return
        while len(self._segments) > keep:
            self._segments.pop().remove()
        if self._segments:
            self._active = self._segments[-1]
        await self._disk.sync_folder(self._folder)
        self._folder_synced = self._folder_writes

    async def advance_log_start(self, offset: Offset) -> int:
        """Move the log start up to `offset` and remove the segments that end at or below it; how many.
        Raises `OffsetOutOfRangeError` beyond the end."""
        self._check_writable()
        if offset > self.end_offset:
            self._check_range(offset)
        if offset <= self.log_start_offset:
            return 0
        self.log_start_offset = offset
        self.high_watermark = max(self.high_watermark, offset)
        self._epochs.trim_start(offset)
        removed = 0
        async with self._maintenance:
            try:
                while len(self._segments) > 1 and self._segments[1].base_offset <= offset:
                    self._segments.pop(0).remove()
                    # One by one: removals that are made durable out of order would leave a hole.
                    await self._disk.sync_folder(self._folder)
                    removed += 1
                await self._epochs.store(self._disk, self._folder)
            except DiskError as error:
                self._failure = error
                raise
        return removed

    async def delete_old_segments(
        self, *, retention_bytes: int | None, retention_ms: int | None, high_watermark: Offset
    ) -> int:
        """Retention, for partitions only: remove the oldest segments while the log without them is still at
        least `retention_bytes`, or while their newest record is older than `retention_ms`; never
        above the high watermark, never the active one. How many were removed."""
        size, now = self.size_bytes, self._now_ms()
        start = self.log_start_offset
        for segment, following in pairwise(self._segments):
            size -= segment.size
            too_large = retention_bytes is not None and size >= retention_bytes
            too_old = retention_ms is not None and now - segment.max_timestamp > retention_ms
            if following.base_offset > high_watermark or not (too_large or too_old):
                break
            start = Offset(following.base_offset)
        return await self.advance_log_start(start)


def _base_of(segment: Segment) -> Offset:
    return Offset(segment.base_offset)


def _partition_of(folder: str) -> TopicPartition:
    name = folder.rpartition("/")[2]
    topic, _, partition = name.rpartition("-")
    return (topic, int(partition)) if topic and partition.isdecimal() else (name, 0)


async def _own_recovery_point(disk: Disk, folder: str, log_start_offset: Offset) -> Offset:
    path = f"{folder}/{RECOVERY_POINTS}"
    if not disk.exists(path):
        # Written before the first segment is, so that a missing one is damage.
        if segment_bases(disk, folder):
            raise DamagedLogError(path, 0, "the log's recovery point is missing")
        await store_offsets(disk, path, {_partition_of(folder): log_start_offset})
    offsets = load_offsets(disk, path)
    if _partition_of(folder) not in offsets:
        raise DamagedLogError(path, 0, f"it has no entry for {_partition_of(folder)}")
    return offsets[_partition_of(folder)]
