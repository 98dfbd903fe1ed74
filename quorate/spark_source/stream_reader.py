"""A streaming query over the log: every committed record exactly once, across restarts."""

from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from quorate.history import NO_EPOCH, Extent, epoch_before
from quorate.spark_source.batch_query import starting_offset
from quorate.spark_source.position import Position
from quorate.spark_source.scan import LogRange, Scan, log_access
from quorate.spark_source.source_options import Edge, SourceOptions, for_stream
from quorate.spark_source.spark_errors import OptionError
from quorate.spark_source.views.view import View


class MetadataStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Offsets are `Position`s. `partitions` depends on nothing but its arguments and the log: after a
    restart Spark asks for the batch that it had logged before anything else.

    Spark makes two of these, one that plans and one that reads: what a task needs is in its `LogRange`.
    """

    def __init__(self, options: SourceOptions) -> None:
        self._options = for_stream(options)
        self._scan = Scan(access=log_access(options), fail_on_data_loss=options.fail_on_data_loss)
        self._initial: Position | None = None
        self._target: int | None = None
        self._fed: tuple[View, int] | None = None
        """A view and how far it was fed, so that each trigger feeds it only what is new."""

    def initialOffset(self) -> dict[str, object]:
        # Asked more than once; "latest" must be the same each time.
        if self._initial is None:
            extent = self._scan.access.extent()
            start = starting_offset(self._options, self._scan, extent, default=Edge.LATEST)
            self._initial = self._position(start, extent)
        return self._initial.as_dict()

    def getDefaultReadLimit(self) -> ReadLimit:
        limit = self._options.max_offsets_per_trigger
        return ReadAllAvailable() if limit is None else ReadMaxRows(limit)

    def prepareForTriggerAvailableNow(self) -> None:
        self._target = self._scan.access.extent().end_offset

    def latestOffset(self, start: Mapping[str, object], limit: ReadLimit) -> dict[str, object]:
        begin = Position.parse(start)
        extent = self._scan.access.extent(at_least=begin.offset)
        self._check(begin, extent)
        if begin.offset > extent.end_offset:
            # Tolerated: the old records are lost, and the stream continues with new ones.
            return self._position(extent.end_offset, extent).as_dict()
        # After a restart the logged end may be beyond the target: never go back to that.
        first = max(begin.offset, extent.start_offset)
        end = extent.end_offset if self._target is None else min(extent.end_offset, self._target)
        match limit:
            case ReadAllAvailable():
                pass
            case ReadMaxRows(max_rows=most):
                end = min(end, first + most)
            case _:
                raise OptionError(f"{type(limit).__name__} is not supported; use maxOffsetsPerTrigger")
        return dict(start) if end <= begin.offset else self._position(end, extent).as_dict()

    def reportLatestOffset(self) -> dict[str, object]:
        # For the progress report only, so not worth a read of the log, which may fail.
        extent = self._scan.access.extent()
        return Position(offset=extent.end_offset, epoch=NO_EPOCH, cluster=extent.cluster).as_dict()

    def partitions(self, start: Mapping[str, object], end: Mapping[str, object]) -> Sequence[InputPartition]:
        first, last = Position.parse(start), Position.parse(end)
        extent = self._scan.access.extent(at_least=last.offset)
        self._check(first, extent)
        self._check(last, extent)
        begin, stop = max(first.offset, extent.start_offset), min(last.offset, extent.end_offset)
        if begin >= stop:
            return []
        view = self._view_at(begin, extent)
        parts = self._scan.divide(view, begin, stop, tasks=self._options.min_partitions)
        if parts:
            self._fed = view, parts[-1].start
        return parts

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        # Where there is nothing to read Spark makes up a partition of its own.
        return self._scan.read(partition) if isinstance(partition, LogRange) else iter(())

    def commit(self, end: Mapping[str, object]) -> None:
        """Nothing to do: the log stays as it is, and the checkpoint is Spark's."""

    def stop(self) -> None:
        """Nothing to close: connections and files live within single calls."""

    def _view_at(self, offset: int, extent: Extent) -> View:
        if self._fed is None or self._fed[1] > offset:
            self._fed = self._scan.view_from(extent.start_offset, self._options), extent.start_offset
        view, fed = deepcopy(self._fed[0]), self._fed[1]
        self._scan.feed(view, fed, offset)
        return view

    def _position(self, offset: int, extent: Extent) -> Position:
        epoch = epoch_before(self._scan.access, offset, extent)
        return Position(offset=offset, epoch=NO_EPOCH if epoch is None else epoch, cluster=extent.cluster)

    def _check(self, position: Position, extent: Extent) -> None:
        """Check that the log is still that of `position`. Raises `DataLossError`."""
        lost, offset = self._scan.lost, position.offset
        if position.cluster and extent.cluster and position.cluster != extent.cluster:
            lost(f"the checkpoint is of cluster {position.cluster}, the log is of cluster {extent.cluster}")
        elif offset < extent.start_offset:
            lost(f"offset {offset} is gone, the log starts at {extent.start_offset}")
        elif offset > extent.end_offset:
            lost(f"the checkpoint is at offset {offset}, and the log ends at {extent.end_offset}")
        elif position.epoch != NO_EPOCH:
            epoch = epoch_before(self._scan.access, offset, extent)
            if epoch is not None and epoch != position.epoch:
                lost(
                    f"the record before offset {offset} was of epoch {position.epoch}, and is of epoch "
                    f"{epoch}: the log was replaced or cut"
                )
