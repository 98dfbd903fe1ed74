"""A batch query over the log, as it was when the query was made."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition

from quorate.history import Extent, MetadataHistory, offset_for_timestamp
from quorate.spark_source.filters import used
from quorate.spark_source.scan import LogRange, Scan
from quorate.spark_source.source_options import AtOffset, AtTimestamp, Bound, Edge, for_batch
from quorate.spark_source.spark_errors import OptionError
from quorate.spark_source.warnings_log import get_logger

log = get_logger(__name__)


class MetadataBatchReader(DataSourceReader):
    """Reads within `extent` only, however much the log grows: one DataFrame shows one log."""

    def __init__(self, scan: Scan, extent: Extent) -> None:
        self._options = for_batch(scan.options)
        self._extent = extent
        self._scan = scan

    def partitions(self) -> Sequence[InputPartition]:
        """Return the tasks."""
        if self._options.shows_state:
            end = self._state_end()
            return self._scan.divide(end, end)
        start, end = self._bounds()
        opening = None
        if start < self._extent.start_offset:
            beginning = self._scan.beginning(self._extent.start_offset)
            start, opening = beginning.offset, beginning.snapshot
            if end < start:
                raise OptionError(
                    f"the end, offset {end}, is before what {self._scan.log.place} still has: a snapshot has "
                    f"taken the place of what was before {start}"
                )
        first, last = self._scan.filters.within(start, end)
        if first > start:
            opening = None
        return [] if first == last and opening is None else self._scan.divide(first, last, opening=opening)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a task."""
        # Where there is nothing to read Spark makes up a partition of its own.
        return self._scan.read(partition) if isinstance(partition, LogRange) else iter(())

    def _bounds(self) -> tuple[int, int]:
        options, extent = self._options, self._extent
        start = starting_offset(self._scan, extent, default=Edge.EARLIEST)
        end = _resolve("ending", options.ending or Edge.LATEST, self._scan.log, extent)
        if end is None:
            end = extent.end_offset
        if end < start:
            raise OptionError(f"the end, offset {end}, is before the start, offset {start}")
        return start, end

    def _state_end(self) -> int:
        """The offset (exclusive) up to which the state is asked for."""
        as_of, extent = self._options.as_of, self._extent
        earliest = self._scan.beginning(extent.start_offset).offset if extent.start_offset else 0
        match as_of:
            case AtOffset(offset):
                if offset >= extent.end_offset:
                    raise OptionError(
                        f"versionAsOf is {offset}, and the last that is committed in {self._scan.log.place} "
                        f"is {extent.end_offset - 1}"
                    )
                if offset + 1 < earliest:
                    raise OptionError(
                        f"versionAsOf is {offset}, and a snapshot has taken the place of what was before "
                        f"{earliest - 1}, which is the earliest"
                    )
                return offset + 1
            case AtTimestamp(timestamp_ms):
                end = self._scan.end_at(timestamp_ms, extent)
                if not end:
                    raise OptionError(
                        f"timestampAsOf is {timestamp_ms} ms since 1970, before all that "
                        f"{self._scan.log.place} has: the earliest is versionAsOf={max(earliest - 1, 0)}"
                    )
                return end
        return extent.end_offset


class FilteringBatchReader(MetadataBatchReader):
    """Takes filters from Spark, in sessions with `spark.sql.python.filterPushdown.enabled`: in others Spark
    refuses a reader that could take them."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        """Use what of the filters is of use, and leave all of them to Spark as well."""
        self._scan = replace(self._scan, filters=used(filters))
        return filters


def starting_offset(scan: Scan, extent: Extent, *, default: Edge) -> int:
    """Return where a new query begins; 0 for the beginning of all, which may be in a snapshot. Raises
    `OptionError`, `DataLossError`."""
    options = scan.options
    bound = options.starting or default
    start = _resolve("starting", bound, scan.log, extent)
    if start is None:
        if isinstance(bound, AtTimestamp) and not options.starting_or_latest:
            raise OptionError(
                f"no record has startingTimestamp={bound.timestamp_ms} or later; choose an earlier one, or "
                "set startingOffsetsByTimestampStrategy=latest to begin at the end"
            )
        return extent.end_offset
    if 0 < start < extent.start_offset:
        scan.lost(f"offset {start} is gone, the log starts at {extent.start_offset}")
        return 0
    if isinstance(bound, AtTimestamp) and _may_miss(scan, start, extent, bound.timestamp_ms):
        return 0
    return start


def _may_miss(scan: Scan, start: int, extent: Extent, timestamp_ms: int) -> bool:
    """True: records that are gone, but for a snapshot, may be as late as `timestamp_ms`."""
    return 0 < start == extent.start_offset and not any(
        stored.end_offset == start and stored.last_timestamp_ms < timestamp_ms
        for stored in scan.log.snapshots(log.warning)
    )


def _resolve(name: str, bound: Bound, history: MetadataHistory, extent: Extent) -> int | None:
    """None: nothing is as late as the timestamp."""
    match bound:
        case Edge.EARLIEST:
            return 0
        case Edge.LATEST:
            return extent.end_offset
        case AtTimestamp(timestamp_ms):
            return offset_for_timestamp(history, timestamp_ms, extent)
        case AtOffset(offset) if offset > extent.end_offset:
            raise OptionError(
                f"{name}Offsets is {offset}, and {history.place} is committed up to {extent.end_offset} "
                "(exclusive)"
            )
        case AtOffset(offset):
            return offset
