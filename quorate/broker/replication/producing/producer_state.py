"""Idempotent producers of one partition: what each wrote last, so that a batch sent twice is kept once.

Per producer id: its epoch and its last five batches (KIP-98; five because a producer has at most so many
requests in flight). A leader checks before it appends; a follower records what the leader accepted,
unchecked (KAFKA-6003).
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

import trio

from quorate.broker.replication.foundation.errors import PartitionError
from quorate.broker.replication.foundation.requests import DescribedProducer
from quorate.error_code import ErrorCode
from quorate.log.batches.batch import BatchHeader
from quorate.present import present
from quorate.runtime import Steps

KEPT_BATCHES: Final = 5
_PER_STEP: Final = 200
"""Producers between two yields: 0.5 ms."""
_SEQUENCES: Final = 1 << 31
NO_PRODUCER: Final = -1


def sequence_after(sequence: int, count: int) -> int:
    """Return `sequence` plus `count`; after 2^31-1 comes 0 (KAFKA-5283)."""
    return (sequence + count) % _SEQUENCES


@dataclass(frozen=True, slots=True)
class KeptBatch:
    """A batch that was appended. Sequences and `last_offset` are inclusive."""

    first_sequence: int
    last_sequence: int
    base_offset: int
    last_offset: int
    append_time_ms: int
    """The broker's time in its records. -1: they have their own, or an earlier version kept it."""


@dataclass(slots=True)
class Producer:
    """One producer's state. `batches` are oldest first, at most `KEPT_BATCHES`, never empty."""

    epoch: int
    batches: deque[KeptBatch]
    seen_ms: int
    """The lived time at which this broker last saw a batch of it. Record timestamps don't count: an import
    has old ones, and its producer is alive (Kafka forgets it). Nor does the wall clock: setting it a day on
    must not make retried batches new ones."""

    @property
    def last(self) -> KeptBatch:
        return self.batches[-1]


def monotonic_ms() -> int:
    """Return a time of arbitrary origin whose pace is independent of the wall clock."""
    return int(trio.current_time() * 1000)


class LivedTime:
    """The time that somebody was there to see pass, in ms from 0. A monotonic clock jumps too: when a paused
    machine goes on, or under tools that fake time. Its producers had no chance to send meanwhile, and will
    send their last batch again. So no more than `STEP_MAX_MS` passes between two looks at it."""

    __slots__ = ("_now_ms", "_passed_ms", "_seen_ms")

    STEP_MAX_MS: Final = 300_000
    """Looked at when batches arrive, and by each round of upkeep (log.flush.offset.checkpoint.interval.ms, a
    minute by default; a longer one lets producers live longer)."""

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self._now_ms = now_ms
        self._seen_ms: int | None = None
        self._passed_ms = 0

    def now_ms(self) -> int:
        now_ms = self._now_ms()
        if self._seen_ms is not None:
            self._passed_ms += min(max(0, now_ms - self._seen_ms), self.STEP_MAX_MS)
        self._seen_ms = now_ms
        return self._passed_ms


class ProducerState:
    """The producers of one partition. `end_offset`: the log up to there (exclusive) is in it."""

    __slots__ = ("_before", "_now_ms", "end_offset", "producers")

    def __init__(self, end_offset: int = 0, *, now_ms: Callable[[], int] = monotonic_ms) -> None:
        self.end_offset = end_offset
        self.producers: dict[int, Producer] = {}
        self._now_ms = LivedTime(now_ms).now_ms
        self._before: dict[int, FrozenProducer | None] | None = None
        """The former state of producers that changed while the state is read in pieces."""

    def check(self, header: BatchHeader) -> KeptBatch | None:
        """Return None if the leader may append this batch, or the kept batch that it repeats, whose offsets
        are the answer. Raises `PartitionError`."""
        producer = self.producers.get(header.producer_id)
        if header.producer_id == NO_PRODUCER or producer is None:
            # Without state any sequence goes: it may have expired, or been lost with its records.
            return None
        if header.producer_epoch < producer.epoch:
            raise PartitionError(
                ErrorCode.INVALID_PRODUCER_EPOCH,
                f"producer {header.producer_id} has epoch {producer.epoch}, and not {header.producer_epoch}",
            )
        first = header.base_sequence
        if header.producer_epoch > producer.epoch:
            if first != 0:
                raise PartitionError(
                    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                    f"producer {header.producer_id} begins epoch {header.producer_epoch} at {first}, not 0",
                )
            return None
        last = sequence_after(first, header.last_offset_delta)
        for kept in producer.batches:
            if kept.first_sequence == first and kept.last_sequence == last:
                return kept
        expected = sequence_after(producer.last.last_sequence, 1)
        if first != expected:
            raise PartitionError(
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"producer {header.producer_id} sent sequence {first} where {expected} comes next",
            )
        return None

    def record(self, header: BatchHeader, base_offset: int) -> None:
        """Record the batch, which is in the log at `base_offset`."""
        last_offset = base_offset + header.last_offset_delta
        self.end_offset = last_offset + 1
        if header.producer_id == NO_PRODUCER or header.is_control:
            return
        kept = KeptBatch(
            header.base_sequence,
            sequence_after(header.base_sequence, header.last_offset_delta),
            base_offset,
            last_offset,
            header.max_timestamp if header.is_log_append_time else -1,
        )
        producer = self.producers.get(header.producer_id)
        self._keep(header.producer_id, producer)
        if producer is None or producer.epoch != header.producer_epoch:
            batches = deque((kept,), KEPT_BATCHES)
            self.producers[header.producer_id] = Producer(header.producer_epoch, batches, self._now_ms())
        else:
            producer.batches.append(kept)
            producer.seen_ms = self._now_ms()

    def replay(self, headers: Iterable[BatchHeader]) -> None:
        """Record headers read from the log, in order, from `end_offset` on."""
        for header in headers:
            self.record(header, header.base_offset)

    def silent_ms(self, producer: Producer) -> int:
        """Return the time since its last batch."""
        return max(0, self._now_ms() - producer.seen_ms)

    def described(self, wall_clock_ms: Callable[[], int]) -> Iterator[DescribedProducer]:
        """Yield the producers, those first that came first. Some that expire or come meanwhile may be
        missing. They may be many, and are not sorted."""
        for key in list(self.producers):
            producer = self.producers.get(key)
            if producer is not None:
                yield DescribedProducer(
                    producer_id=key,
                    producer_epoch=producer.epoch,
                    last_sequence=producer.last.last_sequence,
                    last_timestamp_ms=wall_clock_ms() - self.silent_ms(producer),
                )

    def restore(self, producer_id: int, epoch: int, batches: deque[KeptBatch], *, silent_ms: int) -> None:
        """Restore a producer from a snapshot. The time that this broker was down does not count as
        silence."""
        self.producers[producer_id] = Producer(epoch, batches, self._now_ms() - silent_ms)

    def expire_steps(self, *, after_ms: int) -> Steps[int]:
        """Forget producers that were silent for longer, and return their number. Others may be recorded
        meanwhile."""
        oldest_ms = self._now_ms() - after_ms
        expired = 0
        for number, key in enumerate(list(self.producers), 1):
            producer = self.producers.get(key)
            if producer is not None and producer.seen_ms < oldest_ms:
                self._keep(key, producer)
                del self.producers[key]
                expired += 1
            if number % _PER_STEP == 0:
                yield
        return expired

    def frozen_steps(self, take: Callable[[int, "FrozenProducer"], None]) -> Steps[None]:
        """Show `take` each producer as it is now, however it changes in between. One at a time."""
        if self._before is not None:
            raise RuntimeError("the producers are read in pieces already")
        now_ms = self._now_ms()
        self._before = {}
        try:
            for number, key in enumerate(list(self.producers), 1):
                before = self._before.pop(key) if key in self._before else _frozen(self.producers[key])
                frozen = present(before, "a producer of the list")
                take(key, frozen._replace(silent_ms=max(0, now_ms - frozen.silent_ms)))
                if number % _PER_STEP == 0:
                    yield
        finally:
            self._before = None

    def _keep(self, key: int, producer: Producer | None) -> None:
        """Keep the producer's state before it changes or is added."""
        if self._before is not None and key not in self._before:
            self._before[key] = None if producer is None else _frozen(producer)


class FrozenProducer(NamedTuple):
    """A producer at one moment."""

    epoch: int
    batches: tuple[KeptBatch, ...]
    silent_ms: int
    """The time since its last batch."""


def _frozen(producer: Producer) -> FrozenProducer:
    """Freeze a producer together with the time when it was seen, for readers that know the present time."""
    return FrozenProducer(producer.epoch, tuple(producer.batches), producer.seen_ms)
