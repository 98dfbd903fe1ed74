"""A stretch of the log in columns: the records of many batches, of which only the values are one by one.

Nearly all batches hold records that differ in nothing but their offset and value. So a chunk has one row of
numbers for each run of such records, and numpy makes columns of them.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from quorate.history.history_errors import DamagedRecordError
from quorate.log import InvalidBatchError
from quorate.log.batches.batch import Batch
from quorate.log.batches.records import Record as LogRecord
from quorate.log.batches.records import plain_values_of, records_of
from quorate.log.snapshots.snapshot_file import SnapshotContents, SnapshotReader
from quorate.spark_source.columns import TIMESTAMP
from quorate.spark_source.plain_batches import Longs, values_of_many

CHUNK_RECORDS: Final = 32_768
CHUNK_BYTES: Final = 16 * 1024 * 1024
"""The size at which a chunk ends, whichever comes first. A single record may be larger."""


class Run(NamedTuple):
    """`count` records with offsets from `offset` on, of one batch and one time."""

    offset: int
    count: int
    epoch: int
    timestamp_ms: int
    batch_offset: int


@dataclass(slots=True)
class Chunk:
    """The records of `runs`, in order. In a chunk of a `snapshot` all records have the offset of its last."""

    snapshot: bool = False
    values: list[bytes] = field(default_factory=list)
    runs: list[Run] = field(default_factory=list)
    keys: dict[int, bytes] = field(default_factory=dict)
    """The keys of control records, by their place in `values`."""

    def __len__(self) -> int:
        return len(self.values)

    def add(self, run: Run, values: Sequence[bytes]) -> None:
        self.runs.append(run)
        self.values += values

    def control(self, at: int) -> LogRecord:
        """Return the control record in this place, without its offset and time."""
        return LogRecord(0, 0, self.keys[at], self.values[at])

    def places(self) -> "Places":
        """Return the columns of where and when each record was appended."""
        runs = self.runs
        counts = np.fromiter((each.count for each in runs), np.int64, len(runs))
        first = np.fromiter((each.offset for each in runs), np.int64, len(runs))
        if self.snapshot:
            offsets = np.repeat(first, counts)
        else:
            starts = np.cumsum(counts) - counts
            offsets = np.repeat(first - starts, counts) + np.arange(len(self.values))
        return Places(
            offsets=offsets,
            epochs=np.repeat(np.fromiter((each.epoch for each in runs), np.int32, len(runs)), counts),
            timestamps_ms=np.repeat(
                np.fromiter((each.timestamp_ms for each in runs), np.int64, len(runs)), counts
            ),
            batch_offsets=np.repeat(
                np.fromiter((each.batch_offset for each in runs), np.int64, len(runs)), counts
            ),
            snapshot=self.snapshot,
        )


@dataclass(frozen=True, slots=True)
class Places:
    """Where and when records were appended, a column each."""

    offsets: Longs
    epochs: npt.NDArray[np.int32]
    timestamps_ms: Longs
    batch_offsets: Longs
    snapshot: bool

    @classmethod
    def joined(cls, parts: "Sequence[Places]") -> "Places":
        """Return the places of all of these, of the log as of a snapshot."""
        return cls(
            offsets=np.concatenate([each.offsets for each in parts]),
            epochs=np.concatenate([each.epochs for each in parts]),
            timestamps_ms=np.concatenate([each.timestamps_ms for each in parts]),
            batch_offsets=np.concatenate([each.batch_offsets for each in parts]),
            snapshot=parts[-1].snapshot,
        )

    def take(self, index: Longs) -> "Places":
        """Return the places of these records."""
        return Places(
            offsets=self.offsets[index],
            epochs=self.epochs[index],
            timestamps_ms=self.timestamps_ms[index],
            batch_offsets=self.batch_offsets[index],
            snapshot=self.snapshot,
        )

    def __len__(self) -> int:
        return len(self.offsets)

    def columns(self) -> dict[str, pa.Array]:
        """Return the columns by the names that all views but `records` give them."""
        count = len(self)
        return {
            "offset": pa.array(self.offsets),
            "epoch": pa.array(self.epochs),
            "timestamp": pa.array(self.timestamps_ms * 1000).cast(TIMESTAMP),
            "batch_offset": pa.nulls(count, pa.int64()) if self.snapshot else pa.array(self.batch_offsets),
            "snapshot": pa.repeat(pa.scalar(self.snapshot), count),
        }


PLACE_FIELDS: Final = (
    pa.field("offset", pa.int64(), nullable=False),
    pa.field("epoch", pa.int32(), nullable=False),
    pa.field("timestamp", TIMESTAMP, nullable=False),
    pa.field("batch_offset", pa.int64()),
    pa.field("snapshot", pa.bool_(), nullable=False),
)


def chunks_of(batches: Iterator[Batch], start: int, end: int) -> Iterator[Chunk]:
    """The records of `batches` with offsets in [start, end). Raises `DamagedRecordError`."""
    held: list[Batch] = []
    records = size = 0
    for batch in batches:
        held.append(batch)
        records += batch.header.count
        size += batch.header.size
        if records >= CHUNK_RECORDS or size >= CHUNK_BYTES:
            yield _chunk(held, start, end)
            held.clear()
            records = size = 0
    if held:
        yield _chunk(held, start, end)


def _chunk(batches: Sequence[Batch], start: int, end: int) -> Chunk:
    chunk = Chunk()
    for batch, values in zip(batches, values_of_many(batches), strict=True):
        header = batch.header
        try:
            if values is None:
                values = None if header.is_control else plain_values_of(batch)
            if values is None:
                _add_one_by_one(chunk, batch, start, end)
                continue
        except InvalidBatchError as error:
            raise DamagedRecordError(f"the batch at offset {header.base_offset}: {error}") from error
        first, last = max(start - header.base_offset, 0), min(end - header.base_offset, len(values))
        if first < last:
            run = Run(
                header.base_offset + first,
                last - first,
                header.leader_epoch,
                header.max_timestamp if header.is_log_append_time else header.base_timestamp,
                header.base_offset,
            )
            chunk.add(run, values if last - first == len(values) else values[first:last])
    return chunk


def _add_one_by_one(chunk: Chunk, batch: Batch, start: int, end: int) -> None:
    header = batch.header
    for record in records_of(batch):
        if start <= record.offset < end:
            if header.is_control:
                chunk.keys[len(chunk)] = record.key or b""
            run = Run(record.offset, 1, header.leader_epoch, record.timestamp, header.base_offset)
            chunk.add(run, (record.value or b"",))


def snapshot_chunks(reader: SnapshotReader) -> Iterator[Chunk]:
    """The records of a snapshot, all at the last offset that it holds. Raises `DamagedSnapshotError`."""
    chunk = Chunk(snapshot=True)
    size = 0
    for value in reader:
        chunk.values.append(value)
        size += len(value)
        if len(chunk) >= CHUNK_RECORDS or size >= CHUNK_BYTES:
            yield _sealed(chunk, reader.contents)
            chunk = Chunk(snapshot=True)
            size = 0
    if chunk:
        yield _sealed(chunk, reader.contents)


def _sealed(chunk: Chunk, contents: SnapshotContents) -> Chunk:
    snapshot = contents.snapshot
    last = snapshot.end_offset - 1
    chunk.runs.append(Run(last, len(chunk), snapshot.epoch, contents.last_timestamp_ms, last))
    return chunk


def snapshot_place(contents: SnapshotContents) -> Places:
    """The place of what a snapshot holds besides its records."""
    return _sealed(Chunk(snapshot=True, values=[b""]), contents).places()
