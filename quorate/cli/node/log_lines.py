"""The format of a node's log lines: text for people, JSON for machines."""

import json
import logging
from datetime import UTC, datetime

_EVENT_WIDTH = 30
_LEVEL_WIDTH = 9
_COLORS = {"debug": "32", "info": "32", "warning": "33", "error": "31", "critical": "31"}


def _timestamp(record: logging.LogRecord) -> str:
    return (
        datetime.fromtimestamp(record.created, UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
    )


def _event(record: logging.LogRecord) -> tuple[str, dict[str, object]]:
    """Return the constant text of a line, and its fields by name. Another library's line is all text."""
    fields = dict(getattr(record, "quorate", {"event": record.getMessage(), "logger": record.name}))
    return str(fields.pop("event")), dict(sorted(fields.items()))


class TextFormatter(logging.Formatter):
    """`TIME [level] event name=value ...`, and under it the traceback if there is one."""

    def __init__(self, *, colors: bool) -> None:
        super().__init__()
        self._colors = colors

    def format(self, record: logging.LogRecord) -> str:
        event, fields = _event(record)
        level = record.levelname.lower()
        shown = f"{level:<{_LEVEL_WIDTH}}"
        padded = f"{event:<{_EVENT_WIDTH}}"
        if self._colors:
            shown = f"\x1b[{_COLORS.get(level, '0')}m{shown}\x1b[0m"
            padded = f"\x1b[1m{padded}\x1b[0m"
        values = " ".join(f"{name}={value}" for name, value in fields.items())
        line = f"{_timestamp(record)} [{shown}] {padded} {values}".rstrip()
        if record.exc_info:
            line += "\n" + self.formatException(record.exc_info)
        return line


class JsonFormatter(logging.Formatter):
    """An object a line: `timestamp`, `level`, `event`, its fields, and `exception` if there is one."""

    def format(self, record: logging.LogRecord) -> str:
        event, fields = _event(record)
        line = {**fields, "event": event, "level": record.levelname.lower(), "timestamp": _timestamp(record)}
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, default=repr)
