"""A stretch of the log in columns: where and when its records were appended, and the values.

A batch of the metadata log has some seven records, and to call a function for each of them costs more than
to read it. So the batches of a whole buffer are read in step: numpy reads their headers, then the first
record of all, then the second, and so on. Whatever is not exactly as the nodes write it, and large batches,
are read in the general way (`records_of`), with its errors.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from quorate.history import DamagedRecordError
from quorate.history.slabs import Slab
from quorate.log import InvalidBatchError
from quorate.log.batches.batch import HEADER_BYTES, LENGTH_END
from quorate.log.batches.records import Record as LogRecord
from quorate.log.batches.records import plain_values_of, records_of
from quorate.log.snapshots.snapshot_file import SnapshotContents, SnapshotReader
from quorate.spark_source.columns import TIMESTAMP

Longs: TypeAlias = npt.NDArray[np.int64]

CHUNK_RECORDS: Final = 32_768
_CHUNK_BYTES: Final = 4 * 1024 * 1024
"""The size at which a chunk of a snapshot ends, whichever comes first. A slab is a chunk."""
_SMALL: Final = 64
"""Batches of fewer records are read in step: their offset deltas take one byte. Large ones are as fast one by
one."""
_FEW: Final = 8
"""For fewer batches numpy's own costs are more than it saves."""
_PADDING: Final = 1 << 15
"""More than two lengths of two bytes each: no place that is made of untrusted lengths is beyond it."""
_NULL_KEY: Final = 1
"""-1, the length of no key."""
_LOG_APPEND_TIME: Final = 0x08
_HEADER: Final = np.dtype(
    [
        ("base_offset", ">i8"),
        ("length", ">i4"),
        ("epoch", ">i4"),
        ("magic", "i1"),
        ("crc", ">u4"),
        ("attributes", ">i2"),
        ("last_offset_delta", ">i4"),
        ("base_timestamp", ">i8"),
        ("max_timestamp", ">i8"),
        ("producer", "V14"),
        ("count", ">i4"),
    ]
)


@dataclass(frozen=True, slots=True)
class Places:
    """Where and when records were appended, a column each."""

    offsets: Longs
    epochs: npt.NDArray[np.int32]
    timestamps_ms: Longs
    batch_offsets: Longs
    snapshot: bool = False
    """True: a snapshot has the records. They have the offset, epoch and time of the last that it holds."""

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

    def take(self, index: "Longs | slice") -> "Places":
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
        """Return the columns of `PLACE_FIELDS`."""
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
"""The columns that all views but `records` begin with."""


@dataclass(slots=True)
class Chunk:
    """Some successive records."""

    values: list[bytes]
    places: Places
    keys: dict[int, bytes] = field(default_factory=dict)
    """The keys of control records, by their place in `values`."""

    def control(self, at: int) -> LogRecord:
        """Return the control record in this place, without its offset and time."""
        return LogRecord(0, 0, self.keys[at], self.values[at])


@dataclass(frozen=True, slots=True)
class Batches:
    """The batches of a slab, with a column for each field of their headers."""

    slab: Slab
    headers: npt.NDArray[np.void]

    @classmethod
    def of(cls, slab: Slab) -> "Batches":
        """Read the headers of a slab."""
        data = np.frombuffer(slab.data, np.uint8)
        positions = np.array(slab.positions, np.int64)
        return cls(slab, data[positions[:, None] + np.arange(HEADER_BYTES)].view(_HEADER)[:, 0])

    @property
    def base_offsets(self) -> Longs:
        """The first offset of each."""
        return self.headers["base_offset"].astype(np.int64)

    @property
    def end_offsets(self) -> Longs:
        """The end (exclusive) of the offsets of each."""
        return self.base_offsets + self.headers["last_offset_delta"].astype(np.int64) + 1

    def within(self, first_ms: int, last_ms: int) -> "npt.NDArray[np.bool_]":
        """Return which may have records between these times, both inclusive."""
        return (self.headers["max_timestamp"] >= first_ms) & (self.headers["base_timestamp"] <= last_ms)

    def only(self, wanted: "npt.NDArray[np.bool_]") -> "Batches":
        """Return some of them."""
        if wanted.all():
            return self
        positions = [each for each, kept in zip(self.slab.positions, wanted, strict=True) if kept]
        return Batches(Slab(self.slab.data, positions), self.headers[wanted])


def chunk_of(batches: Batches, start: int, end: int) -> Chunk:
    """The records of `batches` with offsets in [start, end). Raises `DamagedRecordError`."""
    slab, headers = batches.slab, batches.headers
    counts = headers["count"].astype(np.int64)
    small = (headers["attributes"] == 0) & (counts > 0) & (counts < _SMALL)
    read, edges = _in_step(slab, headers["length"].astype(np.int64), np.where(small, counts, 0))
    first_of = np.cumsum(np.where(read, counts, 0)).tolist()
    values: list[bytes] = []
    keys: dict[int, bytes] = {}
    odd: list[tuple[int, list[LogRecord]]] = []
    done = 0
    for number in np.flatnonzero(~read).tolist():
        until = first_of[number]
        values += [slab.data[first:last] for first, last in edges[done:until]]
        done = until
        batch = slab.batch(number)
        try:
            plain = None if batch.header.is_control else plain_values_of(batch)
            if plain is None:
                records = records_of(batch)
                odd.append((len(values), records))
                if batch.header.is_control:
                    keys.update((at, each.key or b"") for at, each in enumerate(records, len(values)))
                plain = [each.value or b"" for each in records]
        except InvalidBatchError as error:
            place = f"the batch at offset {batch.header.base_offset}"
            raise DamagedRecordError(f"{place}: {error}") from error
        values += plain
    values += [slab.data[first:last] for first, last in edges[done:]]
    return _within(Chunk(values, _places_of(headers, counts, odd), keys), start, end)


def _in_step(
    slab: Slab, lengths: Longs, counts: Longs
) -> tuple[npt.NDArray[np.bool_], list[tuple[int, int]]]:
    """Read the records of all batches of which `counts` is not 0. Return the batches that are as the nodes
    write them, and where the values of their records begin and end."""
    # No place that is made of untrusted lengths is beyond the padding.
    data = np.frombuffer(slab.data + bytes(_PADDING), np.uint8)
    begins = np.array(slab.positions, np.int64)
    positions, ends = begins + HEADER_BYTES, begins + lengths + LENGTH_END
    first = np.cumsum(counts) - counts
    starts = np.zeros(int(counts.sum()), np.int64)
    stops = np.zeros(len(starts), np.int64)
    right = counts > 0
    for step in range(int(counts.max(initial=0))):
        at = np.flatnonzero(right & (counts > step))
        if len(at) < _FEW:
            right[at] = False
            break
        position = positions[at]
        length, after, good = _length(data, position)
        good &= (data[after] == 0) & (data[after + 1] == 0) & (data[after + 2] == 2 * step)
        good &= data[after + 3] == _NULL_KEY
        value_length, value, also = _length(data, after + 4)
        stop = value + value_length
        good &= also & (data[stop] == 0) & (stop + 1 == after + length) & (stop < ends[at])
        starts[first[at] + step], stops[first[at] + step] = value, stop
        positions[at] = stop + 1
        right[at] = good
    right &= positions == ends
    kept = np.repeat(right, counts)
    return right, list(zip(starts[kept].tolist(), stops[kept].tolist(), strict=True))


def _length(data: npt.NDArray[np.uint8], at: Longs) -> tuple[Longs, Longs, npt.NDArray[np.bool_]]:
    """Read lengths: zigzag varints of one byte or two. Return them, the places behind them, and which are
    right."""
    low, high = data[at].astype(np.int64), data[at + 1].astype(np.int64)
    long = low >= 0x80
    raw = np.where(long, (low & 0x7F) | high << 7, low)
    return raw >> 1, at + 1 + long, (raw & 1 == 0) & (~long | (high < 0x80))


def _places_of(
    headers: npt.NDArray[np.void], counts: Longs, odd: Sequence[tuple[int, list[LogRecord]]]
) -> Places:
    """The places of the records of whole batches. `odd`: those that have offsets and times of their own, each
    run with the place of its first."""
    base = headers["base_offset"].astype(np.int64)
    append_time = headers["attributes"] & _LOG_APPEND_TIME != 0
    times = np.where(append_time, headers["max_timestamp"], headers["base_timestamp"]).astype(np.int64)
    offsets = np.repeat(base - (np.cumsum(counts) - counts), counts) + np.arange(int(counts.sum()))
    timestamps = np.repeat(times, counts)
    for at, records in odd:
        here = slice(at, at + len(records))
        offsets[here] = [each.offset for each in records]
        timestamps[here] = [each.timestamp for each in records]
    return Places(
        offsets=offsets,
        epochs=np.repeat(headers["epoch"].astype(np.int32), counts),
        timestamps_ms=timestamps,
        batch_offsets=np.repeat(base, counts),
    )


def _within(chunk: Chunk, start: int, end: int) -> Chunk:
    first, last = np.searchsorted(chunk.places.offsets, [start, end]).tolist()
    if first == 0 and last == len(chunk.values):
        return chunk
    return Chunk(
        chunk.values[first:last],
        chunk.places.take(slice(first, last)),
        {at - first: key for at, key in chunk.keys.items() if first <= at < last},
    )


def snapshot_chunks(reader: SnapshotReader) -> Iterator[Chunk]:
    """The records of a snapshot, all at the last offset that it holds. Raises `DamagedSnapshotError`."""
    values: list[bytes] = []
    size = 0
    for value in reader:
        values.append(value)
        size += len(value)
        if len(values) >= CHUNK_RECORDS or size >= _CHUNK_BYTES:
            yield Chunk(values, snapshot_places(reader.contents, len(values)))
            values, size = [], 0
    if values:
        yield Chunk(values, snapshot_places(reader.contents, len(values)))


def places_of_batch(count: int, *, offset: int, epoch: int, timestamp_ms: int) -> Places:
    """The places of the records of one batch."""
    return Places(
        offsets=np.arange(offset, offset + count),
        epochs=np.full(count, epoch, np.int32),
        timestamps_ms=np.full(count, timestamp_ms, np.int64),
        batch_offsets=np.full(count, offset, np.int64),
    )


def snapshot_places(contents: SnapshotContents, count: int) -> Places:
    """The places of so many things that a snapshot holds."""
    snapshot = contents.snapshot
    last = np.full(count, snapshot.end_offset - 1, np.int64)
    return Places(
        offsets=last,
        epochs=np.full(count, snapshot.epoch, np.int32),
        timestamps_ms=np.full(count, contents.last_timestamp_ms, np.int64),
        batch_offsets=last,
        snapshot=True,
    )
