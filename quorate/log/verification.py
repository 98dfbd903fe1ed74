"""Verification of what a log holds, beside its use: segment by segment, from the device."""

from quorate.log.log_errors import DamagedLogError
from quorate.log.open_log import OpenLog, base_of
from quorate.log.segments import Pace, Segment, SegmentCheck, SegmentFindings, read_cold
from quorate.runtime import DescriptorsExhaustedError, DiskError
from quorate.types import Offset


class Verification(OpenLog):
    """Changes nothing but index files that are wrong."""

    def bases(self, *, closed: bool = True) -> list[Offset]:
        """The base offsets of the segments, in ascending order. `closed`: without the one that is appended
        to."""
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
