"""The parts of a replica beside its log and its role: the gate for compaction, the known damage, and the
mirror of a move between directories."""

from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager

import trio

from quorate.broker.settings.topic_config import TopicConfig
from quorate.log import DamagedRange, Log, LogError
from quorate.log.batches.batch import BatchHeader
from quorate.runtime import Buffer, DiskError
from quorate.types import Epoch, Offset
from quorate.value import value


@value(frozen=True, slots=True)
class CompactionSettings:
    """The settings of a compacted topic. Durations in ms."""

    dirty_ratio: float
    min_lag_ms: int
    max_lag_ms: int
    delete_retention_ms: int
    segment_ms: int

    @classmethod
    def of(cls, config: TopicConfig) -> "CompactionSettings | None":
        """Return the settings. None: the topic is not compacted."""
        if not config.cleanup_compact:
            return None
        return cls(
            config.min_cleanable_dirty_ratio,
            config.min_compaction_lag_ms,
            config.max_compaction_lag_ms,
            config.delete_retention_ms,
            min(config.segment_ms, config.max_compaction_lag_ms),
        )


class CompactionStoppedError(Exception):
    """A pass ends without a change of the log, for the reason that the message has."""


class CompactionPass:
    """One pass over a log. It looks at `check` between two pieces of work."""

    __slots__ = ("_why", "ended", "stopped")

    def __init__(self) -> None:
        self.stopped = trio.Event()
        self.ended = trio.Event()
        self._why = ""

    def stop(self, why: str) -> None:
        """Let it end soon."""
        if not self.stopped.is_set():
            self._why = why
            self.stopped.set()

    def check(self) -> None:
        """Raise `CompactionStoppedError` if it should end."""
        if self.stopped.is_set():
            raise CompactionStoppedError(self._why)


class CompactionGate:
    """Keeps compaction of one log apart from what cuts, moves or removes the log: at most one pass at a time,
    and none while the gate is `closed`."""

    __slots__ = ("_closed", "_pass", "settings")

    def __init__(self) -> None:
        self.settings: CompactionSettings | None = None
        """None: the topic is not compacted."""
        self._pass: CompactionPass | None = None
        self._closed = 0

    @property
    def is_open(self) -> bool:
        """Return whether a pass may begin."""
        return self.settings is not None and self._pass is None and not self._closed

    def configure(self, settings: CompactionSettings | None) -> None:
        """Apply the topic's settings. A pass under way ends if the topic isn't compacted any more
        (KAFKA-12840)."""
        self.settings = settings
        if settings is None:
            self.stop("the topic's cleanup.policy has changed")

    def stop(self, why: str) -> None:
        """Let a pass that is under way end soon."""
        if self._pass is not None:
            self._pass.stop(why)

    @contextmanager
    def passing(self) -> Iterator[CompactionPass]:
        """Wrap a pass. The gate must be open."""
        under_way = self._pass = CompactionPass()
        try:
            yield under_way
        finally:
            self._pass = None
            under_way.ended.set()

    @asynccontextmanager
    async def closed(self, why: str) -> AsyncIterator[None]:
        """End the pass that is under way, and let none begin. However the block ends, passes may begin again
        (KAFKA-3123)."""
        self._closed += 1
        try:
            under_way = self._pass
            if under_way is not None:
                under_way.stop(why)
                await under_way.ended.wait()
            yield
        finally:
            self._closed -= 1


class KnownDamage:
    """The ranges that a scrub found, in ascending order. Mutable; owned by the replica."""

    __slots__ = ("_ranges",)

    def __init__(self) -> None:
        self._ranges: tuple[DamagedRange, ...] = ()

    def __bool__(self) -> bool:
        return bool(self._ranges)

    def __iter__(self) -> Iterator[DamagedRange]:
        return iter(self._ranges)

    def found(self, path: str, ranges: Sequence[DamagedRange]) -> list[DamagedRange]:
        """A segment was read anew: these are its ranges now. Return those that were not known."""
        known = {each.position for each in self._ranges if each.path == path}
        others = [each for each in self._ranges if each.path != path]
        self._ranges = tuple(sorted([*others, *ranges], key=_start))
        return [each for each in ranges if each.position not in known]

    def ahead(self, offset: int) -> DamagedRange | None:
        """The first range that ends above `offset`; it may begin there or below."""
        return next((each for each in self._ranges if each.end_offset > offset), None)

    def keep(self, start_offset: int, end_offset: int) -> None:
        """The log holds [`start_offset`, `end_offset`) now: forget the damage outside."""
        if self._ranges:
            self._ranges = tuple(
                each
                for each in self._ranges
                if each.end_offset > start_offset and each.start_offset < end_offset
            )


def _start(found: DamagedRange) -> Offset:
    return found.start_offset


class Mirror:
    """The log of a future replica that has everything. It takes each append of the replica's own log in the
    same call, until it takes that log's place. So its end and its epochs are always the log's. An error
    doesn't reach the caller of an append: `lost` is called, which takes the mirror away, or fails the replica
    if the mirror is needed."""

    __slots__ = ("_lost", "log")

    def __init__(self, log: Log, lost: Callable[[Exception], None]) -> None:
        self.log = log
        self._lost = lost

    def append_as_leader(self, records: Buffer, epoch: int, *, headers: Sequence[BatchHeader]) -> None:
        """Append the batches that the log has just appended."""
        self._try(lambda: self.log.append_as_leader(records, epoch, headers=headers))

    def append_as_follower(self, records: Buffer, *, headers: Sequence[BatchHeader]) -> None:
        """Append the batches that the log has just appended."""
        self._try(lambda: self.log.append_as_follower(records, headers=headers, in_memory=False))

    def start_epoch(self, epoch: Epoch) -> None:
        """Begin the epoch that the log has begun."""
        self.log.start_epoch(epoch)

    def _try(self, append: Callable[[], object]) -> None:
        try:
            append()
        except (DiskError, LogError) as error:
            self._lost(error)
