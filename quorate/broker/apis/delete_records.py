"""DeleteRecords: what is below an offset is gone, on the leader and its live followers (KIP-107)."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from kio.schema.errors import ErrorCode

from quorate.broker.apis.context import Broker, encoded_in_slices
from quorate.broker.apis.topic_creation import INTERNAL_TOPICS
from quorate.broker.replication import DeleteRecordsItem, DeleteRecordsResult
from quorate.broker.wire import Answer, RequestContext, Response, wire_code
from quorate.runtime import Slices
from quorate.types import Offset

if TYPE_CHECKING:
    from kio.schema.delete_records.v2.request import DeleteRecordsRequest

_Fields = dict[str, object]
_Partition = tuple[str, int]


def handle(broker: Broker, context: RequestContext, request: "DeleteRecordsRequest") -> Answer:
    """Delete records of partitions that this broker leads. The answer waits for their live followers, so that
    a new leader has them deleted too."""
    return broker.later(lambda: _delete(broker, context, request))


async def _delete(broker: Broker, context: RequestContext, request: "DeleteRecordsRequest") -> Response:
    asked: dict[str, dict[int, None]] = {}
    refused: dict[_Partition, ErrorCode] = {}
    items: dict[_Partition, DeleteRecordsItem] = {}
    slices = Slices()
    for topic in request.topics:
        for part in topic.partitions:
            key = (topic.name, part.partition_index)
            asked.setdefault(topic.name, {})[part.partition_index] = None
            error = _refusal(broker, *key)
            if error is ErrorCode.none:
                # The last one of a partition named twice counts, as in Kafka.
                items[key] = DeleteRecordsItem(*key, Offset(part.offset))
            else:
                refused[key] = error
            await slices.pause()
    pending = await broker.replicas.deletions.delete(
        list(items.values()), timeout_ms=int(request.timeout.total_seconds() * 1000)
    )
    await pending.wait()
    results = dict(zip(items, pending.results(), strict=True))
    return await encoded_in_slices(context, topics=_topics(asked, refused, results))


def _refusal(broker: Broker, name: str, partition_id: int) -> ErrorCode:
    topic = broker.image.topic(name)
    if topic is None or broker.image.partition(topic.topic_id, partition_id) is None:
        return ErrorCode.unknown_topic_or_partition
    return ErrorCode.invalid_topic_exception if name in INTERNAL_TOPICS else ErrorCode.none


def _topics(
    asked: dict[str, dict[int, None]],
    refused: dict[_Partition, ErrorCode],
    results: dict[_Partition, DeleteRecordsResult],
) -> Iterator[_Fields]:
    for name in list(asked):
        # Freed as it is answered: a hundred thousand at once take as long as the rest.
        indexes = asked.pop(name)
        yield {
            "name": name,
            "partitions": (_partition((name, index), refused, results) for index in indexes),
        }


def _partition(
    key: _Partition, refused: dict[_Partition, ErrorCode], results: dict[_Partition, DeleteRecordsResult]
) -> _Fields:
    if key in refused:
        return {"partition_index": key[1], "low_watermark": -1, "error_code": refused[key]}
    result = results[key]
    return {
        "partition_index": key[1],
        "low_watermark": result.low_watermark,
        "error_code": wire_code(result.error),
    }
