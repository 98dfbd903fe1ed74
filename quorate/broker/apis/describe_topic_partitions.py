"""DescribeTopicPartitions: topics a page at a time, with who may lead them (KIP-966)."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from heapq import merge
from itertools import groupby
from typing import TYPE_CHECKING, Final

from kio.schema.errors import ErrorCode

from quorate.broker.apis.authorized_operations import ALL_OF_A_TOPIC
from quorate.broker.apis.cluster_metadata import CLUSTER_METADATA
from quorate.broker.apis.context import Broker, respond, respond_in_slices
from quorate.broker.apis.metadata import describe_cluster_metadata, describe_partition, is_legal
from quorate.broker.apis.topic_creation import INTERNAL_TOPICS
from quorate.broker.metadata import TopicState
from quorate.broker.wire import Answer, KafkaError, RequestContext
from quorate.runtime import Slices

if TYPE_CHECKING:
    from kio.schema.describe_topic_partitions.v0.request import DescribeTopicPartitionsRequest

PARTITIONS_MAX: Final = 2000
"""The partitions of one answer (the default of Kafka's `max.request.partition.size.limit`)."""

_AT_ONCE: Final = 100
"""Topics and partitions that are answered in one piece, which takes some 3 ms."""

_SORTED_AT_ONCE: Final = 5000
"""Names, in 1 to 3 ms."""

_Fields = dict[str, object]


@dataclass(frozen=True, slots=True)
class _TopicPart:
    """A page's part of a topic: its partitions from `start` (inclusive) to `end` (exclusive)."""

    name: str
    start: int
    end: int


async def handle(
    broker: Broker, context: RequestContext, request: "DescribeTopicPartitionsRequest"
) -> Answer:
    """Describe the given topics, or all, by name from the cursor on, and return where the next page begins.

    A large page is described in slices, between which the metadata may change: each topic in it is as it was
    at one moment.
    """
    first, first_partition = "", 0
    if request.cursor is not None:
        first, first_partition = request.cursor.topic_name, request.cursor.partition_index
        if first_partition < 0:
            raise KafkaError(ErrorCode.invalid_request, f"the cursor's partition is {first_partition}")
    slices = Slices()
    asked: list[str] = [topic.name for topic in request.topics]
    asked = asked or [each.name for each in broker.image.topics.values()]
    left = max(1, min(request.response_partition_limit, PARTITIONS_MAX))
    page: list[_TopicPart] = []
    described = 0
    cursor: _Fields | None = None
    for name in await _in_order(asked, first, slices):
        await slices.pause()
        if not left:
            cursor = {"topic_name": name, "partition_index": 0}
            break
        topic = broker.image.topic(name)
        start = first_partition if name == first else 0
        count = 0 if topic is None else len(broker.image.partitions(topic.topic_id))
        end = max(start, min(start + left, count))
        page.append(_TopicPart(name, start, end))
        described += 1 + end - start
        if end < count:
            cursor = {"topic_name": name, "partition_index": end}
            break
        left -= end - start
    topics = _topics(broker, page, context.connection.listener)
    if described <= _AT_ONCE:
        return respond(context, topics=topics, next_cursor=cursor)
    return respond_in_slices(context, topics=topics, next_cursor=cursor)


async def _in_order(asked: Sequence[str], first: str, slices: Slices) -> Iterator[str]:
    """Yield each name once, from `first` on."""
    runs: list[list[str]] = []
    for start in range(0, len(asked), _SORTED_AT_ONCE):
        runs.append(sorted({name for name in asked[start : start + _SORTED_AT_ONCE] if name >= first}))
        await slices.pause()
    return (name for name, _ in groupby(merge(*runs)))


def _topics(broker: Broker, page: Iterable[_TopicPart], listener: str) -> Iterator[_Fields]:
    for part in page:
        topic = broker.image.topic(part.name)
        if topic is None:
            yield _no_topic(broker, part.name)
        else:
            yield {
                "error_code": ErrorCode.none,
                "name": part.name,
                "topic_id": topic.topic_id,
                "is_internal": part.name in INTERNAL_TOPICS,
                "partitions": _partitions(broker, topic, part.start, part.end, listener),
                "topic_authorized_operations": ALL_OF_A_TOPIC,
            }


def _no_topic(broker: Broker, name: str) -> _Fields:
    if name == CLUSTER_METADATA:
        return describe_cluster_metadata(broker)
    error = ErrorCode.unknown_topic_or_partition if is_legal(name) else ErrorCode.invalid_topic_exception
    return {"error_code": error, "name": name, "topic_id": None}


def _partitions(broker: Broker, topic: TopicState, start: int, end: int, listener: str) -> Iterator[_Fields]:
    states = tuple(broker.image.partitions(topic.topic_id)[start:end])
    for index, state in enumerate(states, start):
        yield describe_partition(broker, topic, index, state, listener) | {
            "eligible_leader_replicas": state.eligible.elr,
            "last_known_elr": state.eligible.last_known,
        }
