"""A segmented, crash-safe log of Kafka v2 record batches.

Names are imported when they are first used: what reads batches alone, such as the Spark source in its
workers, does without the log that writes them.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from quorate.log.errors import LogError
    from quorate.log.log import AppendInfo, FileSlice, Log
    from quorate.log.log_config import LogConfig

_HOMES = {
    "LogConfig": "config",
    "LogError": "errors",
    "AppendInfo": "log",
    "FileSlice": "log",
    "Log": "log",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)


__all__ = ["AppendInfo", "FileSlice", "Log", "LogConfig", "LogError"]
