"""Warnings on standard error, because a Spark worker does not configure `logging`."""

import logging
from typing import Final

_ROOMS: Final = ("quorate.spark_source", "quorate.history")
"""The loggers above those of the source and of the history that it reads."""


class _LastResort(logging.Handler):
    """Writes warnings to standard error, in a process whose program has no handlers of its own."""

    def emit(self, record: logging.LogRecord) -> None:
        if logging.lastResort is not None and not logging.getLogger().handlers:
            logging.lastResort.handle(record)


def get_logger(name: str) -> logging.Logger:
    for room in map(logging.getLogger, _ROOMS):
        if not any(isinstance(handler, _LastResort) for handler in room.handlers):
            room.addHandler(_LastResort(logging.WARNING))
    return logging.getLogger(name)
