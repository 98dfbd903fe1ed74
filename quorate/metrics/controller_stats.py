"""Counts of one node's controller (KIP-835)."""

from collections.abc import Iterator

from prometheus_client.core import Metric

from quorate.metrics.declarations import EVENT_PROCESSING_TIME, EVENT_QUEUE_TIME
from quorate.metrics.histogram import Histogram


class ControllerStats:
    """Counts of one node's controller since the node started (KIP-835). It implements the controller's
    `ControllerTelemetry`."""

    __slots__ = ("_processing", "_queued", "errors", "operations_timed_out", "timed_out_heartbeats")

    def __init__(self) -> None:
        self._queued = Histogram()
        self._processing = Histogram()
        self.errors = 0
        self.operations_timed_out = 0
        self.timed_out_heartbeats = 0

    @property
    def operations_started(self) -> int:
        """The number of operations that the controller has started."""
        return self._processing.count

    def performed(self, *, late_seconds: float, busy_seconds: float) -> None:
        """Record an operation that waited for `late_seconds` and ran for `busy_seconds`."""
        self._queued.record(late_seconds)
        self._processing.record(busy_seconds)

    def given_up(self) -> None:
        """Count an operation that timed out."""
        self.operations_timed_out += 1

    def broker_timed_out(self) -> None:
        """Count a broker whose heartbeats have stopped."""
        self.timed_out_heartbeats += 1

    def failed(self) -> None:
        """Count an unexpected error in the controller."""
        self.errors += 1

    def families(self) -> Iterator[Metric]:
        """Yield the histograms of waiting times and of processing times."""
        yield from self._queued.families(EVENT_QUEUE_TIME)
        yield from self._processing.families(EVENT_PROCESSING_TIME)
