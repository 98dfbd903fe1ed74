"""Removal of records from a log: truncation at its end, retention at its start, compaction between them."""

from bisect import bisect_right
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from itertools import pairwise

import trio

from quorate.invariant import invariant
from quorate.log.durability import Durability
from quorate.log.log_errors import CompactionAbandonedError, LogError, OffsetOutOfRangeError
from quorate.log.open_log import base_of
from quorate.log.segments.cold_reads import read_cold
from quorate.log.segments.segment import CLEANED, DELETED, SWAP, Segment
from quorate.runtime import DescriptorsExhaustedError, DiskError
from quorate.types import EpochEnd, Offset


class Removals(Durability):
    """Removals. Only one runs at a time, and none beside a checkpoint."""

    async def truncate(self, end_offset: Offset) -> Offset:
        """Cut the log to `end_offset`, or to the start of the batch that holds it. Returns the new end
        offset.

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
        async with self._changing_log():
            if end_offset < self.end_offset:
                await self._cut_to(end_offset)
            self._epochs.truncate(min(end_offset, self.end_offset))
            await self._epochs.store(self._disk, self._folder)
        return self.end_offset

    async def _cut_to(self, end_offset: Offset) -> None:
        keep = max(bisect_right(self._segments, end_offset, key=base_of) - 1, 0)
        segment = self._segments[keep]
        spot = await read_cold(segment.find(end_offset))
        end = Offset(segment.base_offset if spot is None and not segment.size else end_offset)
        if spot is not None:
            end = Offset(min(end_offset, spot.base_offset))
        invariant(
            segment.base_offset <= end <= self.end_offset,
            "a cut ends outside of the segment that it keeps",
            base=segment.base_offset,
            end=end,
        )
        await self._lower_recovery_point(end)
        self._forget_memory(end)
        await self._remove_segments(keep + 1)
        if spot is not None:
            segment.cut(spot.position, end)
            await read_cold(segment.catch_up_indexes())
            segment.indexes.add_max()
            segment.indexes.save()
        await segment.file.sync()
        segment.synced = segment.writes

    @asynccontextmanager
    async def _changing_log(self) -> AsyncIterator[None]:
        """Exclude appends and checkpoints. A failure or a cancellation halfway is final."""
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
        async with self._changing_log():
            await self._lower_recovery_point(Offset(0))
            self._forget_memory(offset)
            self.log_start_offset = self.high_watermark = offset
            await self._remove_segments(0)
            self._epochs.truncate(0)
            await self._epochs.store(self._disk, self._folder)
            self._active = Segment(self._disk, self._folder, offset, self._config, create=True)
            self._segments.append(self._active)
            await self._disk.sync_folder(self._folder)
            if self._config.own_recovery_point:
                await self._store_recovery_point(offset)
            self._recovery_point = offset
            self.durable_log_start_offset = offset

    async def reset(self, start: EpochEnd) -> None:
        """Drop everything, and begin anew at the end of a snapshot, `start`, whose last record is of
        `start.epoch`. The snapshot must be durable: after a crash halfway the log is opened as empty at its
        end (`open_metadata_log`). Durable when it returns; failures as for `truncate`."""
        await self.truncate_fully_and_start_at(start.end_offset)
        self._epochs.start_epoch = start.epoch

    async def _lower_recovery_point(self, offset: Offset) -> None:
        """Lower the recovery point before a cut: otherwise a crash halfway looks like damage."""
        if self._recovery_point > offset:
            if self._config.own_recovery_point:
                await self._store_recovery_point(offset)
            self._recovery_point = offset

    def _forget_memory(self, end_offset: Offset) -> None:
        self._generation += 1
        self._layout += 1
        self._tail.clear()
        self.end_offset = end_offset
        self._durable_end_offset = end_offset

    async def _remove_segments(self, keep: int) -> None:
        """Remove the segments behind the first `keep`, newest first, so that a crash leaves no hole."""
        if len(self._segments) == keep:
            return
        while len(self._segments) > keep:
            self._segments.pop().remove()
        if self._segments:
            self._active = self._segments[-1]
        await self._disk.sync_folder(self._folder)
        self._folder_synced = self._folder_writes

    async def advance_log_start(self, offset: Offset) -> int:
        """Move the log start up to `offset`, remove the segments that end at or below it, and return their
        number.

        The start moves at once. Raises as `raise_log_start` and `remove_below_log_start`.
        """
        moved = self.raise_log_start(offset)
        return await self.remove_below_log_start() if moved or self._first_segment_is_below_start() else 0

    def raise_log_start(self, offset: Offset) -> bool:
        """Move the log start up to `offset`, and return whether it was below. Nothing below can be read from
        then on.

        Where in the first segment the log starts is not in any file: a metadata log learns it from a durable
        snapshot that ends at `offset`, a partition's log from a checkpoint of its owner. Raises
        `OffsetOutOfRangeError` beyond the end.
        """
        self._check_writable()
        if offset > self.end_offset:
            self._check_range(offset)
        if offset <= self.log_start_offset:
            return False
        self._begin_at(offset, self._epochs.epoch_at(offset - 1) or self._epochs.start_epoch)
        return True

    async def remove_below_log_start(self) -> int:
        """Remove the segments that end at or below the log start, oldest first, and return their number. Each
        removal is durable before the next."""
        self._check_writable()
        removed = 0
        async with self._maintenance:
            try:
                while self._first_segment_is_below_start():
                    self._segments.pop(0).remove()
                    # One by one: removals that are made durable out of order would leave a hole.
                    await self._disk.sync_folder(self._folder)
                    removed += 1
                    self.durable_log_start_offset = max(self.durable_log_start_offset, self.first_base_offset)
                await self._epochs.store(self._disk, self._folder)
            except DiskError as error:
                self._failure = error
                raise
        return removed

    def _first_segment_is_below_start(self) -> bool:
        return len(self._segments) > 1 and self._segments[1].base_offset <= self.log_start_offset

    @property
    def active_base_offset(self) -> Offset:
        """The base offset of the segment that is appended to."""
        return base_of(self._active)

    def closed_spans(self) -> Sequence[tuple[Segment, Offset]]:
        """Return all segments but the active one, in order, each with its end offset (exclusive). For a
        compaction: the log stays their owner."""
        return [(one, base_of(following)) for one, following in pairwise(self._segments)]

    def holds(self, segments: Sequence[Segment]) -> bool:
        """Return whether the log is open and has all of these, closed ones."""
        return self._failure is None and set(map(id, segments)) <= set(map(id, self._segments[:-1]))

    def cleaned_segment(self, base_offset: int) -> Segment:
        """Begin a segment that is not the log's, for `replace_segments`; `discard` must follow in any case.
        Raises `DiskError`."""
        disk = self._disk.in_background()
        for name in disk.list(self._folder):
            if name.startswith(f"{base_offset:020}.") and name.endswith(CLEANED):
                disk.remove(f"{self._folder}/{name}")
        return Segment(disk, self._folder, base_offset, self._config, create=True, suffix=CLEANED)

    def discard(self, cleaned: Segment) -> None:
        """Remove the files of `cleaned_segment`, unless they are the log's by now, or the next start needs
        them."""
        if cleaned in self._segments:
            return
        cleaned.close()
        if cleaned.path.endswith(CLEANED):
            # If it can't be removed, the next compaction or the next start does it.
            with suppress(OSError):
                cleaned.remove()

    async def replace_segments(self, sources: Sequence[Segment], cleaned: Segment) -> None:
        """Put `cleaned`, whose batches and largest timestamp are durable, in the place of `sources`, which
        hold the same offsets. From the first folder sync on it counts, also after a crash; a cancellation
        waits for the end.

        Raises `CompactionAbandonedError` if the log no longer has all of `sources`, and is as it was.
        `DescriptorsExhaustedError`: it is as it was. Another `DiskError` is final: the log must be opened
        again.
        """
        async with self._maintenance:
            with trio.CancelScope(shield=True):
                await self._swap_in(sources, cleaned)

    async def _swap_in(self, sources: Sequence[Segment], cleaned: Segment) -> None:
        self._check_replaceable(sources)
        try:
            cleaned.rename(SWAP)
            await self._disk.sync_folder(self._folder)
        except DescriptorsExhaustedError:
            cleaned.rename(CLEANED)
            raise
        except DiskError as error:
            self._failure = error
            raise
        # If the log was closed meanwhile, its next start takes the new segment.
        self._check_replaceable(sources)
        first = self._segments.index(sources[0])
        self._segments[first : first + len(sources)] = [cleaned]
        self._layout += 1
        # Otherwise readers near the end would still get the removed records.
        self._tail.forget_below(self._segments[first + 1].base_offset)
        try:
            for source in sources:
                source.rename(DELETED)
            await self._disk.sync_folder(self._folder)
            self._check_writable()
            cleaned.rename("")
            await self._disk.sync_folder(self._folder)
            self._check_writable()
            for source in sources:
                source.remove()
        except DiskError as error:
            self._failure = self._failure or error
            raise
        finally:
            for source in sources:
                source.close()

    def _check_replaceable(self, sources: Sequence[Segment]) -> None:
        if not self.holds(sources):
            raise CompactionAbandonedError(self._folder)

    async def delete_old_segments(
        self, *, retention_bytes: int | None, retention_ms: int | None, high_watermark: Offset
    ) -> int:
        """Retention, for partitions only: remove the oldest segments while the log without them is still at
        least `retention_bytes`, or while their newest record is older than `retention_ms`; never
        above the high watermark, never the active one. Returns their number."""
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
