"""The library's log lines, given to a program."""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from quorate.runtime import ROOT

LogEntry = dict[str, object]
"""The fields of a log line, with the line's constant text as `event` and its level as `log_level`."""


class _Taker(logging.Handler):
    def __init__(self, take: Callable[[LogEntry], None]) -> None:
        super().__init__()
        self._take = take

    def emit(self, record: logging.LogRecord) -> None:
        fields = getattr(record, "quorate", {"event": record.getMessage()})
        self._take({**fields, "log_level": record.levelname.lower()})


@contextmanager
def taking_logs(take: Callable[[LogEntry], None]) -> Iterator[None]:
    """Every line of any level goes to `take`, instead of where it usually goes."""
    logger = logging.getLogger(ROOT)
    kept = (list(logger.handlers), logger.level, logger.propagate)
    logger.handlers[:] = [_Taker(take)]
    logger.propagate = False
    logger.setLevel(logging.DEBUG)
    try:
        yield
    finally:
        logger.handlers[:], logger.propagate = kept[0], kept[2]
        logger.setLevel(kept[1])


@contextmanager
def captured_logs() -> Iterator[list[LogEntry]]:
    """A list that grows by every line, of any level, instead of where they usually go."""
    entries: list[LogEntry] = []
    with taking_logs(entries.append):
        yield entries
