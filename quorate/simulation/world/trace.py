"""The trace of a run: a line per event in order, and a hash that distinguishes two runs."""

import hashlib
import logging
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import trio

from quorate.runtime import ROOT

_ERRORS = ("error", "critical")
LogEntry = dict[str, object]
"""The fields of a log line, with the line's constant text as `event` and its level as `log_level`."""


class Trace:
    """Lines are kept only if asked for; the hash always covers all of them."""

    __slots__ = ("_hash", "_show", "events", "on_error", "on_event")

    def __init__(self, show: Callable[[str], None] | None = None) -> None:
        self._hash = hashlib.blake2b(digest_size=16)
        self._show = show
        self.events = 0
        self.on_error: Callable[[str], None] | None = None
        """Called with each line that the library logs as an error (see `logs_into`)."""
        self.on_event: Callable[[str, LogEntry], None] | None = None
        """Called with the event and the fields of each line that the library logs."""

    def add(self, where: str, what: str) -> None:
        """`where`: the node, link or client. A detail that differs between runs of one seed is a bug here."""
        line = f"{trio.current_time():.7f} {where} {what}\n"
        self._hash.update(line.encode())
        self.events += 1
        if self._show is not None:
            self._show(line[:-1])

    def received(self, source: str, target: str, data: bytes) -> None:
        self.add(f"{source}>{target}", f"{len(data)} bytes {zlib.crc32(data):08x}")

    @property
    def digest(self) -> str:
        return self._hash.hexdigest()


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
def logs_into(trace: Trace) -> Iterator[None]:
    """Redirect the library's log into `trace`, a line per entry."""

    def take(entry: LogEntry) -> None:
        level, event = entry.pop("log_level"), entry.pop("event")
        line = f"{level} {event} {' '.join(f'{name}={value}' for name, value in sorted(entry.items()))}"
        trace.add("log", line)
        if trace.on_event is not None:
            trace.on_event(str(event), entry)
        if trace.on_error is not None and level in _ERRORS:
            trace.on_error(line)

    with taking_logs(take):
        yield
