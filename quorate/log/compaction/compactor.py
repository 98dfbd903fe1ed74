"""One compaction of one log: first it notes all keys of the dirty part, then it copies the batches that
stay."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final, TypeAlias

import trio

from quorate.log.batches.batch import BatchHeader
from quorate.log.compaction.batch_filter import (
    RECORDS_PER_STEP,
    BatchFilter,
    Fate,
    has_keys,
    records_in,
)
from quorate.log.compaction.cleaned_writer import CleanedWriter
from quorate.log.compaction.offset_map import OffsetMap
from quorate.log.compaction.record_keys import KeyWalk, UnreadableRecordsError
from quorate.log.compaction.terms import (
    CompactionBounds,
    CompactionResult,
    CompactionRules,
    LastSequences,
    OffsetMapTooSmallError,
    Pace,
)
from quorate.log.log import Log
from quorate.log.log_errors import CompactionAbandonedError, DamagedLogError, LogError
from quorate.log.segments.batch_reader import BatchReader
from quorate.log.segments.cold_reads import read_cold
from quorate.log.segments.segment import Segment
from quorate.runtime import Compute, DiskError, Slices, in_slices
from quorate.types import Offset

_Span: TypeAlias = tuple[Segment, int]
"""A segment and its end offset."""
_OFFSETS_MAX: Final = 2**31 - 1
"""The most offsets of one segment, because the indexes count in int32."""
_PACE_BYTES: Final = 256 * 1024


async def compact(
    log: Log,
    bounds: CompactionBounds,
    rules: CompactionRules,
    pace: Pace,
    last: LastSequences,
    compute: Compute,
) -> CompactionResult:
    """Compact `log` from its first segment up to `bounds.end`, while it is read and appended to.

    Segments are replaced group by group, oldest first; each swap is whole, also after a crash. One compaction
    of a log at a time. If cancelled, what is not replaced yet is as it was.

    Raises `CompactionAbandonedError` if the log was cut, closed or moved meanwhile, `DamagedLogError` for a
    batch that can't be read, which it names, `OffsetMapTooSmallError`, `DiskError`. The group at fault is
    then as it was.
    """
    if log.config.own_recovery_point:
        raise LogError(f"{log.folder}: a metadata log is never compacted by keys")
    run = _Compaction(log, bounds, rules, pace, last, compute)
    try:
        return await run.run()
    finally:
        with trio.CancelScope(shield=True):
            await in_slices(run.offsets.free())


class _Compaction:
    """Mutable; one use."""

    def __init__(
        self,
        log: Log,
        bounds: CompactionBounds,
        rules: CompactionRules,
        pace: Pace,
        last: LastSequences,
        compute: Compute,
    ) -> None:
        self._log = log
        self._rules = rules
        self._pace = pace
        self._compute = compute
        self._last = last
        self._end = min(bounds.end, log.active_base_offset)
        self._start = max(log.first_base_offset, min(bounds.dirty_start, self._end))
        dirty = (one.base_offset for one, end in log.closed_spans() if end > self._start)
        self.offsets = OffsetMap(
            map_bytes=rules.map_bytes, keys_max=max(0, self._end - next(dirty, self._end))
        )
        self._slices = Slices()
        self._cleaned_to = int(self._start)
        self._map_full = False
        self._bytes_before = 0
        self._bytes_after = 0

    async def run(self) -> CompactionResult:
        for segment, end in self._log.closed_spans():
            if end > self._start and segment.base_offset < self._end and not self._map_full:
                await self._note_keys(segment)
        batches = BatchFilter(
            self.offsets, self._cleaned_to, self._rules, self._last, self._compute, self._slices
        )
        for group in list(_groups(self._log, self._cleaned_to)):
            await self._replace(group, batches)
        counts = batches.counts
        return CompactionResult(
            cleaned_to=Offset(self._cleaned_to),
            map_full=self._map_full,
            bytes_before=self._bytes_before,
            bytes_after=self._bytes_after,
            records_before=counts.records_before,
            records_after=counts.records_after,
            tombstones_kept=counts.tombstones_kept,
            tombstones_dropped=counts.tombstones_dropped,
            next_horizon_ms=counts.next_horizon_ms,
        )

    # The keys

    async def _note_keys(self, segment: Segment) -> None:
        """Note the keys of the batches between start and end, as long as there is room."""
        with _as_abandoned(self._log, (segment,)):
            spot = await read_cold(segment.find(self._start))
            reader = BatchReader(segment, segment.size if spot is None else spot.position, segment.size)
            read = 0
            while (header := await _next_header(reader, segment)) is not None:
                if header.end_offset > self._end:
                    return
                if has_keys(header) and not await self._note_batch(header, reader, segment):
                    self._map_full = True
                    return
                self._cleaned_to = header.end_offset
                read += header.size
                if read >= _PACE_BYTES:
                    await self._pace.moved(read, 0)
                    read = 0
            await self._pace.moved(read, 0)

    async def _note_batch(self, header: BatchHeader, reader: BatchReader, segment: Segment) -> bool:
        """Note the keys of a batch. Returns whether there was room for all of them."""
        if header.count <= self.offsets.room:
            try:
                data = await records_in(
                    header, reader.batch, self._compute, most_bytes=self._rules.uncompressed_max_bytes
                )
                if await self._put_keys(header, KeyWalk(data, header.count)):
                    return True
            except UnreadableRecordsError as error:
                raise DamagedLogError(segment.path, reader.position, str(error)) from error
        if self._cleaned_to == self._start:
            raise OffsetMapTooSmallError(
                self._log.folder,
                offset=header.base_offset,
                records=header.count,
                map_bytes=self._rules.map_bytes,
            )
        return False

    async def _put_keys(self, header: BatchHeader, walk: KeyWalk) -> bool:
        put, base = self.offsets.put, header.base_offset
        while walk.left:
            for record in walk.next(RECORDS_PER_STEP):
                if record.key is not None and not put(record.key, base + record.offset_delta):
                    # The noted keys of this batch do no harm: they do have these later records.
                    return False
            await self._slices.pause()
        return True

    # The copy

    async def _replace(self, spans: Sequence[_Span], batches: BatchFilter) -> None:
        log, sources = self._log, [segment for segment, _ in spans]
        if not log.holds(sources):
            raise CompactionAbandonedError(log.folder)
        before = after = sum(source.size for source in sources)
        with _as_abandoned(log, sources):
            cleaned = log.cleaned_segment(sources[0].base_offset)
        try:
            with _as_abandoned(log, sources):
                writer = CleanedWriter(cleaned, self._pace)
                for source, end in spans:
                    await self._copy(source, end, writer, batches)
                await writer.finish()
            if len(sources) > 1 or writer.changed:
                after = cleaned.size
                await log.replace_segments(sources, cleaned)
        finally:
            log.discard(cleaned)
        self._bytes_before += before
        self._bytes_after += after

    async def _copy(self, source: Segment, end: int, writer: CleanedWriter, batches: BatchFilter) -> None:
        reader = BatchReader(source, 0, source.size)
        expected = source.base_offset
        while (header := await _next_header(reader, source)) is not None:
            if header.base_offset != expected:
                problem = f"offset {header.base_offset} where {expected} was expected"
                raise DamagedLogError(source.path, reader.position, problem)
            expected, batch = header.end_offset, reader.batch
            try:
                fate = await batches.filter(header, batch)
            except UnreadableRecordsError as error:
                raise DamagedLogError(source.path, reader.position, str(error)) from error
            if fate is Fate.STAYS:
                writer.add(header, batch)
            elif fate is Fate.EMPTIED:
                writer.add_emptied(header, batch)
            else:
                writer.add_changed(fate)
            await writer.note_read(header.size)
        if expected != end:
            problem = f"it ends at offset {expected}, and the next segment begins at {end}"
            raise DamagedLogError(source.path, reader.end, problem)


def _groups(log: Log, below: int) -> Iterator[Sequence[_Span]]:
    """Yield the closed segments that begin below that offset, in groups that fit one segment."""
    config = log.config
    group: list[_Span] = []
    size = entries = 0
    for segment, end in log.closed_spans():
        if segment.base_offset >= below:
            break
        if group and (
            size + segment.size > config.segment_bytes
            or entries + segment.indexes.size_bytes > config.segment_index_bytes
            or end - group[0][0].base_offset > _OFFSETS_MAX
        ):
            yield group
            group, size, entries = [], 0, 0
        group.append((segment, end))
        size += segment.size
        entries += segment.indexes.size_bytes
    if group:
        yield group


async def _next_header(reader: BatchReader, segment: Segment) -> BatchHeader | None:
    """Return the next header. Raises `DamagedLogError`."""
    header = await reader.next()
    if isinstance(header, str):
        raise DamagedLogError(segment.path, reader.position, header)
    return header


@contextmanager
def _as_abandoned(log: Log, segments: Sequence[Segment]) -> Iterator[None]:
    """Turn an error into `CompactionAbandonedError` if the log does not have these segments any more."""
    try:
        yield
    except (DiskError, FileNotFoundError, DamagedLogError) as error:
        if log.holds(segments):
            raise
        raise CompactionAbandonedError(log.folder) from error
