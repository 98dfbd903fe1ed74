"""Averages, maxima and rates over the recent past, as Kafka samples them.

Kafka keeps two samples of 30 s each (`metrics.num.samples`, `metrics.sample.window.ms`): a figure is of the
last 30 to 60 seconds.
"""

from collections.abc import Callable
from dataclasses import dataclass

SAMPLE_SECONDS = 30.0
SAMPLES = 2


@dataclass(slots=True)
class _Sample:
    start: float
    total: float = 0.0
    count: float = 0.0
    largest: float = 0.0


class Window:
    """Figures recorded in the last one to two samples."""

    __slots__ = ("_now", "_samples")

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._samples = [_Sample(now())]

    def record(self, value: float, weight: float = 1.0) -> None:
        """`weight` occurrences of `value` (for an average of ratios: a duration)."""
        sample = self._current()
        sample.total += value * weight
        sample.count += weight
        sample.largest = max(sample.largest, value)

    def _current(self) -> _Sample:
        now = self._now()
        sample = self._samples[-1]
        if now - sample.start >= SAMPLE_SECONDS:
            sample = _Sample(now)
            self._samples.append(sample)
        self._forget(now)
        return sample

    def _forget(self, now: float) -> None:
        while len(self._samples) > 1 and self._samples[0].start <= now - SAMPLE_SECONDS * SAMPLES:
            self._samples.pop(0)

    def _recent(self) -> list[_Sample]:
        self._current()
        return self._samples

    def average(self) -> float:
        """0 when nothing was recorded."""
        samples = self._recent()
        count = sum(sample.count for sample in samples)
        return sum(sample.total for sample in samples) / count if count else 0.0

    def maximum(self) -> float:
        """0 when nothing was recorded."""
        return max(sample.largest for sample in self._recent())

    def rate(self) -> float:
        """Sum of the values per second. Over at least one whole sample, so that a burst right after a start
        is not extrapolated."""
        samples = self._recent()
        elapsed = self._now() - samples[0].start
        return sum(sample.total for sample in samples) / max(elapsed, SAMPLE_SECONDS)
