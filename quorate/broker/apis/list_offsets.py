"""ListOffsets."""

from collections import Counter
from collections.abc import AsyncIterator
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from kio.schema.errors import ErrorCode

from quorate.broker.apis.cluster_metadata import CLUSTER_METADATA
from quorate.broker.apis.context import Broker, ServingNode, encoded_in_slices
from quorate.broker.wire import Answer, RequestContext, Response, wire_code
from quorate.runtime import Slices
from quorate.types import Epoch

if TYPE_CHECKING:
    from kio.schema.list_offsets.v11.request import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic

_Fields = dict[str, object]
_OFFSET_NOT_AVAILABLE_SINCE: Final = 5
_SPECIAL_SINCE: Final = MappingProxyType({-1: 1, -2: 1, -3: 7, -4: 8, -5: 9, -6: 11})
"""The first version of the request with each special timestamp (KIP-734, 405, 1005, 1023)."""


def handle(node: ServingNode, context: RequestContext, request: "ListOffsetsRequest") -> Answer:
    """Answer ListOffsets. A search by timestamp may read from disk, and lets other tasks run every few
    milliseconds. A controller has the metadata log alone."""
    return node.later(lambda: _list(node, context, request))


async def _list(node: ServingNode, context: RequestContext, request: "ListOffsetsRequest") -> Response:
    named = await _named(request)
    return await encoded_in_slices(
        context,
        topics=(
            {"name": topic.name, "partitions": _partitions(node, context, topic, named)}
            for topic in request.topics
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


async def _partitions(
    node: ServingNode, context: RequestContext, topic: "ListOffsetsTopic", named: Counter[tuple[str, int]]
) -> AsyncIterator[_Fields]:
    for part in topic.partitions:
        if named[topic.name, part.partition_index] > 1:
            yield _refused(part, ErrorCode.invalid_request)
        elif not _asks_for_what_it_may(part.timestamp, context.version):
            yield _refused(part, ErrorCode.unsupported_version)
        else:
            yield await _partition(node, context, topic.name, part)


def _asks_for_what_it_may(timestamp: int, version: int) -> bool:
    """Return whether the version knows the timestamp. A special one of a later version is unknown, as in
    Kafka."""
    return timestamp >= 0 or version >= _SPECIAL_SINCE.get(timestamp, version + 1)


def _refused(part: "ListOffsetsPartition", error: ErrorCode) -> _Fields:
    return {
        "partition_index": part.partition_index,
        "error_code": error,
        "timestamp": -1,
        "offset": -1,
        "leader_epoch": -1,
    }


def _known(error: ErrorCode, version: int) -> ErrorCode:
    """Return the code as a client of that version of the request understands it (KIP-207)."""
    if error is ErrorCode.offset_not_available and version < _OFFSET_NOT_AVAILABLE_SINCE:
        return ErrorCode.leader_not_available
    return error


async def _partition(
    node: ServingNode, context: RequestContext, topic: str, part: "ListOffsetsPartition"
) -> _Fields:
    if topic == CLUSTER_METADATA:
        listed = await node.cluster_metadata.list_offset(part.partition_index, part.timestamp)
        return {
            "partition_index": part.partition_index,
            "error_code": listed.error,
            "timestamp": listed.timestamp,
            "offset": listed.offset,
            "leader_epoch": listed.leader_epoch,
        }
    if not isinstance(node, Broker):
        return _refused(part, ErrorCode.unknown_topic_or_partition)
    result = await node.replicas.queries.list_offset(
        topic,
        part.partition_index,
        timestamp=part.timestamp,
        current_leader_epoch=Epoch(part.current_leader_epoch),
    )
    return {
        "partition_index": part.partition_index,
        "error_code": _known(wire_code(result.error), context.version),
        "timestamp": result.timestamp,
        "offset": result.offset,
        "leader_epoch": result.leader_epoch,
    }
