"""One line per event, through the standard `logging`.

Loggers have the names of their modules, below `quorate`, and are silent in a program that doesn't configure
`logging`.
"""

import logging  # noqa: TID251 (every logger is made here)
from types import TracebackType
from typing import Final

ROOT: Final = "quorate"
"""The name of the logger above all loggers of quorate."""
AUDIT_LOGGER: Final = "kafka.authorizer.logger"
"""The name of the logger of audit lines, as in Kafka: the one that is not below `quorate`."""

logging.getLogger(ROOT).addHandler(logging.NullHandler())

Failure = bool | BaseException | tuple[type[BaseException], BaseException, TracebackType | None] | None


_LEVELS: Final = {
    "TRACE": 5,
    "DEBUG": logging.DEBUG,
    "INFO": logging.INFO,
    "WARN": logging.WARNING,
    "ERROR": logging.ERROR,
    "FATAL": logging.CRITICAL,
}
LOG_LEVELS: Final = tuple(_LEVELS)
"""The levels in Kafka's words, the most talkative first."""


def log_levels() -> dict[str, str]:
    """Return the level of each of quorate's loggers by name: its own, or that of the logger above it."""
    loggers = [ROOT, AUDIT_LOGGER, *logging.root.manager.loggerDict]
    names = sorted({name for name in loggers if name in (ROOT, AUDIT_LOGGER) or name.startswith(f"{ROOT}.")})
    return {name: _level_in_words(logging.getLogger(name).getEffectiveLevel()) for name in names}


def _level_in_words(number: int) -> str:
    return next((name for name, least in _LEVELS.items() if number <= least), LOG_LEVELS[-1])


def set_log_level(name: str, level: str | None) -> None:
    """Set the level of a logger of this process from now on. `level`: one of `LOG_LEVELS`; None: that of the
    logger above it."""
    logging.getLogger(name).setLevel(logging.NOTSET if level is None else _LEVELS[level])


class EventLogger:
    """Logs an event, a constant sentence, with the fields that say what it happened to.

    A record's message is the event and its fields as `name=value`; its attribute `quorate` is a dict of the
    fields, and of the event as `event`, for handlers that keep them apart. A level that is off costs one
    look-up.
    """

    __slots__ = ("_logger",)

    def __init__(self, name: str) -> None:
        self._logger = logging.getLogger(name)

    @property
    def writes_debug(self) -> bool:
        """True if the level is DEBUG or below, for a caller whose event takes time to make."""
        # A level of its own says it without a walk up the loggers.
        logger = self._logger
        return not logger.level > logging.DEBUG and logger.isEnabledFor(logging.DEBUG)

    def debug(self, event: str, /, **fields: object) -> None:
        if self._logger.isEnabledFor(logging.DEBUG):
            self._log(logging.DEBUG, event, fields)

    def info(self, event: str, /, **fields: object) -> None:
        if self._logger.isEnabledFor(logging.INFO):
            self._log(logging.INFO, event, fields)

    def warning(self, event: str, /, *, exc_info: Failure = None, **fields: object) -> None:
        if self._logger.isEnabledFor(logging.WARNING):
            self._log(logging.WARNING, event, fields, exc_info)

    def error(self, event: str, /, *, exc_info: Failure = None, **fields: object) -> None:
        if self._logger.isEnabledFor(logging.ERROR):
            self._log(logging.ERROR, event, fields, exc_info)

    def exception(self, event: str, /, **fields: object) -> None:
        """An error, with the traceback of the exception that is being handled."""
        if self._logger.isEnabledFor(logging.ERROR):
            self._log(logging.ERROR, event, fields, True)

    def _log(self, level: int, event: str, fields: dict[str, object], exc_info: Failure = None) -> None:
        self._logger.log(
            level,
            event.replace("%", "%%") + "%s",
            _Fields(fields),
            exc_info=exc_info,
            extra={"quorate": {"event": event, **fields}},
            stacklevel=3,
        )


class _Fields:
    """Text that is made when a handler asks for it. What groups records by `msg` finds one per event."""

    __slots__ = ("_fields",)

    def __init__(self, fields: dict[str, object]) -> None:
        self._fields = fields

    def __str__(self) -> str:
        return "".join(f" {name}={value}" for name, value in self._fields.items())


def get_logger(name: str) -> EventLogger:
    """Return the structured logger of a module. `name` is the module's `__name__`."""
    return EventLogger(name)
