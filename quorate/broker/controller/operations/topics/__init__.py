"""Topics and their numbers of partitions: created, more, fewer, deleted; and where replicas are placed."""

from quorate.broker.controller.operations.topics.more_partitions import (
    additional,
    create_partitions,
)
from quorate.broker.controller.operations.topics.new_partitions import (
    MAX_NEW_PARTITIONS,
    TOO_MANY,
)
from quorate.broker.controller.operations.topics.protected_topics import (
    PROTECTED_TOPICS,
)
from quorate.broker.controller.operations.topics.shrink_topics import (
    shrink_topics,
    surplus,
)
from quorate.broker.controller.operations.topics.topic_lifecycle import (
    Draw,
    asks_too_much,
    check_name,
    create_topics,
    delete_topics,
    partitions_asked_for,
    partitions_of,
)

__all__ = [
    "MAX_NEW_PARTITIONS",
    "PROTECTED_TOPICS",
    "TOO_MANY",
    "Draw",
    "additional",
    "asks_too_much",
    "check_name",
    "create_partitions",
    "create_topics",
    "delete_topics",
    "partitions_asked_for",
    "partitions_of",
    "shrink_topics",
    "surplus",
]
