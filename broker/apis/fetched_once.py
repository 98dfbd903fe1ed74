"""A Fetch that names a partition more than once."""

import uuid
from dataclasses import replace
from typing import TypeAlias

from quorate.broker.wire.fetch_codec import FetchPartition, FetchRequest, FetchTopic

_Key: TypeAlias = tuple[str | None, uuid.UUID | None]


def each_once(request: FetchRequest) -> FetchRequest:
    """The same request with each partition once: where it was named first, as it was named last, as in Kafka,
    which keeps them in a map. Otherwise a frame of a megabyte asks for the same records 20,000 times."""
    named = sum(len(topic.partitions) for topic in request.topics)
    distinct = {
        (topic.name, topic.topic_id, part.partition) for topic in request.topics for part in topic.partitions
    }
    if len(distinct) == named:
        return request
    topics: dict[_Key, dict[int, FetchPartition]] = {}
    for topic in request.topics:
        parts = topics.setdefault((topic.name, topic.topic_id), {})
        for part in topic.partitions:
            parts[part.partition] = part
    return replace(
        request,
        topics=[
            FetchTopic(name, topic_id, tuple(parts.values())) for (name, topic_id), parts in topics.items()
        ],
    )
