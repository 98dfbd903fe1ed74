"""Times on the command line."""

import re
import time
from datetime import UTC, datetime, timedelta
from typing import Final

from quorate.cli.console.cli_errors import UsageError

_UNITS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86400}


def ago_ms(text: str) -> int | None:
    """Return the time that lies as far back as `90s`, `10m`, `1h` or `2d`, in ms since the Unix epoch. None:
    the text is no such time."""
    found = re.fullmatch(r"([1-9][0-9]{0,8})([smhd])", text)
    return None if found is None else int(time.time() * 1000) - int(found[1]) * _UNITS[found[2]] * 1000


def parse_time_ms(text: str, *, option: str) -> int:
    """Parse an ISO time, UTC if it names no zone. Raises `UsageError`."""
    try:
        when = datetime.fromisoformat(text)
    except ValueError:
        raise UsageError(
            f"{option}: {text!r} is not of the form 2026-11-22T14:00:00 (UTC, or with a zone: +02:00)"
        ) from None
    utc = when.replace(tzinfo=UTC) if when.tzinfo is None else when
    return (utc - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)
