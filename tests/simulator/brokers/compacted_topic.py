"""A compacted topic of a simulated broker cluster: a producer with keys and tombstones per partition, a
consumer that keeps up, and the checks of the records that compaction may and may not remove."""

import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import trio
from kio.schema.errors import ErrorCode

from quorate.broker.wire.kafka_client import WireClient
from quorate.log import Log
from quorate.log.batches.batch import read_batches
from quorate.log.batches.records import RecordContent, build_keyed_batch, records_of
from quorate.simulation.patience import holds_within, must_end
from quorate.simulation.violations import LivenessViolation, SafetyViolation
from tests.simulator.brokers.broker_cluster import BrokerCluster
from tests.simulator.brokers.partition_clients import (
    TIMEOUT_S,
    PartitionClients,
    UnusableError,
    produce,
    records_in,
)

COMPACTED: Final = "latest"
_RECORDS_MAX: Final = 4
_TOMBSTONES: Final = 0.25
"""The share of records without a value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactedSettings:
    """`retention_ms`: of tombstones. It must be longer than any replica or consumer is away, also by a clock
    that jumps: otherwise Kafka's rules let a deleted key come back."""

    keys: int = 5
    think_max_s: float = 0.15
    segment_bytes: int = 600
    dirty_ratio: float = 0.01
    min_lag_ms: int = 0
    max_lag_ms: int | None = None
    retention_ms: int = 20_000
    tombstones_go: bool = True
    """The run waits at the end until all replicas have removed them."""

    @property
    def configs(self) -> Mapping[str, str]:
        """The settings of the topic."""
        values = {
            "cleanup.policy": "compact",
            "segment.bytes": str(self.segment_bytes),
            "min.cleanable.dirty.ratio": str(self.dirty_ratio),
            "min.compaction.lag.ms": str(self.min_lag_ms),
            "delete.retention.ms": str(self.retention_ms),
            "message.timestamp.type": "LogAppendTime",
        }
        if self.max_lag_ms is not None:
            values["max.compaction.lag.ms"] = str(max(self.max_lag_ms, self.min_lag_ms))
        return values


@dataclass(frozen=True, slots=True)
class _Written:
    """A record that was acknowledged."""

    offset: int
    key: bytes
    value: bytes | None
    begun_s: float
    ended_s: float


@dataclass(frozen=True, slots=True)
class _Missed:
    """Offsets that a consumer passed without getting records of them."""

    start: int
    end: int
    got: frozenset[int]
    now_s: float


class CompactedTopic(PartitionClients):
    """`finish` lets the producers complete the batches that they have begun. Consumers read on until
    cancelled."""

    def __init__(self, cluster: BrokerCluster, settings: CompactedSettings, source: random.Random) -> None:
        super().__init__(cluster, COMPACTED, source)
        self._settings = settings
        partitions = range(cluster.settings.partitions)
        self._written: dict[int, list[_Written]] = {partition: [] for partition in partitions}
        self._missed: dict[int, list[_Missed]] = {partition: [] for partition in partitions}
        self._seen: dict[int, dict[int, tuple[bytes, bytes | None]]] = {each: {} for each in partitions}
        """The record that any consumer read at an offset, by partition."""
        self._folded: dict[int, dict[bytes, bytes]] = {partition: {} for partition in partitions}
        """Each partition as its consumer knows it: the last value of each key."""
        self._positions = dict.fromkeys(partitions, 0)
        """The positions of the consumers."""

    async def produce(self) -> None:
        """Run a producer per partition until they have finished."""
        async with trio.open_nursery() as nursery:
            for partition in self._written:
                nursery.start_soon(self._produce, partition, self._derived())

    async def consume(self) -> None:
        """Read all partitions from the start on."""
        async with trio.open_nursery() as nursery:
            for partition in self._written:
                nursery.start_soon(self._consume, partition, self._derived())

    async def consumed(self, *, within_s: float) -> None:
        """Wait until the consumers have read everything. Raises `LivenessViolation`."""
        if not await holds_within(within_s, self._is_consumed):
            raise LivenessViolation(f"the consumers of {self.topic} are at {self._positions}")

    def _is_consumed(self) -> bool:
        return all(
            not written or self._positions[partition] > written[-1].offset
            for partition, written in self._written.items()
        )

    # Producing

    async def _produce(self, partition: int, source: random.Random) -> None:
        """An idempotent producer, which repeats each batch until it is acknowledged: so it knows all."""
        client, numbers = f"keyed-{partition}", iter(range(1 << 30))
        producer: list[int] = []
        begun: list[tuple[Sequence[RecordContent], float]] = []

        async def use(connection: WireClient) -> bool:
            if not producer:
                producer[:] = [*await self.new_producer(connection), 0]
            if not begun:
                if self._finish.is_set():
                    return True
                begun.append((self._draw(client, next(numbers), source), trio.current_time()))
            records, begun_s = begun[0]
            base_offset = await self._send(connection, partition, records, producer)
            producer[2] += len(records)
            now = trio.current_time()
            for offset, record in enumerate(begun.pop()[0], base_offset):
                self._written[partition].append(
                    _Written(offset, record.key or b"", record.value, begun_s, now)
                )
            await self._pause(source, self._settings.think_max_s)
            return False

        await self.with_leader(client, partition, source, use)

    def _draw(self, client: str, number: int, source: random.Random) -> Sequence[RecordContent]:
        keys = [b"key-%d" % source.randrange(self._settings.keys) for _ in range(_RECORDS_MAX)]
        return [
            RecordContent(
                key,
                None
                if source.random() < _TOMBSTONES
                else b"%s/%d/%d %s" % (client.encode(), number, part, b"." * source.randrange(40)),
            )
            for part, key in enumerate(keys[: source.randint(1, _RECORDS_MAX)])
        ]

    async def _send(
        self,
        connection: WireClient,
        partition: int,
        records: Sequence[RecordContent],
        producer: Sequence[int],
    ) -> int:
        data = build_keyed_batch(
            base_offset=0,
            epoch=-1,
            timestamp_ms=0,
            records=records,
            producer_id=producer[0],
            producer_epoch=producer[1],
            base_sequence=producer[2],
        )
        answer = await produce(connection, self.topic, partition, data, timeout_s=TIMEOUT_S)
        if answer.error in (ErrorCode.out_of_order_sequence_number, ErrorCode.unknown_producer_id):
            self._cluster.found(
                "CompactionKeepsSequences",
                SafetyViolation(f"{self.topic}-{partition}, sequence {producer[2]}: {answer.error.name}"),
            )
        if answer.error is not ErrorCode.none:
            raise UnusableError
        return answer.base_offset

    # Consuming

    async def _consume(self, partition: int, source: random.Random, *, until: int | None = None) -> None:
        client = f"keyed-consumer-{partition}" if until is None else f"keyed-auditor-{partition}"
        folded = self._folded[partition] if until is None else dict[bytes, bytes]()
        position = 0

        async def use(connection: WireClient) -> bool:
            nonlocal position
            if until is not None and position >= until:
                return True
            fetched = await self.fetch_at(connection, client, partition, position)
            if fetched.error is not ErrorCode.none:
                raise UnusableError
            for batch in read_batches(b"".join(fetched.records)):
                got = [each for each in records_of(batch) if each.offset >= position]
                for record in got:
                    if record.offset >= fetched.high_watermark:
                        raise SafetyViolation(
                            f"NothingAboveTheHighWatermark: {client} got offset {record.offset}, the high "
                            f"watermark is {fetched.high_watermark}"
                        )
                    self._note(client, partition, record.offset, record.key or b"", record.value)
                    _fold(folded, record.key or b"", record.value)
                end = batch.header.end_offset
                offsets = frozenset(each.offset for each in got)
                if until is None and len(offsets) < end - position:
                    missed = _Missed(position, end, offsets, trio.current_time())
                    self._missed[partition].append(missed)
                position = max(position, end)
            if until is None:
                self._positions[partition] = position
            return False

        await self.with_leader(client, partition, source, use)
        self._check_values(client, partition, folded)

    def _note(self, who: str, partition: int, offset: int, key: bytes, value: bytes | None) -> None:
        known = self._seen[partition].setdefault(offset, (key, value))
        if known != (key, value):
            self._cluster.found(
                "WhatWasReadStays",
                SafetyViolation(f"{who} has {key!r}={value!r} at {partition}/{offset}, which was {known}"),
            )

    # Checks

    async def check(self, *, within_s: float) -> None:
        """Each replica, a consumer that begins now and one that has kept up all have the last value of each
        key and no more. For a cluster that is in sync and idle. Raises `SafetyViolation`,
        `LivenessViolation`."""
        for partition in self._written:
            self._check_missed(partition)
            for name, log in self._logs(partition):
                await self._check_replica(name, partition, log)
            # Followers hear of the high watermark later.
            end = max(log.end_offset for _, log in self._logs(partition))
            with must_end(within_s, f"{self.topic}-{partition} can't be read up to {end}"):
                await self._consume(partition, self._derived(), until=end)
            self._check_values(f"keyed-consumer-{partition}", partition, self._folded[partition])
        for node in self._cluster.nodes:
            broker = node.serving.broker
            assert broker is not None
            bad = {path: logs for path, (logs, _) in broker.replicas.cleaning.uncleanable.items() if logs}
            if bad:
                raise SafetyViolation(f"EveryLogIsCompacted: {node.name} can't compact {bad}")

    async def check_tombstones_go(self, *, within_s: float) -> None:
        """After delete.retention.ms no replica has a tombstone of now any more. More is written meanwhile, so
        that segments roll. Raises `LivenessViolation`."""
        marks = {each: max(log.end_offset for _, log in self._logs(each)) for each in self._written}
        more = CompactedTopic(self._cluster, self._settings, self._derived())
        left: list[str] = []
        async with trio.open_nursery() as nursery:
            nursery.start_soon(more.produce)
            with trio.move_on_after(self._settings.retention_ms / 1000 + within_s):
                while left := await self._tombstones(marks):  # noqa: ASYNC110
                    await trio.sleep(1)
            more.finish()
        if left:
            raise LivenessViolation(f"TombstonesGo: they are still there: {left}")

    async def _tombstones(self, marks: Mapping[int, int]) -> list[str]:
        return [
            f"{name}: {record.offset} of {partition}"
            for partition, mark in marks.items()
            for name, log in self._logs(partition)
            for record in await records_in(log, below=mark)
            if record.value is None and record.offset < mark
        ]

    @property
    def passes(self) -> int:
        """The compactions that have ended well, in the brokers' present lives."""
        brokers = (node.serving.broker for node in self._cluster.running)
        return sum(broker.replicas.cleaning.passes for broker in brokers if broker is not None)

    def _logs(self, partition: int) -> Iterable[tuple[str, Log]]:
        for node in self._cluster.nodes:
            broker = node.serving.broker
            assert broker is not None
            yield node.name, broker.replicas.lookups.partition(self.topic, partition).log

    async def _check_replica(self, name: str, partition: int, log: Log) -> None:
        folded: dict[bytes, bytes] = {}
        for record in await records_in(log):
            self._note(name, partition, record.offset, record.key or b"", record.value)
            _fold(folded, record.key or b"", record.value)
        self._check_values(name, partition, folded)

    def _check_values(self, who: str, partition: int, folded: Mapping[bytes, bytes]) -> None:
        expected: dict[bytes, bytes] = {}
        for each in self._written[partition]:
            _fold(expected, each.key, each.value)
        if folded != expected:
            raise SafetyViolation(
                f"TheLastValueOfEachKeyStays: {who} has {dict(folded)} in {self.topic}-{partition}, and not "
                f"{expected}"
            )

    def _check_missed(self, partition: int) -> None:
        """A consumer that passed a record without getting it must have been late, or a newer record of the
        key was written before."""
        written = self._written[partition]
        for missed in self._missed[partition]:
            for each in written:
                if not missed.start <= each.offset < missed.end or each.offset in missed.got:
                    continue
                superseded = any(
                    later.key == each.key and later.offset > each.offset and later.begun_s <= missed.now_s
                    for later in written
                )
                late = (
                    each.value is None and missed.now_s >= each.ended_s + self._settings.retention_ms / 1000
                )
                if not superseded and not late:
                    raise SafetyViolation(
                        f"WhoKeepsUpMissesNothing: the consumer of {self.topic}-{partition} passed {each} at "
                        f"{missed.now_s} without getting it"
                    )


def _fold(values: dict[bytes, bytes], key: bytes, value: bytes | None) -> None:
    if value is None:
        values.pop(key, None)
    else:
        values[key] = value
