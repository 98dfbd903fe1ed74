"""Offsets of partitions' logs: ListOffsets, OffsetForLeaderEpoch (KIP-101, KIP-320), and DeleteRecords, which
moves the log start offset (KIP-107)."""

from collections import Counter
from collections.abc import AsyncIterator, Iterator
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from kio.schema.errors import ErrorCode

from quorate.broker.access.needs import of_each
from quorate.broker.apis import answers
from quorate.broker.apis.api_row import ApiRow
from quorate.broker.apis.cluster_metadata import CLUSTER_METADATA
from quorate.broker.apis.context import (
    Broker,
    ServingNode,
    answer_later,
    encoded_in_slices,
    respond,
    respond_in_slices,
)
from quorate.broker.apis.topic_creation import INTERNAL_TOPICS
from quorate.broker.metadata.acls import AclOperation, ResourceType
from quorate.broker.replication.foundation.requests import DeleteRecordsItem, DeleteRecordsResult
from quorate.broker.wire.api import ApiKey
from quorate.broker.wire.exchanges import Answer, Refusal, RequestContext, Response
from quorate.broker.wire.wire_errors import wire_code
from quorate.runtime import Slices
from quorate.types import Epoch, Offset

if TYPE_CHECKING:
    from kio.schema.delete_records.v2.request import DeleteRecordsRequest
    from kio.schema.list_offsets.v11.request import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
    from kio.schema.offset_for_leader_epoch.v4.request import (
        OffsetForLeaderEpochRequest,
        OffsetForLeaderPartition,
        OffsetForLeaderTopic,
    )

_OFFSET_NOT_AVAILABLE_SINCE: Final = 5
_SPECIAL_SINCE: Final = MappingProxyType({-1: 1, -2: 1, -3: 7, -4: 8, -5: 9, -6: 11})
"""The first version of the request with each special timestamp (KIP-734, 405, 1005, 1023)."""
_AT_ONCE: Final = 100
"""Partitions that are answered in one piece."""
_Partition = tuple[str, int]
_OF_EPOCHS: Final = of_each(
    AclOperation.DESCRIBE, ResourceType.TOPIC, or_on_cluster=AclOperation.CLUSTER_ACTION
)


@answer_later
async def handle_list_offsets(
    node: ServingNode, context: RequestContext, request: "ListOffsetsRequest"
) -> Response:
    """Answer ListOffsets. A search by timestamp may read from disk, and lets other tasks run every few
    milliseconds. A controller has the metadata log alone."""
    named = await _named(request)
    return await encoded_in_slices(
        context,
        answers.ListOffsetsResponse(
            topics=(
                {"name": topic.name, "partitions": _listed(node, context, topic, named)}
                for topic in request.topics
            )
        ),
    )


async def _named(request: "ListOffsetsRequest") -> Counter[tuple[str, int]]:
    """Return how often each partition is named."""
    named = Counter[tuple[str, int]]()
    slices = Slices()
    for topic in request.topics:
        for part in topic.partitions:
            named[topic.name, part.partition_index] += 1
            await slices.pause()
    return named


async def _listed(
    node: ServingNode, context: RequestContext, topic: "ListOffsetsTopic", named: Counter[tuple[str, int]]
) -> AsyncIterator[answers.ListOffsetsPartitionResponse]:
    may = node.may(context, AclOperation.DESCRIBE, ResourceType.TOPIC, topic.name)
    for part in topic.partitions:
        if not may:
            yield _answered(part, ErrorCode.topic_authorization_failed)
        elif named[topic.name, part.partition_index] > 1:
            yield _answered(part, ErrorCode.invalid_request)
        elif not _knows_timestamp(part.timestamp, context.version):
            yield _answered(part, ErrorCode.unsupported_version)
        else:
            yield await _list_one(node, context, topic.name, part)


def _knows_timestamp(timestamp: int, version: int) -> bool:
    """Return whether the version knows the timestamp. A special one of a later version is unknown, as in
    Kafka."""
    return timestamp >= 0 or version >= _SPECIAL_SINCE.get(timestamp, version + 1)


def _answered(
    part: "ListOffsetsPartition",
    error: ErrorCode,
    timestamp: int = -1,
    offset: int = -1,
    leader_epoch: int = -1,
) -> answers.ListOffsetsPartitionResponse:
    return {
        "partition_index": part.partition_index,
        "error_code": error,
        "timestamp": timestamp,
        "offset": offset,
        "leader_epoch": leader_epoch,
    }


def _known_to(error: ErrorCode, version: int) -> ErrorCode:
    """Return the code as a client of that version of the request understands it (KIP-207)."""
    if error is ErrorCode.offset_not_available and version < _OFFSET_NOT_AVAILABLE_SINCE:
        return ErrorCode.leader_not_available
    return error


async def _list_one(
    node: ServingNode, context: RequestContext, topic: str, part: "ListOffsetsPartition"
) -> answers.ListOffsetsPartitionResponse:
    if topic == CLUSTER_METADATA:
        listed = await node.cluster_metadata.list_offset(part.partition_index, part.timestamp)
        return _answered(part, listed.error, listed.timestamp, listed.offset, listed.leader_epoch)
    if not isinstance(node, Broker):
        return _answered(part, ErrorCode.unknown_topic_or_partition)
    result = await node.replicas.queries.list_offset(
        topic,
        part.partition_index,
        timestamp=part.timestamp,
        current_leader_epoch=Epoch(part.current_leader_epoch),
    )
    error = _known_to(wire_code(result.error), context.version)
    return _answered(part, error, result.timestamp, result.offset, result.leader_epoch)


def handle_offset_for_leader_epoch(
    node: ServingNode, context: RequestContext, request: "OffsetForLeaderEpochRequest"
) -> Answer:
    """Answer for each partition as it is at one moment; many in slices. A controller has the metadata log
    alone."""
    topics: Iterator[answers.OffsetForLeaderTopicResult] = (
        {"topic": topic.topic, "partitions": _epoch_ends(node, context, topic)} for topic in request.topics
    )
    if sum(1 + len(topic.partitions) for topic in request.topics) <= _AT_ONCE:
        return respond(context, answers.OffsetForLeaderEpochResponse(topics=topics))
    return respond_in_slices(context, answers.OffsetForLeaderEpochResponse(topics=topics))


def _epoch_ends(
    node: ServingNode, context: RequestContext, topic: "OffsetForLeaderTopic"
) -> Iterator[answers.EpochEndOffset]:
    may = node.may_any(context, _OF_EPOCHS.any_of, topic.topic)
    for part in topic.partitions:
        if may:
            yield _epoch_end(node, topic.topic, part)
        else:
            yield _end_of_epoch(part, ErrorCode.topic_authorization_failed)


def _epoch_end(node: ServingNode, topic: str, part: "OffsetForLeaderPartition") -> answers.EpochEndOffset:
    if topic == CLUSTER_METADATA:
        return _end_of_epoch(
            part, ErrorCode.none, *node.cluster_metadata.end_of_epoch(Epoch(part.leader_epoch))
        )
    if not isinstance(node, Broker):
        return _end_of_epoch(part, ErrorCode.unknown_topic_or_partition)
    result = node.replicas.queries.offset_for_leader_epoch(
        topic,
        part.partition,
        leader_epoch=Epoch(part.leader_epoch),
        current_leader_epoch=Epoch(part.current_leader_epoch),
    )
    return _end_of_epoch(part, wire_code(result.error), result.leader_epoch, result.end_offset)


def _end_of_epoch(
    part: "OffsetForLeaderPartition", error: ErrorCode, epoch: int = -1, end_offset: int = -1
) -> answers.EpochEndOffset:
    return {
        "error_code": error,
        "partition": part.partition,
        "leader_epoch": epoch,
        "end_offset": end_offset,
    }


@answer_later
async def handle_delete_records(
    broker: Broker, context: RequestContext, request: "DeleteRecordsRequest"
) -> Response:
    """Delete records of partitions that this broker leads. The answer waits for their live followers, so that
    a new leader has them deleted too."""
    asked: dict[str, dict[int, None]] = {}
    refused: dict[_Partition, ErrorCode] = {}
    items: dict[_Partition, DeleteRecordsItem] = {}
    slices = Slices()
    for topic in request.topics:
        may = broker.may(context, AclOperation.DELETE, ResourceType.TOPIC, topic.name)
        for part in topic.partitions:
            key = (topic.name, part.partition_index)
            asked.setdefault(topic.name, {})[part.partition_index] = None
            error = _refusal(broker, *key) if may else ErrorCode.topic_authorization_failed
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
    return await encoded_in_slices(
        context, answers.DeleteRecordsResponse(topics=_deleted_topics(asked, refused, results))
    )


def _refusal(broker: Broker, name: str, partition_id: int) -> ErrorCode:
    if not broker.partition_exists(name, partition_id):
        return ErrorCode.unknown_topic_or_partition
    return ErrorCode.invalid_topic_exception if name in INTERNAL_TOPICS else ErrorCode.none


def _deleted_topics(
    asked: dict[str, dict[int, None]],
    refused: dict[_Partition, ErrorCode],
    results: dict[_Partition, DeleteRecordsResult],
) -> Iterator[answers.DeleteRecordsTopicResult]:
    for name in list(asked):
        # Freed as it is answered: a hundred thousand at once take as long as the rest.
        indexes = asked.pop(name)
        yield {
            "name": name,
            "partitions": (_deleted((name, index), refused, results) for index in indexes),
        }


def _deleted(
    key: _Partition, refused: dict[_Partition, ErrorCode], results: dict[_Partition, DeleteRecordsResult]
) -> answers.DeleteRecordsPartitionResult:
    if key in refused:
        return {"partition_index": key[1], "low_watermark": -1, "error_code": refused[key]}
    result = results[key]
    return {
        "partition_index": key[1],
        "low_watermark": result.low_watermark,
        "error_code": wire_code(result.error),
    }


def _refuse_list(request: "ListOffsetsRequest", refusal: Refusal) -> answers.ListOffsetsResponse:
    return {
        "topics": (
            {
                "name": topic.name,
                "partitions": (_answered(part, refusal.code) for part in topic.partitions),
            }
            for topic in request.topics
        )
    }


def _refuse_epochs(
    request: "OffsetForLeaderEpochRequest", refusal: Refusal
) -> answers.OffsetForLeaderEpochResponse:
    return {
        "topics": (
            {
                "topic": topic.topic,
                "partitions": (_end_of_epoch(part, refusal.code) for part in topic.partitions),
            }
            for topic in request.topics
        )
    }


def _refuse_deletion(request: "DeleteRecordsRequest", refusal: Refusal) -> answers.DeleteRecordsResponse:
    return {
        "topics": (
            {
                "name": topic.name,
                "partitions": (
                    {"partition_index": part.partition_index, "error_code": refusal.code, "low_watermark": -1}
                    for part in topic.partitions
                ),
            }
            for topic in request.topics
        )
    }


ROWS: Final = (
    ApiRow["ListOffsetsRequest"](
        ApiKey.LIST_OFFSETS.api,
        _refuse_list,
        needs=(of_each(AclOperation.DESCRIBE, ResourceType.TOPIC),),
        brokers=handle_list_offsets,
        controllers=handle_list_offsets,
    ),
    ApiRow["OffsetForLeaderEpochRequest"](
        ApiKey.OFFSET_FOR_LEADER_EPOCH.api,
        _refuse_epochs,
        needs=(_OF_EPOCHS,),
        brokers=handle_offset_for_leader_epoch,
        controllers=handle_offset_for_leader_epoch,
    ),
    ApiRow["DeleteRecordsRequest"](
        ApiKey.DELETE_RECORDS.api,
        _refuse_deletion,
        needs=(of_each(AclOperation.DELETE, ResourceType.TOPIC),),
        brokers=handle_delete_records,
    ),
)
