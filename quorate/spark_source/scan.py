"""Reading a stretch of the log into the rows of a view, as Arrow batches.

A view of records is divided by offsets. The state of entities, and their changes, depend on all that came
before: so they are divided by partitions. Every task reads the whole stretch, which is little work, and keeps
and shows only its share of the partitions.
"""

import os
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final
from uuid import UUID

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from quorate.history import BatchMark, Extent, LogUnavailableError, MetadataHistory
from quorate.log import DamagedSnapshotError
from quorate.quorum_state import SkippedBatches
from quorate.spark_source.changes.entities import Entity
from quorate.spark_source.changes.feed import ChangeFeed, feed_schema, state_rows, state_schema
from quorate.spark_source.changes.metadata_changes import MetadataChanges
from quorate.spark_source.chunks import Batches, Chunk, chunk_of, snapshot_chunks
from quorate.spark_source.filters import Filters
from quorate.spark_source.held_states import StateKey, held_states
from quorate.spark_source.source_options import SourceOptions, ViewName
from quorate.spark_source.spark_errors import DataLossError
from quorate.spark_source.views.decoded_view import DECODED, DecodedView
from quorate.spark_source.views.records_view import RECORDS, RecordsView
from quorate.spark_source.warnings_log import get_logger
from quorate.types import Epoch, Offset, SnapshotId

_OFFSETS_PER_TASK: Final = 50_000
"""Below, another task costs more than it saves."""

log = get_logger(__name__)


@dataclass
class LogRange(InputPartition):
    """A task's part: offsets [start, end), of the partitions of one `shard` of `shards`."""

    start: int
    end: int
    opening: SnapshotId | None = None
    """A snapshot that ends at `start`, whose state comes first, as rows."""
    restarts: bool = False
    """True: a row before says that what was known is void."""
    shard: int = 0
    shards: int = 1
    continues: bool = False
    """True: a range from `end` on is likely to be read next."""
    start_mark: BatchMark | None = None
    end_mark: BatchMark | None = None
    """The batches before `start` and before `end`, where it `continues`."""


@dataclass(frozen=True, slots=True)
class Beginning:
    """Where the log can be read from: its first record, or a snapshot in place of those before."""

    offset: int
    snapshot: SnapshotId | None


def schema_of(options: SourceOptions) -> pa.Schema:
    """The columns that the options ask for."""
    match options.view:
        case ViewName.RECORDS:
            return RECORDS
        case ViewName.DECODED:
            return DECODED
        case ViewName.CHANGES:
            return feed_schema(None)
    entity = Entity(options.view.entity)
    return state_schema(entity) if options.shows_state else feed_schema(entity)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scan:
    """A reading of the log for a query. Picklable, because the log is."""

    log: MetadataHistory
    options: SourceOptions
    filters: Filters = field(default_factory=Filters)

    def lost(self, problem: str, *, remedy: str | None = None) -> None:
        """Raise `DataLossError`, or log a warning if the options say so."""
        if self.options.fail_on_data_loss:
            raise DataLossError(f"{self.log.place}: {problem}", remedy=remedy)
        log.warning("%s: %s", self.log.place, problem)

    # Planning

    def beginning(self, log_start: int) -> Beginning:
        """Return where a reading begins that is to have everything. Raises `DataLossError`."""
        if not log_start:
            return Beginning(0, None)
        for stored in self.log.snapshots(log.warning):
            if stored.end_offset >= log_start:
                return Beginning(stored.end_offset, stored.snapshot)
        self.lost(
            f"the log begins at offset {log_start}, and the snapshot of what was before is gone",
            remedy="Read another node or the cluster, or set failOnDataLoss=false for what the log still has",
        )
        return Beginning(log_start, None)

    def reaches(self, offset: int, log_start: int) -> bool:
        """Return whether the log can be read on from `offset`. The state there needs a snapshot before it, if
        the log does not have its own beginning."""
        if offset < log_start or not log_start or not self._is_stateful:
            return offset >= log_start
        return any(log_start <= each.end_offset <= offset for each in self.log.snapshots(log.warning))

    def end_at(self, timestamp_ms: int, extent: Extent) -> int:
        """Return the end of the records before the first that is later than this time; 0 if there are none,
        nor a snapshot of them."""
        start = extent.start_offset
        found = 0
        for stored in self.log.snapshots(log.warning):
            if stored.end_offset >= start and stored.last_timestamp_ms <= timestamp_ms:
                start = found = stored.end_offset
        if extent.start_offset and not found:
            return 0
        for chunk in self.chunks(start, extent.end_offset):
            later = np.flatnonzero(chunk.places.timestamps_ms > timestamp_ms)
            if len(later):
                return int(chunk.places.offsets[later[0]]) if later[0] else found
            found = int(chunk.places.offsets[-1]) + 1
        return found

    def divide(self, start: int, end: int, *, opening: SnapshotId | None = None) -> list[LogRange]:
        """Return the tasks that read [start, end)."""
        if self._is_stateful:
            # A state is made of all before it, and a snapshot may have as much as the log had.
            shards = self._tasks(end - start if opening is None and start < end else end)
            if self.options.view not in (ViewName.CHANGES, ViewName.PARTITIONS):
                shards = 1
            return [
                LogRange(start, end, opening=opening, shard=shard, shards=shards) for shard in range(shards)
            ]
        parts = [] if opening is None else [LogRange(start, start, opening=opening)]
        tasks = self._tasks(end - start)
        edges = [start + (end - start) * number // tasks for number in range(tasks + 1)]
        parts += [LogRange(first, last) for first, last in pairwise(edges) if first < last]
        return parts

    def _tasks(self, offsets: int) -> int:
        if self.options.min_partitions is not None:
            return self.options.min_partitions
        return max(1, min(len(os.sched_getaffinity(0)), offsets // _OFFSETS_PER_TASK))

    @property
    def _is_stateful(self) -> bool:
        return self.options.view not in (ViewName.RECORDS, ViewName.DECODED)

    # Reading

    def read(self, part: LogRange) -> Iterator[pa.RecordBatch]:
        """Yield the rows of `part`, which stays as it is, so that it can be read again."""
        return self._changes(part) if self._is_stateful else self._records(part)

    def _records(self, part: LogRange) -> Iterator[pa.RecordBatch]:
        options = self.options
        view = (
            RecordsView(include_control=options.include_control, types=self.filters.types)
            if options.view is ViewName.RECORDS
            else DecodedView(mark_unknown=options.mark_unknown, types=self.filters.types)
        )
        if part.opening is not None:
            with self.log.opened(part.opening) as reader:
                for chunk in snapshot_chunks(reader):
                    yield from view.rows(chunk)
        for chunk in self.chunks(part.start, part.end):
            yield from view.rows(chunk)

    def _changes(self, part: LogRange) -> Iterator[pa.RecordBatch]:
        name = self.options.view.entity
        entity = None if name is None else Entity(name)
        shows_bare = part.shard == 0
        if part.opening is None:
            feed = ChangeFeed(self._state_at(part), entity, shows_bare)
        else:
            feed = ChangeFeed(self._new_state(part), entity, shows_bare)
            with self.log.opened(part.opening) as reader:
                yield from feed.begin(reader.contents, restarts=part.restarts)
                for chunk in snapshot_chunks(reader):
                    yield from feed.rows(chunk)
        if entity is not None and self.options.shows_state:
            yield from state_rows(feed.state, entity)
            return
        for chunk in self.chunks(part.start, part.end):
            yield from feed.rows(chunk)
        if part.continues:
            held_states.keep(self._key(part), part.end, part.end_mark, feed.state)

    def chunks(self, start: int, end: int) -> Iterator[Chunk]:
        """Yield the records of [start, end), none missing. Raises `DataLossError`."""
        expected = start
        skipped = self.log.skipped() if self._is_stateful else None
        for slab in self.log.slabs(start, end):
            batches = Batches.of(slab)
            batches = batches.only(batches.base_offsets < end)
            before = np.concatenate([[expected], batches.end_offsets])
            for at in np.flatnonzero(batches.base_offsets > before[:-1]).tolist():
                self.lost(f"offsets {before[at]} to {batches.base_offsets[at] - 1} are gone")
            expected = int(before[-1])
            if skipped:
                # An operator had the nodes leave them out.
                batches = batches.only(_not_in(skipped, batches))
            elif not self._is_stateful:
                batches = batches.only(batches.within(self.filters.first_ms, self.filters.last_ms))
            chunk = chunk_of(batches, start, end)
            if len(chunk):
                yield chunk
        if expected < end:
            self.lost(f"the log ends at offset {expected}, where {end} was known to be committed")

    def _state_at(self, part: LogRange) -> MetadataChanges:
        """The state before `part`: one that was held, or that of a snapshot, fed with what follows it."""
        held = held_states.take(self._key(part), part.start, part.start_mark) if part.continues else None
        if held is not None:
            return held
        state, offset = self._latest_before(part)
        for chunk in self.chunks(offset, part.start):
            state.feed(chunk)
        return state

    def _latest_before(self, part: LogRange) -> tuple[MetadataChanges, int]:
        if not part.start:
            return self._new_state(part), 0
        log_start = self.log.extent(at_least=part.start).start_offset
        for stored in reversed(self.log.snapshots(log.warning)):
            if log_start <= stored.end_offset <= part.start:
                state = self._new_state(part)
                try:
                    with self.log.opened(stored.snapshot) as reader:
                        state.begin(reader.contents)
                        for chunk in snapshot_chunks(reader):
                            state.feed(chunk)
                except (DamagedSnapshotError, LogUnavailableError) as error:
                    log.warning("%s", error)
                    continue
                return state, stored.end_offset
        if log_start:
            self.lost(
                f"the log begins at offset {log_start}, and no snapshot is left of what was before "
                f"{part.start}",
                remedy="Read from a later offset, or another node, or set failOnDataLoss=false for what the "
                "log still has",
            )
        return self._new_state(part), log_start

    def _new_state(self, part: LogRange) -> MetadataChanges:
        name = self.options.view.entity
        entities = frozenset(Entity) if name is None else frozenset({Entity(name)})
        return MetadataChanges(
            # One task has everything that is not a partition.
            entities=entities if part.shard == 0 else entities & {Entity.PARTITION},
            wanted=_Wanted(self.filters, part.shard, part.shards),
            mark_unknown=self.options.mark_unknown,
            lenient=not self.options.fail_on_data_loss,
        )

    def _key(self, part: LogRange) -> StateKey:
        return self.log, self.options.view, self.options.mark_unknown, part.shard, part.shards


def _not_in(skipped: SkippedBatches, batches: Batches) -> npt.NDArray[np.bool_]:
    return np.array(
        [
            not skipped.skips(Offset(base), Epoch(epoch))
            for base, epoch in zip(
                batches.base_offsets.tolist(), batches.headers["epoch"].tolist(), strict=True
            )
        ],
        np.bool_,
    )


@dataclass(frozen=True, slots=True)
class _Wanted:
    """Whether a partition is in a task's share, and asked for."""

    filters: Filters
    shard: int
    shards: int

    def __call__(self, topic: str, topic_id: UUID, number: int) -> bool:
        return (
            # Not `hash`, which is another in every process.
            zlib.crc32(b"%b%d" % (topic_id.bytes, number)) % self.shards == self.shard
            and self.filters.wants_partition(topic, topic_id, number)
        )
