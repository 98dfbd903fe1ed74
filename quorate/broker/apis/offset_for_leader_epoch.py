"""OffsetForLeaderEpoch (KIP-101, KIP-320)."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from kio.schema.errors import ErrorCode

from quorate.broker.apis.cluster_metadata import CLUSTER_METADATA
from quorate.broker.apis.context import Broker, ServingNode, respond, respond_in_slices
from quorate.broker.wire import Answer, RequestContext, wire_code
from quorate.types import Epoch

if TYPE_CHECKING:
    from kio.schema.offset_for_leader_epoch.v4.request import (
        OffsetForLeaderEpochRequest,
        OffsetForLeaderPartition,
        OffsetForLeaderTopic,
    )

_Fields = dict[str, object]
_AT_ONCE: Final = 100
"""Partitions that are answered in one piece."""


def handle(node: ServingNode, context: RequestContext, request: "OffsetForLeaderEpochRequest") -> Answer:
    """Answer for each partition as it is at one moment; many in slices. A controller has the metadata log
    alone."""
    topics = (
        {
            "topic": topic.topic,
            "partitions": _partitions(node, topic),
        }
        for topic in request.topics
    )
    if sum(1 + len(topic.partitions) for topic in request.topics) <= _AT_ONCE:
        return respond(context, topics=topics)
    return respond_in_slices(context, topics=topics)


def _partitions(node: ServingNode, topic: "OffsetForLeaderTopic") -> Iterator[_Fields]:
    for part in topic.partitions:
        yield _partition(node, topic.topic, part)


def _partition(node: ServingNode, topic: str, part: "OffsetForLeaderPartition") -> _Fields:
    if topic == CLUSTER_METADATA:
        epoch, end = node.cluster_metadata.end_of_epoch(Epoch(part.leader_epoch))
        return {
            "error_code": ErrorCode.none,
            "partition": part.partition,
            "leader_epoch": epoch,
            "end_offset": end,
        }
    if not isinstance(node, Broker):
        return {
            "error_code": ErrorCode.unknown_topic_or_partition,
            "partition": part.partition,
            "leader_epoch": -1,
            "end_offset": -1,
        }
    result = node.replicas.queries.offset_for_leader_epoch(
        topic,
        part.partition,
        leader_epoch=Epoch(part.leader_epoch),
        current_leader_epoch=Epoch(part.current_leader_epoch),
    )
    return {
        "error_code": wire_code(result.error),
        "partition": part.partition,
        "leader_epoch": result.leader_epoch,
        "end_offset": result.end_offset,
    }
