"""`format("ceiling")`: Arrow batches that lie ready in a file, over and over.

Its rate is that of Spark's transport from Python workers, which no Python data source with these columns can
exceed.
"""

import json
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from itertools import cycle, pairwise
from pathlib import Path
from typing import Final

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

CEILING: Final = "ceiling"
_SAMPLE_ROWS: Final = 1 << 16
"""One batch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """Rows of a data source: its schema, and a file with Arrow batches as its reader yields them."""

    schema: str
    """In Spark's JSON."""
    file: str

    def options(self, *, rows: int, tasks: int) -> dict[str, str]:
        """The options for `format("ceiling")`."""
        return {"columns": self.schema, "file": self.file, "rows": str(rows), "tasks": str(tasks)}


def take_sample(source: DataSource, file: Path) -> Sample:
    """Read rows from the middle of a source, without Spark. Raises `ValueError` if there is none."""
    schema = source.schema()
    assert isinstance(schema, StructType)
    reader = source.reader(schema)
    parts = reader.partitions()
    held: list[pa.RecordBatch] = []
    for batch in reader.read(parts[len(parts) // 2]) if parts else ():
        held.append(batch)
        if sum(each.num_rows for each in held) >= _SAMPLE_ROWS:
            break
    if not held:
        raise ValueError("no rows to take a sample of")
    table = pa.Table.from_batches(held).slice(0, _SAMPLE_ROWS).combine_chunks()
    with pa.ipc.new_file(str(file), table.schema) as writer:
        writer.write_table(table)
    return Sample(schema=schema.json(), file=str(file))


@dataclass
class RowRange(InputPartition):
    rows: int


@dataclass(frozen=True, slots=True)
class _Made:
    file: str
    rows: int
    tasks: int

    def divided(self, rows: int) -> Sequence[InputPartition]:
        edges = [rows * number // self.tasks for number in range(self.tasks + 1)]
        return [RowRange(end - start) for start, end in pairwise(edges)]

    def read(self, part: InputPartition) -> Iterator[pa.RecordBatch]:
        left = part.rows if isinstance(part, RowRange) else 0
        # Mapped, so that a task that begins costs no copy.
        with pa.memory_map(self.file) as file:
            sample = pa.ipc.open_file(file).read_all().to_batches()
            for batch in cycle(sample):
                if left <= 0:
                    return
                yield batch.slice(0, left)
                left -= batch.num_rows


class CeilingSource(DataSource):
    """Options: see `Sample.options`."""

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        self._schema = options["columns"]
        self._made = _Made(options["file"], int(options["rows"]), int(options["tasks"]))

    @classmethod
    def name(cls) -> str:
        return CEILING

    def schema(self) -> StructType:
        return StructType.fromJson(json.loads(self._schema))

    def reader(self, schema: StructType) -> "CeilingReader":
        return CeilingReader(self._made)

    def streamReader(self, schema: StructType) -> "CeilingStreamReader":
        return CeilingStreamReader(self._made)


class CeilingReader(DataSourceReader):
    def __init__(self, made: _Made) -> None:
        self._made = made

    def partitions(self) -> Sequence[InputPartition]:
        return self._made.divided(self._made.rows)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return self._made.read(partition)


class CeilingStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """All rows in one micro-batch."""

    def __init__(self, made: _Made) -> None:
        self._made = made

    def initialOffset(self) -> dict[str, int]:
        return {"row": 0}

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:
        """Nothing to do: the rows are always the same."""

    def latestOffset(self, start: Mapping[str, int], limit: ReadLimit) -> dict[str, int]:
        return {"row": self._made.rows}

    def partitions(self, start: Mapping[str, int], end: Mapping[str, int]) -> Sequence[InputPartition]:
        return self._made.divided(end["row"] - start["row"])

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return self._made.read(partition)

    def commit(self, end: Mapping[str, int]) -> None:
        """Nothing to do."""

    def stop(self) -> None:
        """Nothing to close."""
