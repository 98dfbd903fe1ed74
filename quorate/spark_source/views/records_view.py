"""`view=records`: every record as it is in the log, with the columns of Spark's Kafka source."""

from collections.abc import Iterator
from typing import Final

import numpy as np
import pyarrow as pa

from quorate.history import METADATA_TOPIC, DamagedRecordError
from quorate.history.entries import type_of_control
from quorate.spark_source.chunks import Chunk
from quorate.spark_source.columns import TIMESTAMP
from quorate.spark_source.record_types import TypeNames

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
        self._types = TypeNames()

    def rows(self, chunk: Chunk) -> Iterator[pa.RecordBatch]:
        """Yield the rows of these records."""
        places, values = chunk.places, chunk.values
        keys: list[bytes | None] = [None] * len(values)
        offsets = places.offsets.tolist()
        types = [self._type_of(chunk, at, offset) for at, offset in enumerate(offsets)]
        for at, key in chunk.keys.items():
            keys[at] = key
        if self._wanted is not None or (chunk.keys and not self._include_control):
            kept = [
                at
                for at, name in enumerate(types)
                if (self._wanted is None or name in self._wanted)
                and (self._include_control or at not in chunk.keys)
            ]
            if not kept:
                return
            places = places.take(np.array(kept))
            keys, values = [keys[at] for at in kept], [values[at] for at in kept]
            types = [types[at] for at in kept]
        count = len(values)
        about = places.columns()
        yield pa.RecordBatch.from_arrays(
            [
                pa.array(keys, pa.binary()),
                pa.array(values, pa.binary()),
                pa.repeat(pa.scalar(METADATA_TOPIC), count),
                pa.repeat(pa.scalar(0, pa.int32()), count),
                about["offset"],
                about["timestamp"],
                pa.repeat(pa.scalar(_CREATE_TIME, pa.int32()), count),
                about["epoch"],
                about["batch_offset"],
                pa.array(types, pa.string()),
                about["snapshot"],
            ],
            schema=RECORDS,
        )

    def _type_of(self, chunk: Chunk, at: int, offset: int) -> str:
        if at not in chunk.keys:
            return self._types.of(chunk.values[at], offset)
        try:
            return type_of_control(chunk.control(at))
        except ValueError as error:
            raise DamagedRecordError(f"the record at offset {offset}: {error}") from error
