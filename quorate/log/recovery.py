"""Recovery: the changes that opening a log makes to its files.

Below the recovery point everything was durable once: what can't be read there is damage, and an error.
Above it, anything may be missing, torn or out of order after a power loss: batches are kept up to the first
bad one, and the rest is cut. The kept batches may be in the page cache only (a process may have died after a
sync that failed), so they are written again and synced before the log is used.

Zeros to the end of a file are room that was reserved for appends (`LogConfig.reserve_bytes`): they are cut
off without a word. No batch is zeros: each has a length and a magic.

Without a power loss only the end of an append that a kill tore is missing. If the partition counts on such a
log, a start that would make it shorter is an error (`IncompleteLogError`): a replica that led with fewer
records than it acknowledged would make the others cut theirs.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from quorate.log.epoch_cache import EpochCache, load_epochs
from quorate.log.log_config import LogConfig
from quorate.log.log_errors import DamagedLogError, IncompleteLogError
from quorate.log.segments.batch_reader import BatchReader
from quorate.log.segments.cold_reads import read_cold
from quorate.log.segments.segment import CLEANED, DELETED, LOG_SUFFIX, Segment
from quorate.log.segments.segment_files import bases_among, finish_swaps
from quorate.log.segments.segment_indexes import INDEX_SUFFIX, TIME_INDEX_SUFFIX
from quorate.log.segments.torn_append import is_torn_append
from quorate.log.segments.walk import HeaderWalk, Steps
from quorate.runtime import Disk, Slices, get_logger
from quorate.types import EpochStart, Offset

log = get_logger(__name__)

_CHUNK_BYTES = 1024 * 1024
_LEFTOVERS = (".tmp", CLEANED, DELETED)
_ALL = 2**63 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveryReport:
    """The result of opening a log, above its recovery point."""

    cut_bytes: int = 0
    """The size of the torn tails, up to the last byte that is not zero."""
    cut_segments: int = 0
    """Whole segments removed, which `cut_bytes` includes."""
    rewritten_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveredFiles:
    segments: list[Segment]
    epochs: EpochCache
    end_offset: Offset
    report: RecoveryReport


async def recover(
    disk: Disk,
    folder: str,
    config: LogConfig,
    *,
    recovery_point: int,
    clean_shutdown: bool,
    complete_to: int | None,
    log_start_offset: int | None,
) -> RecoveredFiles:
    """Recover the files of a log. The rest of the log is durable when it returns. `complete_to`: see
    `Log.open`. Raises
    `DamagedLogError` or `DiskError`."""
    trusted_end_offset = _ALL if clean_shutdown else recovery_point
    recovery = _Recovery(disk, folder, config, trusted_end_offset, complete_to)
    try:
        return await recovery.run(recovery_point=recovery_point, log_start_offset=log_start_offset)
    except BaseException:
        for segment in recovery.segments:
            segment.close()
        raise


class _Recovery:
    def __init__(
        self,
        disk: Disk,
        folder: str,
        config: LogConfig,
        trusted_end_offset: int,
        complete_to: int | None,
    ) -> None:
        self._disk = disk
        self._folder = folder
        self._config = config
        self._trusted_end_offset = trusted_end_offset
        """The exclusive end of the part in which damage is an error."""
        self._complete_to = complete_to
        self.segments: list[Segment] = []
        self._epochs = EpochCache()
        self._end_offset = 0
        self._cut_bytes = 0
        self._cut_segments = 0
        self._rewritten_bytes = 0

    async def run(self, *, recovery_point: int, log_start_offset: int | None) -> RecoveredFiles:
        names = await finish_swaps(self._disk, self._folder, self._config)
        self._remove_leftovers(names)
        bases = bases_among(names)
        if not bases:
            start = log_start_offset or 0
            if recovery_point > start:
                raise DamagedLogError(
                    self._folder,
                    0,
                    f"no segments, although the log was durable up to offset {recovery_point}",
                )
            self._check_complete(start)
            self.segments.append(Segment(self._disk, self._folder, start, self._config, create=True))
            self._end_offset = start
            await self._disk.sync_folder(self._folder)
            return self._result()
        if log_start_offset is not None and bases[0] > log_start_offset:
            raise DamagedLogError(
                f"{self._folder}/{bases[0]:020}{LOG_SUFFIX}",
                0,
                f"the log starts at offset {log_start_offset}, but the records before {bases[0]} are missing",
            )
        loaded = load_epochs(self._disk, self._folder)
        await self._recover_segments(bases)
        self._check_complete(self._end_offset)
        await self._rebuild_epochs(loaded)
        return self._result()

    def _check_complete(self, end_offset: int) -> None:
        """Check `complete_to`, the only sign that whole batches are missing at the end of a file."""
        if self._complete_to is not None and end_offset < self._complete_to:
            raise IncompleteLogError(
                self._folder,
                0,
                f"the log ends at offset {end_offset}, although it had all records below {self._complete_to}",
            )

    def _result(self) -> RecoveredFiles:
        return RecoveredFiles(
            segments=self.segments,
            epochs=self._epochs,
            end_offset=Offset(self._end_offset),
            report=RecoveryReport(
                cut_bytes=self._cut_bytes,
                cut_segments=self._cut_segments,
                rewritten_bytes=self._rewritten_bytes,
            ),
        )

    def _remove_leftovers(self, names: Sequence[str]) -> None:
        present = set(names)
        for name in names:
            stem, _, suffix = name.rpartition(".")
            orphan = f".{suffix}" in (INDEX_SUFFIX, TIME_INDEX_SUFFIX) and stem + LOG_SUFFIX not in present
            if orphan or name.endswith(_LEFTOVERS):
                self._disk.remove(f"{self._folder}/{name}")

    async def _recover_segments(self, bases: list[int]) -> None:
        self._end_offset = bases[0]
        problem: str | None = None
        for number, base in enumerate(bases):
            segment = Segment(self._disk, self._folder, base, self._config)
            self.segments.append(segment)
            if base != self._end_offset:
                problem = f"it starts at offset {base}, the one before ends at {self._end_offset}"
                if self._end_offset < self._trusted_end_offset:
                    raise DamagedLogError(segment.path, 0, problem)
                if self._complete_to is not None:
                    raise IncompleteLogError(segment.path, 0, problem)
                await self._cut_from(number, bases, problem)
                return
            next_base = bases[number + 1] if number + 1 < len(bases) else None
            if (
                next_base is not None and next_base <= self._trusted_end_offset
            ) or self._trusted_end_offset == _ALL:
                await self._check_trusted(segment, is_last=next_base is None)
                continue
            problem = await self._check_untrusted(segment, is_last=next_base is None)
            if problem is not None:
                await self._cut_from(number + 1, bases, problem)
                return
        await self._disk.sync_folder(self._folder)

    async def _check_trusted(self, segment: Segment, *, is_last: bool) -> None:
        """Check a segment that lies below the recovery point as a whole."""
        if self._config.own_recovery_point:
            await self._verify_durable(segment, may_end_in_zeros=not is_last)
        await read_cold(segment.load_indexes(_ALL))
        try:
            last = await read_cold(segment.index_up_to())
        except DamagedLogError as error:
            # The roll cut the reserve off, which may not have become durable, even if a later start saw it
            # done. What else is missing shows in the next segment's base offset.
            if is_last or await self._written_end(segment, error.position) != error.position:
                raise
            segment.cut(error.position, _ALL)
            await segment.file.sync()
            last = await read_cold(segment.catch_up_indexes())
        segment.indexes.add_max()
        segment.indexes.save()
        await segment.indexes.sync_times()
        if last is not None:
            self._end_offset = last.end_offset
        elif segment.size:
            raise DamagedLogError(segment.path, 0, "no batch can be found")

    async def _check_untrusted(self, segment: Segment, *, is_last: bool) -> str | None:
        """Check a segment with or above the recovery point, and cut it at the first bad batch. Returns the
        problem there."""
        start = await self._verify_durable(segment) if self._config.own_recovery_point else None
        await read_cold(segment.load_indexes(self._trusted_end_offset))
        if start is None:
            start = await read_cold(self._position_of_recovery_point(segment))
        if self._end_offset < self._trusted_end_offset:
            raise DamagedLogError(
                segment.path,
                segment.size,
                f"the log ends at offset {self._end_offset}, although it was durable up to "
                f"{self._trusted_end_offset}",
            )
        segment.indexes.cut(start, self._end_offset)
        if start:
            await read_cold(segment.index_up_to(start))
        end, problem = await self._keep_whole(segment, start)
        lost = await self._written_end(segment, end) - end
        reserved = not lost and self._config.reserve_bytes > 0
        if self._complete_to is not None and problem is not None and not reserved:
            short = self._end_offset < self._complete_to
            if short or not is_last or not await is_torn_append(segment, end):
                raise IncompleteLogError(segment.path, end, problem)
        if not lost:
            problem = None
            if end < segment.size:
                segment.cut(end, self._end_offset)
        if problem is not None:
            self._cut_bytes += lost
            log.warning(
                "cut the torn end of a log",
                path=segment.path,
                position=end,
                bytes=lost,
                end_offset=self._end_offset,
                problem=problem,
            )
            segment.cut(end, self._end_offset)
        await self._rewrite(segment, start, end)
        segment.indexes.add_max()
        segment.indexes.save()
        await segment.indexes.sync_times()
        return problem

    async def _written_end(self, segment: Segment, start: int) -> int:
        """Return the end of the bytes at or after `start` that are not zero, or `start` if all are reserved
        space."""
        written = position = start
        slices = Slices()
        while position < segment.size:
            data = await segment.file.read(position, _CHUNK_BYTES)
            # One comparison of memory: a reserve is long, and nearly all of it is zeros.
            kept = 0 if data == bytes(len(data)) else len(data.rstrip(b"\0"))
            written = position + kept if kept else written
            position += len(data)
            await slices.pause()
        return written

    def _position_of_recovery_point(self, segment: Segment) -> Steps[int]:
        """Find the recovery point by the headers. Sets the end offset, which is lower if the segment ends
        before."""
        wanted = self._trusted_end_offset
        if wanted <= segment.base_offset:
            return 0
        position = segment.indexed_position(wanted)
        expected = segment.base_offset if position == 0 else None
        walk = HeaderWalk(segment.file, position, segment.size)
        while (spot := (yield from walk.next())) is not None:
            # A compaction may have put one bare header in the place of batches on both sides, which were
            # durable before it did.
            spans = spot.end_offset > wanted and spot.count
            if spans or expected not in (None, spot.base_offset):
                raise self._misplaced_error(segment, spot.position, spot.base_offset, spot.end_offset)
            position = spot.position + spot.size
            self._end_offset = expected = spot.end_offset
            if expected >= wanted:
                break
        return position

    async def _verify_durable(self, segment: Segment, *, may_end_in_zeros: bool = False) -> int:
        """Check every batch below the recovery point, and return the position of its end. Sets the end
        offset."""
        reader = BatchReader(segment, 0, segment.size)
        epoch = 0
        while self._end_offset < self._trusted_end_offset and (header := await reader.next()) is not None:
            if isinstance(header, str):
                if may_end_in_zeros and await self._written_end(segment, reader.end) == reader.end:
                    break
                raise DamagedLogError(segment.path, reader.position, header)
            if header.base_offset != self._end_offset or header.end_offset > self._trusted_end_offset:
                raise self._misplaced_error(segment, reader.position, header.base_offset, header.end_offset)
            if header.leader_epoch < epoch:
                raise DamagedLogError(
                    segment.path, reader.position, f"epoch {header.leader_epoch} after epoch {epoch}"
                )
            self._end_offset, epoch = header.end_offset, header.leader_epoch
            segment.indexes.max_timestamp = max(segment.indexes.max_timestamp, header.max_timestamp)
        return reader.end

    def _misplaced_error(self, segment: Segment, position: int, base: int, end: int) -> DamagedLogError:
        return DamagedLogError(
            segment.path,
            position,
            f"a batch with offsets [{base}, {end}) after offset {self._end_offset}; the log was durable "
            f"up to {self._trusted_end_offset}",
        )

    async def _keep_whole(self, segment: Segment, start: int) -> tuple[int, str | None]:
        """Keep the whole batches from `start` on. Returns their end, and the problem there."""
        reader = BatchReader(segment, start, segment.size)
        epoch = 0
        while (header := await reader.next()) is not None:
            if isinstance(header, str):
                return reader.position, header
            if header.base_offset != self._end_offset:
                problem = f"offset {header.base_offset} where {self._end_offset} was expected"
                return reader.position, problem
            if header.leader_epoch < epoch:
                return reader.position, f"epoch {header.leader_epoch} after epoch {epoch}"
            epoch = header.leader_epoch
            segment.indexes.note_batch(
                position=reader.position,
                last_offset=header.end_offset - 1,
                first_timestamp=header.first_timestamp,
                max_timestamp=header.max_timestamp,
            )
            self._end_offset = header.end_offset
        return segment.size, None

    async def _rewrite(self, segment: Segment, start: int, end: int) -> None:
        position = start
        slices = Slices()
        while position < end:
            data = await segment.file.read(position, min(_CHUNK_BYTES, end - position))
            segment.file.write_at(position, data)
            position += len(data)
            await slices.pause()
        self._rewritten_bytes += end - start
        await segment.file.sync()

    async def _cut_from(self, number: int, bases: list[int], problem: str) -> None:
        """Remove the segments from `number` on, newest first."""
        for base in reversed(bases[number:]):
            opened = next((segment for segment in self.segments if segment.base_offset == base), None)
            segment = opened or Segment(self._disk, self._folder, base, self._config)
            written = await self._written_end(segment, 0)
            log.warning(
                "removed a segment behind the end of a log",
                path=segment.path,
                bytes=written,
                end_offset=self._end_offset,
                problem=problem,
            )
            self._cut_bytes += written
            self._cut_segments += 1
            segment.remove()
            if opened is not None:
                self.segments.remove(opened)
        await self._disk.sync_folder(self._folder)

    async def _rebuild_epochs(self, loaded: list[EpochStart] | None) -> None:
        """Take the epochs below the recovery point from the checkpoint file, the others from the batches."""
        trusted_end_offset = min(self._trusted_end_offset, self._end_offset)
        if self._config.own_recovery_point:
            loaded = None
        kept = [entry for entry in loaded or () if entry.start_offset < trusted_end_offset]
        self._epochs = EpochCache(kept)
        if loaded is None or len(kept) != len(loaded):
            self._epochs.dirty = True
        for segment in self.segments:
            start = 0
            if loaded is not None:
                if segment is not self.segments[-1] and self._segment_end(segment) <= trusted_end_offset:
                    continue
                spot = await read_cold(segment.find(trusted_end_offset))
                if spot is None:
                    continue
                start = spot.position
            await read_cold(self._note_epochs(segment, start))

    def _note_epochs(self, segment: Segment, start: int) -> Steps[None]:
        walk = HeaderWalk(segment.file, start, segment.size)
        while (spot := (yield from walk.next())) is not None:
            self._epochs.assign(spot.epoch, spot.base_offset)

    def _segment_end(self, segment: Segment) -> int:
        index = self.segments.index(segment)
        return self.segments[index + 1].base_offset
