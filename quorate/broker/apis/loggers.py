"""The loggers of this broker, as BROKER_LOGGER resources show and change them. Levels last until the process
ends."""

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from quorate.broker.controller.rpc import ConfigOperation
from quorate.broker.metadata.api_error import ApiError
from quorate.error_code import ErrorCode
from quorate.runtime import LOG_LEVELS, ROOT, log_levels, set_log_level

DYNAMIC_BROKER_LOGGER: Final = 6
"""The source of every level."""


class Change(NamedTuple):
    """A key or a logger and its change. `operation`: Kafka's number, or another that a client sent."""

    name: str
    operation: int
    value: str | None


def describe_loggers() -> Iterator[tuple[str, str]]:
    """Return the loggers and their levels."""
    yield from log_levels().items()


def alter_loggers(changes: Sequence[Change], *, validate_only: bool) -> None:
    """Set or unset levels, all or none. Raises `ApiError`."""
    known = log_levels()
    for each in changes:
        _check(each, known)
    if not validate_only:
        for each in changes:
            set_log_level(each.name, None if each.operation == ConfigOperation.DELETE else each.value)


def _check(change: Change, known: dict[str, str]) -> None:
    name, operation = change.name, change.operation
    if operation in (ConfigOperation.APPEND, ConfigOperation.SUBTRACT):
        raise ApiError(
            ErrorCode.INVALID_REQUEST,
            f"{ConfigOperation(operation).name} operation is not allowed for the BROKER_LOGGER resource",
        )
    if operation not in (ConfigOperation.SET, ConfigOperation.DELETE):
        raise ApiError(ErrorCode.INVALID_REQUEST, f"Unknown operation type {operation} for {name:.100}")
    if name not in known:
        raise ApiError(ErrorCode.INVALID_CONFIG, f"Logger {name:.100} does not exist!")
    if operation == ConfigOperation.DELETE:
        if name == ROOT:
            raise ApiError(
                ErrorCode.INVALID_REQUEST, f"Removing the log level of the {ROOT} logger is not allowed"
            )
    elif change.value not in LOG_LEVELS:
        raise ApiError(
            ErrorCode.INVALID_CONFIG,
            f"Cannot set the log level of {name} to {change.value:.100} as it is not a supported log level; "
            f"it must be one of: {', '.join(LOG_LEVELS)}",
        )
