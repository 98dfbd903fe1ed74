"""The reason for a directory's failure, as log lines and answers give it."""

from typing import Final

from quorate.runtime import DiskFullError

_FULL: Final = (
    "the directory and its replicas are offline until the broker is started again. Before that, make room "
    "on its file system: grow it, or remove other files and the folders that quorate log-dirs damaged lists. "
    "Then shorten retention (retention.ms and retention.bytes of topics, log.retention.hours and "
    "log.retention.bytes), or move replicas to another disk (docs/how-to/move-between-disks.md). "
    "quorate.log.dir.free.warn.percent and quorate.log.dir.free.warn.bytes set how early a warning comes"
)


def failure_reason(error: Exception) -> str:
    """Return what happened, and for a full disk what to do."""
    return f"{error}; {_FULL}" if isinstance(error, DiskFullError) else str(error)
