"""A Fetch that names a partition more than once."""

import uuid
from dataclasses import replace
from typing import TypeAlias

from quorate.broker.wire.codecs import PER_STEP, FetchPartition, FetchTopic, KafkaFetchRequest
from quorate.runtime import Steps

_Key: TypeAlias = tuple[str | None, uuid.UUID | None]


def each_once(request: KafkaFetchRequest) -> Steps[KafkaFetchRequest]:
    """Return the request with each partition once: at its first place, with its last values, as Kafka's map
    keeps them. Otherwise a frame of a megabyte asks for the same records 20,000 times."""
    seen: set[_Key] = set()
    for topic in request.topics:
        seen.add((topic.name, topic.topic_id))
        # As many partitions as there may be take 10 ms.
        if len({part.partition for part in topic.partitions}) < len(topic.partitions):
            return (yield from _merged(request))
        yield
    distinct = len(seen)
    while seen:
        for _ in range(min(PER_STEP, len(seen))):
            seen.pop()
        yield
    return request if distinct == len(request.topics) else (yield from _merged(request))


def _merged(request: KafkaFetchRequest) -> Steps[KafkaFetchRequest]:
    found: dict[_Key, dict[int, FetchPartition]] = {}
    for topic in request.topics:
        parts = found.setdefault((topic.name, topic.topic_id), {})
        for number, part in enumerate(topic.partitions, 1):
            parts[part.partition] = part
            if number % PER_STEP == 0:
                yield
        yield
    topics: list[FetchTopic] = []
    for name, topic_id in list(found):
        # Taken out, so that not all of it is freed at once.
        topics.append(FetchTopic(name, topic_id, list(found.pop((name, topic_id)).values())))
        yield
    yield from request.let_go_steps()
    return replace(request, topics=topics)
