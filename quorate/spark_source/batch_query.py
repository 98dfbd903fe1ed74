"""A batch query over the log, as it was when the query was made."""

from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from quorate.history import Extent, MetadataHistory, offset_for_timestamp
from quorate.spark_source.scan import LogRange, Scan, log_access
from quorate.spark_source.source_options import AtOffset, AtTimestamp, Bound, Edge, SourceOptions, for_batch
from quorate.spark_source.spark_errors import OptionError


class MetadataBatchReader(DataSourceReader):
    """Reads within `extent` only, however much the log grows: one DataFrame shows one log."""

    def __init__(self, options: SourceOptions, extent: Extent) -> None:
        self._options = for_batch(options)
        self._extent = extent
        self._scan = Scan(access=log_access(options), fail_on_data_loss=options.fail_on_data_loss)

    def partitions(self) -> Sequence[InputPartition]:
        start, end = self._bounds()
        if start == end:
            return []
        view = self._scan.view_from(self._extent.start_offset, self._options)
        self._scan.feed(view, self._extent.start_offset, start)
        return self._scan.divide(view, start, end, tasks=self._options.min_partitions)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        # Where there is nothing to read Spark makes up a partition of its own.
        return self._scan.read(partition) if isinstance(partition, LogRange) else iter(())

    def _bounds(self) -> tuple[int, int]:
        options, extent = self._options, self._extent
        start = starting_offset(options, self._scan, extent, default=Edge.EARLIEST)
        end = _resolve("ending", options.ending or Edge.LATEST, self._scan.access, extent)
        if end is None:
            end = extent.end_offset
        if end < start:
            raise OptionError(f"the end, offset {end}, is before the start, offset {start}")
        return start, end


def starting_offset(options: SourceOptions, scan: Scan, extent: Extent, *, default: Edge) -> int:
    """Where a new query begins. Raises `OptionError`, `DataLossError`."""
    bound = options.starting or default
    start = _resolve("starting", bound, scan.access, extent)
    if start is None:
        if not options.starting_or_latest:
            raise OptionError(
                f"no record has startingTimestamp {bound} or later; choose an earlier one, or set "
                "startingOffsetsByTimestampStrategy=latest to begin at the end"
            )
        return extent.end_offset
    if start < extent.start_offset:
        scan.lost(f"offset {start} is gone, the log starts at {extent.start_offset}")
        return extent.start_offset
    return start


def _resolve(name: str, bound: Bound, access: MetadataHistory, extent: Extent) -> int | None:
    """None: nothing is as late as the timestamp."""
    match bound:
        case Edge.EARLIEST:
            return extent.start_offset
        case Edge.LATEST:
            return extent.end_offset
        case AtTimestamp(timestamp_ms):
            return offset_for_timestamp(access, timestamp_ms, extent)
        case AtOffset(offset) if offset > extent.end_offset:
            raise OptionError(
                f"{name}Offsets is {offset}, and {access.place} is committed up to {extent.end_offset} "
                "(exclusive)"
            )
        case AtOffset(offset):
            return offset
