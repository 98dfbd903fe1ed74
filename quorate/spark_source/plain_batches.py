"""The values of many small batches at once.

A batch of the metadata log has some seven records, and to call a function for each costs more than to read
it. So many batches are read in step: numpy reads the first record of all of them, then the second, and so on.
Whatever is not exactly as the nodes write it is left to the general way (`records_of`), with its errors.
"""

from collections.abc import Sequence
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from quorate.log.batches.batch import HEADER_BYTES, Batch

Longs: TypeAlias = npt.NDArray[np.int64]

_RECORDS_MAX: Final = 64
"""Offset deltas below this take one byte. Of larger batches one by one is as fast."""
_VALUE_MAX: Final = 1 << 13
"""Lengths below this take one byte or two."""
_FEW: Final = 8
"""For fewer batches numpy's own costs are more than it saves."""


def values_of_many(batches: Sequence[Batch]) -> list[list[bytes] | None]:
    """Return the values of the records of each batch. None: they are to be read in the general way."""
    counts = np.array([_plain_count(batch) for batch in batches], np.int64)
    sizes = np.array([batch.header.size - HEADER_BYTES for batch in batches], np.int64)
    data = b"".join([batch.data[HEADER_BYTES:] for batch in batches])
    # No index that is made of untrusted lengths is beyond the padding.
    bytes_ = np.frombuffer(data + bytes(2 * _VALUE_MAX), np.uint8)
    ends = np.cumsum(sizes)
    positions = ends - sizes
    firsts = np.cumsum(counts) - counts
    starts = np.zeros(int(counts.sum()), np.int64)
    lengths = np.zeros(len(starts), np.int64)
    good = counts > 0
    for step in range(int(counts.max(initial=0))):
        at = np.flatnonzero(good & (counts > step))
        if len(at) < _FEW:
            good[at] = False
            break
        position = positions[at]
        length, after, right = _length(bytes_, position)
        right &= (bytes_[after] == 0) & (bytes_[after + 1] == 0) & (bytes_[after + 2] == 2 * step)
        right &= bytes_[after + 3] == 1
        value_length, value_start, also = _length(bytes_, after + 4)
        value_end = value_start + value_length
        right &= also & (bytes_[value_end] == 0) & (value_end + 1 == after + length)
        right &= value_end < ends[at]
        index = firsts[at] + step
        starts[index], lengths[index] = value_start, value_length
        positions[at] = np.where(right, value_end + 1, position)
        good[at] = right
    good &= positions == ends
    values = [
        data[start:end] for start, end in zip(starts.tolist(), (starts + lengths).tolist(), strict=True)
    ]
    edges = firsts.tolist()
    return [
        values[first : first + count] if right else None
        for first, count, right in zip(edges, counts.tolist(), good.tolist(), strict=True)
    ]


def _plain_count(batch: Batch) -> int:
    """The number of records of a batch that may be plain, and small; 0 for any other."""
    header = batch.header
    return header.count if not header.attributes and header.count <= _RECORDS_MAX else 0


def _length(bytes_: npt.NDArray[np.uint8], at: Longs) -> tuple[Longs, Longs, npt.NDArray[np.bool_]]:
    """Read lengths, zigzag varints of one byte or two. Return them, the places behind, and which are
    right."""
    low = bytes_[at].astype(np.int64)
    high = bytes_[at + 1].astype(np.int64)
    long = low >= 0x80
    raw = np.where(long, (low & 0x7F) | high << 7, low)
    return raw >> 1, at + 1 + long, (raw & 1 == 0) & (~long | (high < 0x80))
