"""The library's log lines, for a test to look at."""

from collections.abc import Iterator
from contextlib import contextmanager

from quorate.simulation.world.trace import LogEntry, taking_logs


@contextmanager
def captured_logs() -> Iterator[list[LogEntry]]:
    """A list that grows by every line, of any level, instead of where they usually go."""
    entries: list[LogEntry] = []
    with taking_logs(entries.append):
        yield entries
