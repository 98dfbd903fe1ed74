"""The topics that the cluster itself keeps its state in."""

from typing import Final

from quorate.broker.metadata import ApiError
from quorate.error_code import ErrorCode

PROTECTED_TOPICS: Final = frozenset({"__consumer_offsets", "__transaction_state", "__cluster_metadata"})
"""Neither deleted nor shrunk, nor given more partitions. Kafka does as it is asked: then every group's
offsets are gone, or, since a group's partition follows from their number, in a partition where nobody
looks."""


def check_unprotected(name: str, what: str) -> None:
    """Refuse with `ApiError` that one of them is to `what`."""
    if name in PROTECTED_TOPICS:
        raise ApiError(
            ErrorCode.INVALID_TOPIC_EXCEPTION,
            f"The internal topic '{name}' can't {what}: the cluster keeps its own state in it.",
        )
