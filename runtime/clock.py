"""Time. Durations and deadlines come from trio's own clock (`trio.current_time`, seconds), which is virtual
in simulation; the wall clock below is only for timestamps that people and clients read, and may jump."""

from typing import Protocol


class WallClock(Protocol):
    def now_ms(self) -> int:
        """Milliseconds since the Unix epoch."""
        ...
