"""A stretch of the log in columns: where and when its records were appended, and where their values are.

A batch of the metadata log has some seven records, and to call a function for each of them costs more than
to read it. So the batches of a whole buffer are read in step: numpy finds the first record of all, then the
second, and so on, and then reads what stands before each value. No value is copied out of the buffer before
it is asked for. Whatever is not exactly as the nodes write it is read in the general way (`records_of`), with
its errors.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from quorate.history import DamagedRecordError
from quorate.history.slabs import Slab
from quorate.log import InvalidBatchError
from quorate.log.batches.batch import HEADER_BYTES, LENGTH_END, Batch
from quorate.log.batches.records import Record as LogRecord
from quorate.log.batches.records import records_of
from quorate.log.snapshots.snapshot_file import SnapshotContents, SnapshotReader
from quorate.spark_source.columns import TIMESTAMP

Longs: TypeAlias = npt.NDArray[np.int64]

CHUNK_RECORDS: Final = 32_768
_CHUNK_BYTES: Final = 4 * 1024 * 1024
"""The size at which a chunk of a snapshot ends, whichever comes first. A slab is a chunk."""
_COUNT_MAX: Final = 1 << 13
"""The offset deltas of so many records take two bytes at most."""
_RECORD_BYTES: Final = 7
"""The least size of a record."""
_FEW: Final = 64
"""For fewer batches numpy's own costs are more than it saves."""
_PADDING: Final = bytes(1 << 15)
"""Longer than two lengths of two bytes say: no place that is made of untrusted lengths is beyond it."""
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


@dataclass(frozen=True, slots=True)
class Chunk:
    """Some successive records."""

    data: bytes
    """Has the values in their order, with other bytes between and behind them."""
    starts: Longs
    stops: Longs
    """Where each value begins and ends (exclusive) in `data`."""
    places: Places
    keys: Mapping[int, bytes] = field(default_factory=dict)
    """The keys of control records, by their place in the chunk."""

    @classmethod
    def of(cls, values: Sequence[bytes], places: Places) -> "Chunk":
        """Return the chunk of these values, none of a control record."""
        stops = np.cumsum([len(each) for each in values], dtype=np.int64)
        starts = np.concatenate([[0], stops[:-1]]) if len(stops) else stops
        return cls(b"".join(values) + _PADDING, starts, stops, places)

    @classmethod
    def joined(cls, parts: "Sequence[Chunk]") -> "Chunk":
        """Return all records of these, of the log as of a snapshot."""
        shifts = np.cumsum([0, *(len(each.data) for each in parts)]).tolist()
        firsts = np.cumsum([0, *(len(each) for each in parts)]).tolist()
        return cls(
            b"".join([each.data for each in parts]),
            np.concatenate([each.starts + shift for each, shift in zip(parts, shifts, strict=False)]),
            np.concatenate([each.stops + shift for each, shift in zip(parts, shifts, strict=False)]),
            Places.joined([each.places for each in parts]),
            {
                first + at: key
                for each, first in zip(parts, firsts, strict=False)
                for at, key in each.keys.items()
            },
        )

    def __len__(self) -> int:
        return len(self.starts)

    def value(self, at: int) -> bytes:
        """Return the value in this place."""
        return self.data[self.starts[at] : self.stops[at]]

    def words(self, skip: int = 0) -> Longs:
        """Return the four bytes of each value behind its first `skip`, as a little-endian number. Of a short
        value some are of what follows it."""
        words = np.ndarray(len(self.data) - 3, "<u4", self.data, strides=(1,))
        return words[self.starts + skip].astype(np.int64)

    def control(self, at: int) -> LogRecord:
        """Return the control record in this place, without its offset and time."""
        return LogRecord(0, 0, self.keys[at], self.value(at))

    def without_control(self) -> "Chunk":
        """Return the other records."""
        return self.take(all_but(list(self.keys), len(self)))

    def within(self, start: int, end: int) -> "Chunk":
        """Return the records with offsets in [start, end)."""
        first, last = np.searchsorted(self.places.offsets, [start, end]).tolist()
        return self if first == 0 and last == len(self) else self.take(np.arange(first, last))

    def take(self, index: Longs) -> "Chunk":
        """Return the records in these places, which rise."""
        at = [each for each in self.keys if len(index) and index[0] <= each <= index[-1]]
        to = np.searchsorted(index, at).tolist()
        keys = {new: self.keys[old] for new, old in zip(to, at, strict=True) if index[new] == old}
        return Chunk(self.data, self.starts[index], self.stops[index], self.places.take(index), keys)


def all_but(places: "Sequence[int] | Longs", count: int) -> Longs:
    """The other places below `count`."""
    left = np.ones(count, np.bool_)
    left[places] = False
    return np.flatnonzero(left)


def parts_of(data: bytes, starts: Longs, stops: Longs) -> pa.Array:
    """The parts of `data` that begin and end (exclusive) there, in its order. None overlaps the next."""
    if not len(starts):
        return pa.nulls(0, pa.binary())
    edges = np.empty(2 * len(starts), np.int32)
    edges[0::2], edges[1::2] = starts, stops
    # The parts, and between them what is not wanted: so Arrow copies each part, without a Python object.
    parts = pa.Array.from_buffers(
        pa.binary(), len(edges) - 1, [None, pa.py_buffer(edges), pa.py_buffer(data)]
    )
    return parts.take(pa.array(np.arange(0, len(edges), 2, dtype=np.int32)))


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
    data = slab.data + _PADDING
    counts, lengths = headers["count"].astype(np.int64), headers["length"].astype(np.int64)
    plain = (headers["attributes"] == 0) & (counts < _COUNT_MAX) & (counts * _RECORD_BYTES <= lengths)
    begins = np.array(slab.positions, np.int64)
    right, first_value, last_value = _in_step(
        data, begins + HEADER_BYTES, begins + lengths + LENGTH_END, np.where(plain, counts, 0)
    )
    keys: dict[int, bytes] = {}
    odd: list[tuple[int, list[LogRecord]]] = []
    first = np.cumsum(counts) - counts
    for number in np.flatnonzero(~right).tolist():
        batch = slab.batch(number)
        try:
            records = _rising(batch)
        except InvalidBatchError as error:
            place = f"the batch at offset {batch.header.base_offset}"
            raise DamagedRecordError(f"{place}: {error}") from error
        odd.append((int(first[number]), records))
        if batch.header.is_control:
            keys.update((at, each.key or b"") for at, each in enumerate(records, int(first[number])))
    starts, stops = np.empty(int(counts.sum()), np.int64), np.empty(int(counts.sum()), np.int64)
    in_step = np.repeat(right, counts)
    starts[in_step], stops[in_step] = first_value, last_value
    for first_of, records in odd:
        edge = slab.positions[int(np.searchsorted(first, first_of, "right")) - 1]
        for at, each in enumerate(records, first_of):
            # Equal bytes further ahead are as good.
            value = each.value or b""
            starts[at] = edge = data.index(value, edge)
            stops[at] = edge = edge + len(value)
    return Chunk(data, starts, stops, _places_of(headers, counts, odd), keys).within(start, end)


def _rising(batch: Batch) -> list[LogRecord]:
    """Decode the records of a batch, whose offsets a chunk is searched by. Raises `InvalidBatchError`."""
    records, header = records_of(batch), batch.header
    edges = [header.base_offset - 1, *(each.offset for each in records), header.end_offset]
    if any(later <= earlier for earlier, later in pairwise(edges)):
        problem = "the offsets of its records do not rise from its first to its last"
        raise InvalidBatchError(problem, position=header.position)
    return records


def _in_step(
    data: bytes, begins: Longs, ends: Longs, counts: Longs
) -> tuple[npt.NDArray[np.bool_], Longs, Longs]:
    """Read so many records of each batch, whose records begin and end there. Return the batches that are as
    the nodes write them, and where the values of their records begin and end."""
    first = np.cumsum(counts) - counts
    at = _record_places(data, begins, counts, first)
    length, after, good = _length(data, at)
    # Attributes, the deltas of time and offset, the key's length and the value's take eight bytes at most.
    words = np.ndarray(len(data) - 7, "<u8", data, strides=(1,))[after]
    good &= words & 0xFFFF == 0
    words >>= 16
    delta = np.arange(len(at)) - np.repeat(first, counts)
    is_long = words & 0x80 != 0
    low = words & 0x7F
    good &= np.where(is_long, low | (words & 0xFF00) >> 1, low) == 2 * delta
    words >>= np.where(is_long, np.uint64(16), np.uint64(8))
    good &= words & 0xFF == _NULL_KEY
    value_length, start, also = _length(data, after + 4 + is_long)
    stop = start + value_length
    bytes_ = np.frombuffer(data, np.uint8)
    good &= also & (bytes_[stop] == 0) & (stop + 1 == after + length)
    right = counts > 0
    if right.any():
        last = (first + counts)[right] - 1
        right[right] = np.logical_and.reduceat(good, first[right]) & ((stop + 1)[last] == ends[right])
    kept = np.repeat(right, counts)
    return right, start[kept], stop[kept]


def _record_places(data: bytes, begins: Longs, counts: Longs, first: Longs) -> Longs:
    """Where the records of all batches begin, by their lengths. `first`: the place of each batch's first
    among them."""
    places = np.zeros(int(counts.sum()), np.int64)
    end = len(data) - len(_PADDING)
    # The longest first: those that have a record left are always the first ones.
    order = np.argsort(-counts, kind="stable")
    counts, position, first = counts[order], begins[order], first[order]
    step, left = 0, int(np.searchsorted(-counts, 0))
    while left >= _FEW:
        now = position[:left]
        places[first[:left] + step] = now
        length, after, _ = _length(data, now)
        position[:left] = np.minimum(after + length, end)
        step += 1
        left = int(np.searchsorted(-counts, -step))
    for at, from_, count in zip(position[:left].tolist(), first.tolist(), counts.tolist(), strict=False):
        rest = []
        for _ in range(step, count):
            rest.append(at)
            low = data[at]
            at += 1 + (low >> 1) if low < 0x80 else 2 + ((low & 0x7F | data[at + 1] << 7) >> 1)
            if at > end:
                at = end
        places[from_ + step : from_ + count] = rest
    return places


def _length(data: bytes, at: Longs) -> tuple[Longs, Longs, npt.NDArray[np.bool_]]:
    """Read lengths: zigzag varints of one byte or two. Return them, the places behind them, and which are
    right."""
    words = np.ndarray(len(data) - 1, "<u2", data, strides=(1,))[at].astype(np.int64)
    is_long = words & 0x80 != 0
    low = words & 0x7F
    raw = np.where(is_long, low | (words & 0xFF00) >> 1, low)
    return raw >> 1, at + 1 + is_long, (raw & 1 == 0) & (~is_long | (words < 0x8000))


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


def snapshot_chunks(reader: SnapshotReader) -> Iterator[Chunk]:
    """The records of a snapshot, all at the last offset that it holds. Raises `DamagedSnapshotError`."""
    values: list[bytes] = []
    size = 0
    for value in reader:
        values.append(value)
        size += len(value)
        if len(values) >= CHUNK_RECORDS or size >= _CHUNK_BYTES:
            yield Chunk.of(values, snapshot_places(reader.contents, len(values)))
            values, size = [], 0
    if values:
        yield Chunk.of(values, snapshot_places(reader.contents, len(values)))


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
