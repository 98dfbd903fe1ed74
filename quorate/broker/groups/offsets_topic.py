"""`__consumer_offsets`: the partition of each group, and the records of those that this broker leads."""

from collections.abc import AsyncIterator, Callable, Sequence
from typing import Final, Protocol

from kio.schema.errors import ErrorCode

from quorate.broker.replication.foundation.errors import PartitionError
from quorate.broker.replication.foundation.requests import ProduceItem
from quorate.broker.replication.wiring import ReplicaServices
from quorate.broker.wire.wire_errors import wire_code
from quorate.log import LogError
from quorate.log.batches.batch import read_batches
from quorate.log.batches.records import Record, RecordContent, build_keyed_batch, record_pieces
from quorate.runtime import DiskError, WallClock
from quorate.types import Offset

OFFSETS_TOPIC: Final = "__consumer_offsets"
_READ_BYTES: Final = 1 << 20
_AT_ONCE: Final = 200
"""The number of records of a batch that are decoded in one piece, in less than a ms."""


class GroupLogError(Exception):
    """The partition can't be read here: another broker leads it, or its log failed."""


class GroupLog(Protocol):
    """The partitions of `__consumer_offsets` that are led here."""

    def records(self, partition: int) -> AsyncIterator[Sequence[Record]]:
        """Read everything up to the log end offset as of the call, some hundred records at a time. Raises
        `GroupLogError`."""
        ...

    def append(
        self, partition: int, records: Sequence[RecordContent], done: Callable[[ErrorCode, Offset], None]
    ) -> None:
        """Append with acks=all, now. `done` gets the partition's error and the base offset, maybe before this
        returns."""
        ...


def java_hash(text: str) -> int:
    """Java's String.hashCode: clients and tools expect groups where Kafka would put them."""
    value = 0
    data = text.encode("utf-16-be", "surrogatepass")
    for high, low in zip(data[::2], data[1::2], strict=True):
        value = (31 * value + (high << 8 | low)) & 0xFFFFFFFF
    return value - (1 << 32) if value >= 1 << 31 else value


def partition_of(group_id: str, partitions: int) -> int:
    """Return the partition by Kafka's Utils.abs: the one number without an absolute value counts as 0."""
    value = java_hash(group_id)
    return (0 if value == -(1 << 31) else abs(value)) % partitions


class OffsetsLog:
    """The `GroupLog` of a broker, over its replicas."""

    def __init__(self, replicas: ReplicaServices, wall_clock: WallClock, *, timeout_ms: int) -> None:
        self._replicas = replicas
        self._wall_clock = wall_clock
        self._timeout_ms = timeout_ms

    async def records(self, partition: int) -> AsyncIterator[Sequence[Record]]:
        try:
            led = self._replicas.lookups.partition(OFFSETS_TOPIC, partition)
            epoch = led.check_leading().leader_epoch
            offset: int = led.log.log_start_offset
            end = led.log.end_offset
            while offset < end:
                data = await led.log.read(offset, _READ_BYTES, end_offset=end)
                if led.check_leading().leader_epoch != epoch:
                    raise GroupLogError(f"{led} was elected again while it was read")
                if not data:
                    # Compaction has left nothing up to there (KAFKA-9065), unless the log has lost its end.
                    if led.log.end_offset < end:
                        raise GroupLogError(f"{led} ends at {led.log.end_offset}, and not at {end}")
                    return
                for batch in read_batches(data):
                    if not batch.header.is_control:
                        for piece in record_pieces(batch, most=_AT_ONCE):
                            yield piece
                    offset = batch.header.end_offset
        except (PartitionError, LogError, DiskError) as error:
            raise GroupLogError(str(error)) from error

    def append(
        self, partition: int, records: Sequence[RecordContent], done: Callable[[ErrorCode, Offset], None]
    ) -> None:
        batch = build_keyed_batch(
            base_offset=0, epoch=0, timestamp_ms=self._wall_clock.now_ms(), records=records
        )
        pending = self._replicas.produces.append(
            [ProduceItem(OFFSETS_TOPIC, partition, batch)],
            acks=-1,
            timeout_ms=self._timeout_ms,
            internal=True,
        )

        def completed() -> None:
            result = pending.results()[0]
            done(wire_code(result.error), result.base_offset)

        pending.notify(completed)
