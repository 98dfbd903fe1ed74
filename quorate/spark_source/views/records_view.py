"""`view=records`: every record as it is in the log, with the columns of Spark's Kafka source."""

from collections.abc import Iterator
from typing import Final

import numpy as np
import pyarrow as pa

from quorate.history import METADATA_TOPIC
from quorate.spark_source.chunks import Chunk, parts_of
from quorate.spark_source.columns import TIMESTAMP, nulls
from quorate.spark_source.record_types import types_of

RECORDS: Final = pa.schema(
    [
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
        pa.field("topic", pa.string(), nullable=False),
        pa.field("partition", pa.int32(), nullable=False),
        pa.field("offset", pa.int64(), nullable=False),
        pa.field("timestamp", TIMESTAMP, nullable=False),
        pa.field("timestampType", pa.int32(), nullable=False),
        pa.field("epoch", pa.int32(), nullable=False),
        pa.field("batchOffset", pa.int64()),
        pa.field("recordType", pa.string(), nullable=False),
        pa.field("snapshot", pa.bool_(), nullable=False),
    ]
)
_CREATE_TIME: Final = 0


class RecordsView:
    """Nothing is decoded but the type. Raft's own records have keys, the others have none."""

    schema: Final = RECORDS

    def __init__(self, *, include_control: bool, types: frozenset[str] | None = None) -> None:
        """`types`: those that are asked for, if not all."""
        self._include_control = include_control
        self._wanted = types

    def rows(self, chunk: Chunk) -> Iterator[pa.RecordBatch]:
        """Yield the rows of these records."""
        if chunk.keys and not self._include_control:
            chunk = chunk.without_control()
        types = types_of(chunk)
        if self._wanted is not None:
            kept = np.flatnonzero(types.are_in(self._wanted))
            chunk, types = chunk.take(kept), types.take(kept)
        if not len(chunk):
            return
        count = len(chunk)
        about = chunk.places.columns()
        yield pa.RecordBatch.from_arrays(
            [
                pa.array([chunk.keys.get(at) for at in range(count)], pa.binary())
                if chunk.keys
                else nulls(count, pa.binary()),
                parts_of(chunk.data, chunk.starts, chunk.stops),
                pa.repeat(pa.scalar(METADATA_TOPIC), count),
                pa.repeat(pa.scalar(0, pa.int32()), count),
                about["offset"],
                about["timestamp"],
                pa.repeat(pa.scalar(_CREATE_TIME, pa.int32()), count),
                about["epoch"],
                about["batch_offset"],
                types.column(),
                about["snapshot"],
            ],
            schema=RECORDS,
        )
