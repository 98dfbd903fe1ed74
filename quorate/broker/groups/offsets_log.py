"""The offsets topic's partitions, as the group coordinator reads and writes them."""

from collections.abc import AsyncIterator, Callable, Sequence
from typing import Final

from kio.schema.errors import ErrorCode

from quorate.broker.groups.offsets_topic import OFFSETS_TOPIC, GroupLogError
from quorate.broker.replication import PartitionError, ProduceItem, ReplicaServices
from quorate.broker.wire import wire_code
from quorate.log import LogError
from quorate.log.batches import Record, RecordContent, build_keyed_batch, read_batches, record_pieces
from quorate.runtime import DiskError, WallClock
from quorate.types import Offset

_READ_BYTES: Final = 1 << 20
_AT_ONCE: Final = 200
"""Records of a batch that are decoded in one piece, which takes less than a ms."""


class OffsetsLog:
    """`GroupLog` over this broker's replicas."""

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
