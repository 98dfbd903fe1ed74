"""A streaming query over the log: every committed record exactly once, across restarts."""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

import numpy as np
import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from quorate.history import Extent, mark_before
from quorate.spark_source.batch_query import starting_offset
from quorate.spark_source.position import Position
from quorate.spark_source.record_types import types_of
from quorate.spark_source.scan import LogRange, Scan
from quorate.spark_source.source_options import Edge, ViewName, for_stream
from quorate.spark_source.spark_errors import DataLossError, OptionError
from quorate.spark_source.warnings_log import get_logger
from quorate.types import SnapshotId

_TRANSACTION: Final = frozenset({"BeginTransaction", "EndTransaction", "AbortTransaction", "Unknown"})
_BROKER: Final = frozenset({"RegisterBroker", "BrokerRegistrationChange", "UnregisterBroker"})
_NEWS: Final[Mapping[ViewName, frozenset[str]]] = {
    ViewName.PARTITIONS: _BROKER | {"Partition", "PartitionChange", "ShrinkTopic", "RemoveTopic"},
    ViewName.TOPICS: frozenset({"Topic", "ShrinkTopic", "RemoveTopic"}),
    ViewName.BROKERS: _BROKER,
    ViewName.CONFIGS: frozenset({"Config", "RemoveTopic"}),
    ViewName.QUOTAS: frozenset({"ClientQuota"}),
    ViewName.FEATURES: frozenset({"FeatureLevel"}),
    ViewName.QUORUM: frozenset(),
}
"""The types of the records that can make rows of a view, besides those of transactions. A view that is
missing shows all but Raft's own, which alone make the quorum's."""

log = get_logger(__name__)


class MetadataStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Offsets are `Position`s. `partitions` depends on nothing but its arguments and the log: after a restart
    Spark asks for the batch that it had logged before anything else.

    Spark makes two of these, one that plans and one that reads: what a task needs is in its `LogRange`.
    """

    def __init__(self, scan: Scan) -> None:
        self._options = for_stream(scan.options)
        self._scan = scan
        self._initial: Position | None = None
        self._target: int | None = None
        self._idle_until = 0
        """No record below has news for the view, from the start of the next batch on."""
        self._last_batch_s: float | None = None
        self._reaches_state = False
        """Once it does, the workers hold the state, or make it again from a later snapshot."""

    def initialOffset(self) -> dict[str, object]:
        """Return the position of a new query."""
        # Asked more than once; "latest" must be the same each time.
        if self._initial is None:
            extent = self._scan.log.extent()
            start = starting_offset(self._scan, extent, default=Edge.LATEST)
            self._initial = self._position(start, extent)
        return self._initial.as_dict()

    def getDefaultReadLimit(self) -> ReadLimit:
        """Return the limit of a batch."""
        limit = self._options.max_offsets_per_trigger
        return ReadAllAvailable() if limit is None else ReadMaxRows(limit)

    def prepareForTriggerAvailableNow(self) -> None:
        """Note the end, beyond which the query will not read."""
        self._target = self._scan.log.extent().end_offset

    def latestOffset(self, start: Mapping[str, object], limit: ReadLimit) -> dict[str, object]:
        """Return the end of the batch that begins at `start`; `start` if there is none yet."""
        begin = Position.parse(start)
        extent = self._scan.log.extent(at_least=max(begin.offset, self._target or 0))
        self._check(begin, extent)
        if self._target is not None and begin.offset <= extent.end_offset < self._target:
            self._scan.lost(
                f"the log ends at {extent.end_offset}, and ended at {self._target} when the query began"
            )
        if begin.offset > extent.end_offset:
            # Tolerated: the old records are lost, and the stream continues with new ones.
            return self._position(extent.end_offset, extent).as_dict()
        first, opening = begin.offset, None
        if not self._reaches(first, extent):
            beginning = self._scan.beginning(extent.start_offset)
            first, opening = max(first, beginning.offset), beginning.snapshot
        # After a restart the logged end may be beyond the target: never go back to that.
        end = max(first, extent.end_offset if self._target is None else min(extent.end_offset, self._target))
        news: int | None = first
        if opening is None:
            news = None if end == first or self._waits(end - first) else self._next_news(first, end)
        if news is None:
            return dict(start)
        match limit:
            case ReadAllAvailable():
                pass
            case ReadMaxRows(max_rows=most):
                # What comes before the news makes no rows: a batch of only that would never be given.
                end = min(end, self._uncut(news, min(end, news + most)))
            case _:
                raise OptionError(f"{type(limit).__name__} is not supported; use maxOffsetsPerTrigger")
        self._last_batch_s = time.monotonic()
        return self._position(end, extent, opening).as_dict()

    def reportLatestOffset(self) -> dict[str, object]:
        """Return the end of the log, for the progress report."""
        # Not worth a read of the log, which may fail.
        extent = self._scan.log.extent()
        return Position(
            offset=extent.end_offset, before=None, cluster=extent.cluster, view=self._options.view.value
        ).as_dict()

    def partitions(self, start: Mapping[str, object], end: Mapping[str, object]) -> Sequence[InputPartition]:
        """Return the tasks of a batch."""
        first, last = Position.parse(start), Position.parse(end)
        extent = self._scan.log.extent(at_least=last.offset)
        if last.opening is None:
            self._check(first, extent)
            if not first.offset and extent.start_offset:
                self._scan.lost(
                    f"the batch was planned from the log's beginning, and the log starts at "
                    f"{extent.start_offset} now"
                )
        elif all(each.snapshot != last.opening for each in self._scan.log.snapshots(log.warning)):
            # Tolerance is of no use: its rows can't be had any more, and nothing has the same.
            raise DataLossError(
                f"{self._scan.log.place}: the snapshot at {last.opening.end_offset}, which the batch was "
                "planned to begin with, is gone",
                remedy="Start a new query, with a new checkpoint",
            )
        self._check(last, extent)
        stop = min(last.offset, extent.end_offset)
        if last.opening is None:
            begin = max(first.offset, extent.start_offset)
            if begin >= stop:
                return []
            parts = self._scan.divide(begin, stop)
        else:
            begin = last.opening.end_offset
            parts = self._scan.divide(begin, max(stop, begin), opening=last.opening)
        return [
            replace(
                part,
                restarts=last.opening is not None and first.offset > 0,
                continues=True,
                start_mark=first.before,
                end_mark=last.before,
            )
            for part in parts
        ]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a task."""
        # Where there is nothing to read Spark makes up a partition of its own.
        return self._scan.read(partition) if isinstance(partition, LogRange) else iter(())

    def commit(self, end: Mapping[str, object]) -> None:
        """Nothing to do: the log stays as it is, and the checkpoint is Spark's."""

    def stop(self) -> None:
        """Nothing to close: connections and files live within single calls."""

    def _uncut(self, news: int, end: int) -> int:
        """Return `end`, or a bound of the record batch that it would cut: its begin, or its end if the batch
        has the news. What was appended together is seen together."""
        for batch in self._scan.log.batches(end - 1, end):
            header = batch.header
            if header.base_offset < end < header.end_offset:
                return header.base_offset if header.base_offset > news else header.end_offset
        return end

    def _waits(self, offsets: int) -> bool:
        """True while a batch is too small, and the last is not long enough ago."""
        least = self._options.min_offsets_per_trigger
        if least is None or offsets >= least or self._target is not None:
            return False
        now = time.monotonic()
        if self._last_batch_s is None:
            self._last_batch_s = now
        return (now - self._last_batch_s) * 1000 < self._options.max_trigger_delay_ms

    def _next_news(self, start: int, end: int) -> int | None:
        """Return the first offset in [start, end) whose record can make a row; None if none can. A batch
        without rows would cost a task, and often an empty file."""
        view = self._options.view
        news = _NEWS.get(view)
        if view is ViewName.CHANGES or self._options.include_control:
            return start
        for chunk in self._scan.chunks(max(start, self._idle_until), end):
            is_news = np.zeros(len(chunk), np.bool_)
            is_news[list(chunk.keys)] = True
            if view is not ViewName.QUORUM:
                is_news = ~is_news
                if news is not None:
                    is_news &= types_of(chunk).are_in(news | _TRANSACTION)
            found = np.flatnonzero(is_news)
            if len(found):
                return int(chunk.places.offsets[found[0]])
        self._idle_until = end
        return None

    def _position(self, offset: int, extent: Extent, opening: SnapshotId | None = None) -> Position:
        return Position(
            offset=offset,
            before=mark_before(self._scan.log, offset, extent),
            cluster=extent.cluster,
            view=self._options.view.value,
            opening=opening,
        )

    def _reaches(self, offset: int, extent: Extent) -> bool:
        if self._reaches_state:
            return offset >= extent.start_offset
        self._reaches_state = self._scan.reaches(offset, extent.start_offset)
        return self._reaches_state

    def _check(self, position: Position, extent: Extent) -> None:
        """Check that the log is still that of `position`. Raises `DataLossError`, and for a checkpoint of
        another view `OptionError`."""
        lost, offset = self._scan.lost, position.offset
        if position.view != self._options.view.value:
            raise OptionError(
                f"the checkpoint is of view={position.view}, and the query reads "
                f"view={self._options.view.value}; use a new checkpoint"
            )
        if position.cluster and extent.cluster and position.cluster != extent.cluster:
            lost(f"the checkpoint is of cluster {position.cluster}, the log is of cluster {extent.cluster}")
        elif 0 < offset <= extent.end_offset and not self._reaches(offset, extent):
            lost(
                f"{'' if offset < extent.start_offset else 'the state at '}offset {offset} is gone, the log "
                f"starts at {extent.start_offset}",
                remedy="Start a new query (with a new checkpoint), or set failOnDataLoss=false to start over "
                "from the snapshot, with a row of _change_type snapshot before its state",
            )
        elif offset > extent.end_offset:
            lost(f"the checkpoint is at offset {offset}, and the log ends at {extent.end_offset}")
        elif position.before is not None:
            mark = mark_before(self._scan.log, offset, extent)
            if mark is not None and mark != position.before:
                lost(
                    f"the batch before offset {offset} was of {position.before}, and is of {mark}: the log "
                    "was replaced or cut"
                )
