"""The limits of topics: their names, their sizes, and the topics that the cluster keeps its own state in."""

import re
from collections.abc import Callable
from typing import Final, TypeAlias

from quorate.broker.metadata.api_error import ApiError
from quorate.error_code import ErrorCode

MAX_NAME_LENGTH: Final = 249
_LEGAL_NAME: Final = re.compile(r"[a-zA-Z0-9._-]+")
MAX_NEW_PARTITIONS: Final = 10_000
"""The new partitions of all topics in one request."""
MAX_NEW_REPLICAS: Final = 50_000
"""The new replicas of one topic in one request."""
TOO_MANY: Final = (
    f"Unable to perform excessively large batch operation: at most {MAX_NEW_PARTITIONS} partitions in one "
    f"request, and {MAX_NEW_REPLICAS} replicas in one topic; ask for some of them at a time."
)
PROTECTED_TOPICS: Final = frozenset({"__consumer_offsets", "__transaction_state", "__cluster_metadata"})
"""Topics that are neither deleted nor shrunk, nor given more partitions. Kafka does as it is asked. Then
every group's offsets are lost, or, since a group's partition follows from their number, in a partition where
no broker looks."""

Charge: TypeAlias = Callable[[int], None]
"""Counts partitions that are to be created or deleted for a client. Raises `ApiError` if they are not to
be."""


Check: TypeAlias = Callable[[str], None]
"""Raises `ApiError` for a topic that the client may not change."""


def unchecked(name: str) -> None:
    """Refuse no topic."""


def free(partitions: int) -> None:
    """Count nothing."""


def check_name(name: str) -> None:
    """Refuse with `ApiError` a name that Kafka doesn't take for a topic."""
    code = ErrorCode.INVALID_TOPIC_EXCEPTION
    if not name:
        raise ApiError(code, "Topic name is invalid: the empty string is not allowed")
    if name in (".", ".."):
        raise ApiError(code, f"Topic name is invalid: '{name}' is not allowed")
    if len(name) > MAX_NAME_LENGTH:
        raise ApiError(
            code, f"Topic name is invalid: the length of '{name:.40}...' is longer than {MAX_NAME_LENGTH}"
        )
    if _LEGAL_NAME.fullmatch(name) is None:
        raise ApiError(
            code,
            f"Topic name is invalid: '{name}' contains one or more characters other than ASCII "
            "alphanumerics, '.', '_' and '-'",
        )


def check_size(partitions: int, factor: int) -> None:
    """Refuse with `ApiError` more new partitions, or replicas of them, than one request may ask for."""
    if partitions > MAX_NEW_PARTITIONS or partitions * factor > MAX_NEW_REPLICAS:
        raise ApiError(ErrorCode.POLICY_VIOLATION, TOO_MANY)


def check_unprotected(name: str, what: str) -> None:
    """Refuse with `ApiError` a change of a protected topic; `what` completes "can't"."""
    if name in PROTECTED_TOPICS:
        raise ApiError(
            ErrorCode.INVALID_TOPIC_EXCEPTION,
            f"The internal topic '{name}' can't {what}: the cluster keeps its own state in it.",
        )
