"""Histograms of durations: buckets for Prometheus, and quantiles of the recent past like Kafka's."""

from bisect import bisect_left
from collections import deque
from collections.abc import Iterator
from math import ceil
from typing import Final

from prometheus_client.core import HistogramMetricFamily, Metric

from quorate.metrics.declarations import Declaration

BOUNDS: Final = (
    0.00001, 0.00003, 0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0,
)  # fmt: skip
"""Upper bounds of the buckets in seconds (inclusive). Above the last there is one more."""
QUANTILES: Final = ("0.50", "0.75", "0.95", "0.98", "0.99", "0.999")
"""Kafka's percentiles, in the spelling of Strimzi's rules."""
_RECENT: Final = 1028
"""The size of Kafka's reservoir."""


class Histogram:
    """Durations since the start by bucket, and the quantiles of the last 1,028 of them."""

    __slots__ = ("_buckets", "_recent", "count", "sum")

    def __init__(self) -> None:
        self._buckets = [0] * (len(BOUNDS) + 1)
        self._recent: deque[float] = deque(maxlen=_RECENT)
        self.count = 0
        self.sum = 0.0
        """The sum of all durations in seconds."""

    def record(self, seconds: float) -> None:
        self._buckets[bisect_left(BOUNDS, seconds)] += 1
        self._recent.append(seconds)
        self.count += 1
        self.sum += seconds

    def quantile(self, share: float) -> float:
        """Return the duration (s) that this share of the recent ones did not exceed. 0: there was none."""
        ordered = sorted(self._recent)
        return ordered[max(0, ceil(share * len(ordered)) - 1)] if ordered else 0.0

    def families(self, declaration: Declaration) -> Iterator[Metric]:
        """Yield both spellings. Kafka's is in Kafka's unit."""
        cumulative, buckets = 0, []
        for bound, within in zip((*BOUNDS, float("inf")), self._buckets, strict=True):
            cumulative += within
            buckets.append(("+Inf" if bound == float("inf") else repr(bound), float(cumulative)))
        yield HistogramMetricFamily(declaration.ours, declaration.help, buckets=buckets, sum_value=self.sum)
        kafkas = Metric(declaration.kafkas, declaration.help, "summary")
        for quantile in QUANTILES:
            value = self.quantile(float(quantile)) / declaration.scale
            kafkas.add_sample(kafkas.name, {"quantile": quantile}, value)
        kafkas.add_sample(f"{kafkas.name}_count", {}, float(self.count))
        yield kafkas
