"""Batches out of a log, as they are."""

from bisect import bisect_right
from dataclasses import dataclass

from quorate.log.batches.batch import Batch, read_header
from quorate.log.batches.control import voters_in
from quorate.log.log_errors import DamagedLogError, InvalidBatchError
from quorate.log.open_log import OpenLog, base_of
from quorate.log.segments.cold_reads import read_cold
from quorate.log.segments.segment import Segment
from quorate.log.segments.segment_check import Pace, SegmentCheck, SegmentFindings
from quorate.log.segments.walk import HeaderWalk, ReadRequest, Steps, read_now
from quorate.runtime import DescriptorsExhaustedError, DiskError, File
from quorate.types import Offset, VotersAt

_NO_LIMIT = 2**63 - 1


@dataclass(frozen=True, slots=True)
class FileSlice:
    """A range of whole batches in a file, for a copy by the operating system. It is valid until the next
    truncation or compaction, or until the log start moves."""

    file: File
    position: int
    size: int


class Reads(OpenLog):
    """Reads from memory if the tail reaches back far enough, else from the files."""

    def read_tail(
        self, offset: int, max_bytes: int, *, end_offset: int | None = None, min_one_batch: bool = True
    ) -> bytes | None:
        """Do the same as `read`, from memory alone. None: the memory does not reach back far enough."""
        if offset >= self.end_offset or offset < self.log_start_offset:
            self._check_range(offset)
            return b""
        return self._tail.read(
            offset, max_bytes, _NO_LIMIT if end_offset is None else end_offset, min_one_batch
        )

    async def read(
        self, offset: int, max_bytes: int, *, end_offset: int | None = None, min_one_batch: bool = True
    ) -> bytes:
        """Whole batches from the one that holds `offset` on, undecoded and unchecked; empty at the end.

        `end_offset`: an end offset (exclusive) that none of them passes, such as the high watermark.
        `min_one_batch`: the first may be larger than `max_bytes`. Raises `OffsetOutOfRangeError`. No
        checkpoint if it needn't wait for the disk.
        """
        while True:
            records = self.read_tail(offset, max_bytes, end_offset=end_offset, min_one_batch=min_one_batch)
            if records is not None:
                return records
            layout = self._layout
            try:
                found = await read_cold(self._locate(offset, max_bytes, end_offset, min_one_batch))
                records = b"" if found is None else await found.file.read(found.position, found.size)
            except (DiskError, DamagedLogError):
                if layout == self._layout and offset >= self.log_start_offset:
                    raise
                continue
            # Otherwise the log was truncated or compacted under the walk or the read.
            if layout == self._layout:
                return records

    def slice_of(
        self, offset: int, max_bytes: int, *, end_offset: int | None = None, min_one_batch: bool = True
    ) -> FileSlice | None:
        """Return the range that `read` would read, within one segment. None: it would return nothing. It may
        read a few pages of the file, and so wait for the device, which `read` does not."""
        return read_now(self._locate(offset, max_bytes, end_offset, min_one_batch))

    def _locate(
        self, offset: int, max_bytes: int, end_offset: int | None, min_one_batch: bool
    ) -> Steps[FileSlice | None]:
        self._check_range(offset)
        end_offset = self.end_offset if end_offset is None else min(end_offset, self.end_offset)
        if offset >= end_offset:
            return None
        index = bisect_right(self._segments, offset, key=base_of) - 1
        for segment in self._segments[index:]:
            spot = yield from segment.find(offset)
            if spot is None:
                continue
            if spot.end_offset > end_offset:
                return None
            if spot.size > max_bytes:
                return FileSlice(segment.file, spot.position, spot.size) if min_one_batch else None
            end = yield from segment.extent(spot, max_bytes=max_bytes, end_offset=end_offset)
            return FileSlice(segment.file, spot.position, end - spot.position)
        raise DamagedLogError(
            self._segments[index].path, self._segments[index].size, f"offset {offset} is missing"
        )

    async def voter_sets(self, from_offset: int) -> list[VotersAt]:
        """The voter sets in the batches from the one that holds `from_offset` on, in order (KIP-853). Reads
        headers, and whole batches only of control records: for a start. Raises `OffsetOutOfRangeError`,
        `DamagedLogError`, `DiskError`."""
        self._check_range(from_offset)
        found: list[VotersAt] = []
        index = bisect_right(self._segments, from_offset, key=base_of) - 1
        for segment in self._segments[index:]:
            found += await read_cold(_voter_sets(segment, from_offset))
        return found

    def max_timestamp(self) -> int | None:
        """Return the newest timestamp (ms) of any record. None: the log is empty."""
        newest = max((segment.max_timestamp for segment in self._segments), default=-1)
        return None if newest < 0 else newest

    async def offset_for_timestamp(self, timestamp: int, *, from_offset: int = 0) -> Offset | None:
        """The base offset of the first batch that ends above the log start and `from_offset` and has a record
        at or after `timestamp` (ms), by what its header says; None if there is none. At least the log start
        and `from_offset`, which may be inside of the batch.

        Skips segments by their largest timestamps, and asks the index by time for a place to walk from.
        Raises `DamagedLogError`, `DiskError`.
        """
        while True:
            layout = self._layout
            start = max(from_offset, self.log_start_offset)
            spot = None
            first = max(bisect_right(self._segments, start, key=base_of) - 1, 0)
            for segment in self._segments[first:]:
                if segment.max_timestamp < timestamp:
                    continue
                try:
                    spot = await read_cold(segment.find_timestamp(timestamp, start))
                except (DiskError, DamagedLogError):
                    if layout == self._layout and segment in self._segments:
                        raise
                    break
                if spot is not None:
                    break
            else:
                if layout == self._layout:
                    return None
            # Otherwise the log was cut under the walk, at one end or the other, or compacted.
            if spot is not None and layout == self._layout and spot.end_offset > self.log_start_offset:
                return Offset(max(spot.base_offset, start, self.log_start_offset))

    # The scrub, which changes only index files that are wrong

    def bases(self, *, closed: bool = True) -> list[Offset]:
        """Return the base offsets of the segments, in ascending order. `closed`: without the active one."""
        return [base_of(each) for each in self._segments if not closed or each is not self._active]

    async def verify_segment(self, base_offset: Offset, *, pace: Pace) -> SegmentFindings | None:
        """Read a segment as far as it goes now, and check every batch and both indexes. None: it is no longer
        there, or was cut meanwhile. Raises `DiskError`, for files that can't be opened or written."""
        segment = self._segment_with(base_offset)
        if segment is None or self._failure is not None:
            return None
        end_offset = self.end_offset
        if segment is not self._active:
            end_offset = base_of(self._segments[self._segments.index(segment) + 1])
        generation = self._generation
        check = SegmentCheck(
            segment, size=segment.size, end_offset=end_offset, epoch_at=self._epochs.epoch_at, pace=pace
        )
        try:
            findings = await check.run()
            if self._is_changed(segment, generation):
                return None
            segment.damaged = tuple(findings.parts)
            if not findings.damaged:
                await read_cold(segment.mend_index_files(findings.wrong_index))
        except DescriptorsExhaustedError:
            raise
        except (DiskError, DamagedLogError):
            if self._is_changed(segment, generation):
                return None
            raise
        return findings

    def _segment_with(self, base_offset: Offset) -> Segment | None:
        return next((each for each in self._segments if each.base_offset == base_offset), None)

    def _is_changed(self, segment: Segment, generation: int) -> bool:
        return self._failure is not None or generation != self._generation or segment not in self._segments


def _voter_sets(segment: Segment, from_offset: int) -> Steps[list[VotersAt]]:
    found: list[VotersAt] = []
    spot = yield from segment.find(from_offset)
    walk = HeaderWalk(segment.file, segment.size if spot is None else spot.position, segment.size)
    while (spot := (yield from walk.next())) is not None:
        if spot.is_control:
            data = yield ReadRequest(segment.file, spot.position, spot.size)
            try:
                voters = voters_in(Batch(read_header(data), memoryview(data)))
            except InvalidBatchError as error:
                raise DamagedLogError(segment.path, spot.position, error.problem) from error
            if voters is not None:
                found.append(voters)
    return found
