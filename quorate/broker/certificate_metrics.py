"""The time that is left until the certificates of a node end."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from quorate.runtime import CertificateEnd


class CertificateMetrics(Collector):
    """A gauge for each certificate of each listener. Read when scraped."""

    def __init__(
        self, listeners: Mapping[str, Callable[[], Sequence[CertificateEnd]]], *, now_ms: Callable[[], int]
    ) -> None:
        """`listeners`: the certificates in use, by the name of the listener."""
        self._listeners = listeners
        self._now_ms = now_ms

    def describe(self) -> Iterable[Metric]:
        return self.collect()

    def collect(self) -> Iterator[Metric]:
        left = GaugeMetricFamily(
            "quorate_certificate_seconds_left",
            "Time until a certificate ends that this node uses or believes; negative: since it ended.",
            labels=["listener", "file", "position"],
        )
        now_ms = self._now_ms()
        for listener, certificates in self._listeners.items():
            for each in certificates():
                left.add_metric([listener, each.file, str(each.position)], (each.end_ms - now_ms) / 1000)
        if left.samples:
            yield left
