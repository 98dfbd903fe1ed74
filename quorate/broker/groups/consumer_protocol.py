"""Subscriptions and assignments of consumers: the bytes that the classic protocol carries unread.

Every version begins with the fields of version 0, so these are read whatever the version (as in Kafka).
"""

from typing import Final

from quorate.kafka_bytes.primitives import Cursor
from quorate.kafka_bytes.varints import MalformedError

CONSUMER_PROTOCOL_TYPE: Final = "consumer"
"""The protocol type of consumers. Other types, such as Connect's, have bytes of their own."""


def subscribed_topics(metadata: bytes) -> frozenset[str]:
    """Return the topics of a member's subscription. Raises `MalformedError`."""
    cursor = _cursor(metadata)
    return frozenset(cursor.string() for _ in range(cursor.count(2)))


def assigned_partitions(assignment: bytes) -> list[tuple[str, list[int]]]:
    """Return each assigned topic and its partitions; none for no bytes, of a member that waits for its
    assignment. Raises `MalformedError`."""
    if not assignment:
        return []
    cursor = _cursor(assignment)
    return [
        (cursor.string(), [cursor.int32() for _ in range(cursor.count(4))]) for _ in range(cursor.count(6))
    ]


def _cursor(data: bytes) -> Cursor:
    cursor = Cursor(memoryview(data), flexible=False)
    version = cursor.int16()
    if version < 0:
        raise MalformedError(f"consumer protocol version {version}")
    return cursor
