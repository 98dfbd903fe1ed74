"""Throughput and latency of the last hour, in memory."""

from array import array
from collections.abc import Callable, Mapping
from typing import Final

import trio

from quorate.broker.page.page_state import Json

SAMPLE_SECONDS: Final = 5
_SAMPLES: Final = 720
"""An hour."""


class Recent:
    """Samples of a few figures, each 5 s, for an hour: 4 bytes each."""

    def __init__(
        self,
        *,
        rates: Mapping[str, Callable[[], float]],
        gauges: Mapping[str, Callable[[], float]],
        now_ms: Callable[[], int],
    ) -> None:
        """`rates`: counters, of which the growth per second is kept. `gauges`: kept as they are."""
        self._rates = rates
        self._gauges = gauges
        self._now_ms = now_ms
        self._last = {name: read() for name, read in rates.items()}
        self._last_at = trio.current_time()
        self._series = {name: array("f") for name in (*rates, *gauges)}
        self._ends_ms = now_ms()

    async def run(self) -> None:
        """Take samples until cancelled."""
        while True:
            await trio.sleep(SAMPLE_SECONDS)
            self.sample()

    def sample(self) -> None:
        """Take a sample of the time since the last one."""
        now = trio.current_time()
        seconds, self._last_at = max(now - self._last_at, 0.001), now
        for name, read in self._rates.items():
            value = read()
            # A counter that went back was begun anew.
            self._add(name, max(value - self._last[name], 0) / seconds)
            self._last[name] = value
        for name, read in self._gauges.items():
            self._add(name, read())
        self._ends_ms = self._now_ms()

    def _add(self, name: str, value: float) -> None:
        series = self._series[name]
        series.append(value)
        if len(series) > _SAMPLES:
            del series[0]

    def lately(self, name: str, *, samples: int = 6) -> float:
        """Return the mean of the last samples, of half a minute; 0: there are none."""
        found = self._series.get(name, ())[-samples:]
        return sum(found) / len(found) if found else 0.0

    def as_dict(self) -> dict[str, Json]:
        """Return all samples, the oldest first."""
        return {
            "every_s": SAMPLE_SECONDS,
            "ends_ms": self._ends_ms,
            "series": {
                name: [float(f"{value:.4g}") for value in series] for name, series in self._series.items()
            },
        }
