"""DescribeQuorum: what the leader knows of the metadata quorum (KIP-595, KIP-836, KIP-853)."""

from typing import TYPE_CHECKING, Final

from kio.schema.errors import ErrorCode

from quorate.broker.apis.cluster_metadata import CLUSTER_METADATA
from quorate.broker.apis.context import ServingNode, encoded_in_slices
from quorate.broker.wire import Answer, RequestContext, Response
from quorate.raft import QuorumDescription, ReplicaStatus
from quorate.runtime import parse_uuid

if TYPE_CHECKING:
    from kio.schema.describe_quorum.v2.request import DescribeQuorumRequest

_Fields = dict[str, object]
_TIMEOUT_SECONDS: Final = 5.0


def handle(node: ServingNode, context: RequestContext, request: "DescribeQuorumRequest") -> Answer:
    """Describe the quorum. Any broker answers, after asking the leader."""
    return node.later(lambda: _describe(node, context, request))


async def _describe(node: ServingNode, context: RequestContext, request: "DescribeQuorumRequest") -> Response:
    description = await node.channel.describe_quorum(timeout_seconds=_TIMEOUT_SECONDS)
    return await encoded_in_slices(
        context,
        error_code=ErrorCode.none,
        topics=(
            {
                "topic_name": topic.topic_name,
                "partitions": (
                    _partition(description, part.partition_index)
                    if topic.topic_name == CLUSTER_METADATA and part.partition_index == 0
                    else _unknown(part.partition_index)
                    for part in topic.partitions
                ),
            }
            for topic in request.topics
        ),
        nodes=[
            {
                "node_id": voter.key.id,
                "listeners": [
                    {
                        "name": node.config.controller_listener_name,
                        "host": voter.endpoint.host,
                        "port": voter.endpoint.port,
                    }
                ],
            }
            for voter in description.voters
            if voter.endpoint is not None
        ],
    )


def _partition(description: QuorumDescription, index: int) -> _Fields:
    high_watermark = description.high_watermark
    return {
        "partition_index": index,
        "error_code": ErrorCode.none,
        "leader_id": description.leader,
        "leader_epoch": description.epoch,
        "high_watermark": -1 if high_watermark is None else high_watermark,
        "current_voters": [_replica(each) for each in description.voters],
        "observers": [_replica(each) for each in description.observers],
    }


def _unknown(index: int) -> _Fields:
    return {
        "partition_index": index,
        "error_code": ErrorCode.unknown_topic_or_partition,
        "leader_id": -1,
        "leader_epoch": -1,
        "high_watermark": -1,
    }


def _replica(status: ReplicaStatus) -> _Fields:
    directory = status.key.directory_id
    return {
        "replica_id": status.key.id,
        "replica_directory_id": None if directory is None else parse_uuid(directory),
        "log_end_offset": _known(status.log_end_offset),
        "last_fetch_timestamp": _known(status.last_fetch_ms),
        "last_caught_up_timestamp": _known(status.last_caught_up_ms),
    }


def _known(value: int | None) -> int:
    return -1 if value is None else value
