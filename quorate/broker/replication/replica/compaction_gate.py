"""Compaction of one log, kept apart from what cuts, moves or removes the log."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

import trio

from quorate.broker.metadata import TopicConfig
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
    """At most one pass at a time, and none while the gate is `closed`."""

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
