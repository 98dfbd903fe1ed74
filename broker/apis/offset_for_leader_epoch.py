"""OffsetForLeaderEpoch (KIP-101, KIP-320)."""

from typing import Any

from kio.schema.errors import ErrorCode

from quorate.broker.apis.cluster_metadata import CLUSTER_METADATA
from quorate.broker.apis.context import Broker, respond
from quorate.broker.wire.messages import Answer, RequestContext

_Fields = dict[str, object]


def handle(broker: Broker, context: RequestContext, request: Any) -> Answer:
    return respond(
        context,
        topics=[
            {
                "topic": topic.topic,
                "partitions": [_partition(broker, topic.topic, part) for part in topic.partitions],
            }
            for topic in request.topics
        ],
    )


def _partition(broker: Broker, topic: str, part: Any) -> _Fields:
    if topic == CLUSTER_METADATA:
        epoch, end = broker.cluster_metadata.end_of_epoch(part.leader_epoch)
        return {
            "error_code": ErrorCode.none,
            "partition": part.partition,
            "leader_epoch": epoch,
            "end_offset": end,
        }
    result = broker.replicas.offset_for_leader_epoch(
        topic,
        part.partition,
        leader_epoch=part.leader_epoch,
        current_leader_epoch=part.current_leader_epoch,
    )
    return {
        "error_code": ErrorCode(int(result.error)),
        "partition": part.partition,
        "leader_epoch": result.leader_epoch,
        "end_offset": result.end_offset,
    }
