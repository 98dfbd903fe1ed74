"""Reading a stretch of the log into a view's rows, as Arrow batches."""

from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
from pyspark.sql.datasource import InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from quorate.history import Entry, FolderLog, MetadataHistory, entries_of, head_of
from quorate.log.batches.batch import Batch
from quorate.spark_source.source_options import SourceOptions
from quorate.spark_source.spark_errors import DataLossError, LaterVersionError
from quorate.spark_source.views.registry import new_view
from quorate.spark_source.views.view import Row, View
from quorate.spark_source.warnings_log import get_logger

_ROWS_PER_BATCH: Final = 8192
_OFFSETS_PER_TASK: Final = 50_000
"""Below, another task costs more than it saves."""
_DEFAULT_TASKS: Final = 2

log = get_logger(__name__)


def log_access(options: SourceOptions) -> MetadataHistory:
    if options.path is not None:
        return FolderLog(path=options.path, read_uncommitted=options.read_uncommitted)
    # A folder's reader needs neither trio nor a client.
    from quorate.history import ClusterLog

    return ClusterLog(
        bootstrap_servers=options.bootstrap_servers,
        retries=options.retries,
        retry_interval_ms=options.retry_interval_ms,
        request_timeout_ms=options.request_timeout_ms,
    )


@dataclass
class LogRange(InputPartition):
    """One task's part: offsets [start, end), and the view fed with everything before `start`."""

    start: int
    end: int
    view: View


@dataclass(frozen=True, slots=True, kw_only=True)
class Scan:
    """A reading of the log for a view. Picklable, because its access is."""

    access: MetadataHistory
    fail_on_data_loss: bool

    def lost(self, problem: str, *, remedy: str | None = None) -> None:
        """Raise `DataLossError`, or log a warning if the options say so."""
        if self.fail_on_data_loss:
            raise DataLossError(f"{self.access.place}: {problem}", remedy=remedy)
        log.warning("%s: %s", self.access.place, problem)

    def view_from(self, log_start: int, options: SourceOptions) -> View:
        """The view that the options ask for, as it is where the log starts. Raises `DataLossError` where that
        takes what a snapshot has taken the place of."""
        view = new_view(options)
        if log_start > 0 and view.wants is not None:
            self.lost(
                f"a snapshot has taken the place of what was before offset {log_start}, and "
                f"view={options.view.value} reads no snapshots: rows would be missing or incomplete",
                remedy="Read view=records, or set failOnDataLoss=false for the rows of what the log still "
                "has, with null for what it no longer says",
            )
        return view

    def batches(self, start: int, end: int) -> Iterator[Batch]:
        """The batches that hold [start, end), none missing. Raises `DataLossError`."""
        expected = start
        for batch in self.access.batches(start, end):
            if batch.header.base_offset > expected:
                self.lost(f"offsets {expected} to {batch.header.base_offset - 1} are gone")
            yield batch
            expected = batch.header.end_offset
        if expected < end:
            self.lost(f"the log ends at offset {expected}, where {end} was known to be committed")

    def feed(self, view: View, start: int, end: int) -> None:
        """Let `view` see [start, end) for what it remembers."""
        for batch in self.batches(start, end):
            for entry in entries_of(batch, start=start, end=end, only=view.remembers):
                _check_known(view, entry)
                for _ in view.rows(entry):
                    pass

    def rows(self, view: View, start: int, end: int) -> Iterator[Row]:
        names = view.schema.names
        about_topics = "topic_id" in names
        name, topic_id = (names.index("topic"), names.index("topic_id")) if about_topics else (0, 0)
        for batch in self.batches(start, end):
            for entry in entries_of(batch, start=start, end=end, only=view.wants):
                _check_known(view, entry)
                for row in view.rows(entry):
                    if about_topics and self.fail_on_data_loss and row[name] is None and row[topic_id]:
                        self.lost(
                            f"the record at offset {entry.offset} is of the topic with id {row[topic_id]}, "
                            "whose name was in what a snapshot has taken the place of",
                            remedy="Set failOnDataLoss=false to have null in place of such names",
                        )
                    yield row

    def read(self, part: LogRange) -> Iterator[pa.RecordBatch]:
        """`part` stays as it is, so that it can be read again."""
        view = deepcopy(part.view)
        schema = arrow_schema(view.schema)
        held: list[Row] = []
        for row in self.rows(view, part.start, part.end):
            held.append(row)
            if len(held) == _ROWS_PER_BATCH:
                yield _record_batch(held, schema)
                held.clear()
        if held:
            yield _record_batch(held, schema)

    def divide(self, view: View, start: int, end: int, *, tasks: int | None) -> list[LogRange]:
        """Return [start, end) in about equal parts, for `view`, which is fed up to `start`. It is then fed up
        to the last part's start. `tasks`: the number of parts. None: by the number of offsets."""
        count = end - start
        if count <= 0:
            return []
        if tasks is None:
            tasks = min(_DEFAULT_TASKS, -(-count // _OFFSETS_PER_TASK))
        tasks = min(tasks, count)
        edges = [start + count * number // tasks for number in range(tasks)]
        parts = []
        fed = start
        for first, last in zip(edges, [*edges[1:], end], strict=True):
            self.feed(view, fed, first)
            fed = first
            parts.append(LogRange(first, last, deepcopy(view)))
        return parts


def _check_known(view: View, entry: Entry) -> None:
    """Raise `LaterVersionError` for an unknown record, unless the view shows all records as they are."""
    if entry.record is None and view.wants is not None:
        number = head_of(entry.value).number
        raise LaterVersionError(
            f"the record at offset {entry.offset}, of type {number} and version {entry.version}, was written "
            "by a later version of quorate, and later rows may depend on it. Upgrade quorate where Spark "
            "runs, or read view=records, which shows it as it is"
        )


def arrow_schema(schema: StructType) -> pa.Schema:
    """Return the schema against which Spark checks the first batch of each task."""
    return to_arrow_schema(schema, timezone="UTC")


def _record_batch(rows: list[Row], schema: pa.Schema) -> pa.RecordBatch:
    columns = zip(*rows, strict=True)
    arrays = [pa.array(column, type=field.type) for column, field in zip(columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
