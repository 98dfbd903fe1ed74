"""Warnings of the source on standard error, because a Spark worker does not configure `logging`."""

import logging


class _LastResort(logging.Handler):
    """Writes warnings to standard error, in a process whose program has no handlers of its own."""

    def emit(self, record: logging.LogRecord) -> None:
        if logging.lastResort is not None and not logging.getLogger().handlers:
            logging.lastResort.handle(record)


def get_logger(name: str) -> logging.Logger:
    logger = logging.getLogger("quorate.spark_source")
    if not any(isinstance(handler, _LastResort) for handler in logger.handlers):
        logger.addHandler(_LastResort(logging.WARNING))
    return logging.getLogger(name)
