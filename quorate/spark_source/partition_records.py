"""Records of partitions, taken apart: each names a partition, and says something that many others say too.

Nearly all records of the metadata log are of partitions. What they say is decoded once for all that say the
same. Whatever does not name its partition as the nodes write it is left out, for the general decoder.
"""

from dataclasses import dataclass
from typing import Final
from uuid import UUID

import numpy as np

from quorate.broker.metadata.metadata_records import Partition, PartitionChange
from quorate.spark_source.chunks import Chunk, Longs, parts_of

KINDS: Final = (Partition, PartitionChange)
_HEAD, _CHANGE_HEAD = 0x000583, 0x000683
"""The first three bytes of these, as little-endian numbers."""
_HEAD_BYTES: Final = 4
_ID_AT: Final = 6
_NUMBER_AT: Final = 23
_PARTITIONS_END: Final = 1 << 31


@dataclass(frozen=True, slots=True)
class PartitionRecords:
    """Records of partitions in a chunk."""

    chunk: Chunk
    at: Longs
    """Their places in the chunk, rising."""
    topics: Longs
    """The number of each record's topic in `topic_ids`."""
    topic_ids: list[UUID]
    numbers: Longs
    """The number of the partition."""
    said: Longs
    """The number of what each says in `examples`: those with equal numbers differ in no other field than
    the topic's id and the partition's number."""
    examples: list[int]
    """The places in the chunk of the first that say so."""
    _ends: Longs
    """Where in the chunk's data the part ends that names the partition, for each of `examples`."""

    def said_bytes(self, said: int) -> bytes:
        """Return all bytes of what is said."""
        chunk, at = self.chunk, self.examples[said]
        start = chunk.starts[at]
        return chunk.data[start : start + _HEAD_BYTES] + chunk.data[self._ends[said] : chunk.stops[at]]


def partition_records(chunk: Chunk) -> PartitionRecords:
    """Take apart the records of the types `KINDS` that name their partition as the nodes write it."""
    head, before, first, rest = (chunk.words(skip) for skip in (0, 4, 22, 24))
    # The map, its field 0 with an id, its field 1, and a number in the shortest of CBOR's forms.
    kind = head & 0xFFFFFF
    named = ((kind == _HEAD) | (kind == _CHANGE_HEAD)) & (head >> 29 == 0b101)
    named &= (before & 0xFFFF == 0x5000) & (first & 0xFF == 1)
    form = first >> 8 & 0xFF
    forms = [form < 0x18, form == 0x18, form == 0x19, form == 0x1A]
    in_two = (rest & 0xFF) << 8 | rest >> 8 & 0xFF
    number = np.select(forms, [form, rest & 0xFF, in_two, rest.astype(np.uint32).byteswap().astype(np.int64)])
    named &= np.select(forms, [0, 0x18, 1 << 8, 1 << 16], _PARTITIONS_END) <= number
    named &= number < _PARTITIONS_END
    ends = chunk.starts + _NUMBER_AT + np.select(forms, [1, 2, 3, 5])
    named &= ends <= chunk.stops
    named[list(chunk.keys)] = False
    at = np.flatnonzero(named)
    starts, ends = chunk.starts[at], ends[at]
    ids = parts_of(chunk.data, starts + _ID_AT, starts + _NUMBER_AT - 1).dictionary_encode()
    others = parts_of(chunk.data, ends, chunk.stops[at]).dictionary_encode()
    # The type, the number of fields, and the bytes behind the partition's number.
    whole = (
        others.indices.to_numpy().astype(np.int64) << 6
        | (kind[at] == _CHANGE_HEAD) << 5
        | head[at] >> 24 & 0x1F
    )
    different, said = numbered(whole)
    examples = np.zeros(len(different), np.int64)
    examples[said[::-1]] = np.arange(len(said))[::-1]
    return PartitionRecords(
        chunk,
        at,
        ids.indices.to_numpy().astype(np.int64),
        [UUID(bytes=each) for each in ids.dictionary.to_pylist()],
        number[at],
        said,
        at[examples].tolist(),
        ends[examples],
    )


def said_in(encoded: bytes) -> bytes:
    """Return the bytes of what a record says, as the nodes encode it."""
    number = encoded[_NUMBER_AT]
    end = _NUMBER_AT + (1 if number < 0x18 else 1 + (1 << number - 0x18))
    return encoded[:_HEAD_BYTES] + encoded[end:]


def numbered(values: Longs) -> tuple[Longs, Longs]:
    """Return the different values, rising, and the place of each value among them. As `numpy.unique`, but
    for small numbers that are not negative: nothing is sorted."""
    used = np.zeros(int(values.max(initial=-1)) + 1, np.bool_)
    used[values] = True
    different = np.flatnonzero(used)
    places = np.zeros(len(used), np.int64)
    places[different] = np.arange(len(different))
    return different, places[values]
