"""ListOffsets."""

from collections.abc import AsyncIterator
from typing import Any, Final

from kio.schema.errors import ErrorCode

from quorate.broker.apis.cluster_metadata import CLUSTER_METADATA
from quorate.broker.apis.context import Broker, encoded_in_slices
from quorate.broker.wire.messages import Answer, RequestContext, Response

_Fields = dict[str, object]
_OFFSET_NOT_AVAILABLE_SINCE: Final = 5


def handle(broker: Broker, context: RequestContext, request: Any) -> Answer:
    """Looking for a timestamp may read from disk. Others run after every few milliseconds of it."""
    return broker.later(lambda: _list(broker, context, request))


async def _list(broker: Broker, context: RequestContext, request: Any) -> Response:
    return await encoded_in_slices(
        context,
        topics=(
            {"name": topic.name, "partitions": _partitions(broker, context, topic)}
            for topic in request.topics
        ),
    )


async def _partitions(broker: Broker, context: RequestContext, topic: Any) -> AsyncIterator[_Fields]:
    for part in topic.partitions:
        yield await _partition(broker, context, topic.name, part)


def _known(error: ErrorCode, version: int) -> ErrorCode:
    """As a client of that version of the request understands it (KIP-207)."""
    if error is ErrorCode.offset_not_available and version < _OFFSET_NOT_AVAILABLE_SINCE:
        return ErrorCode.leader_not_available
    return error


async def _partition(broker: Broker, context: RequestContext, topic: str, part: Any) -> _Fields:
    if topic == CLUSTER_METADATA:
        listed = await broker.cluster_metadata.list_offset(part.partition_index, part.timestamp)
        return {
            "partition_index": part.partition_index,
            "error_code": listed.error,
            "timestamp": listed.timestamp,
            "offset": listed.offset,
            "leader_epoch": listed.leader_epoch,
        }
    result = await broker.replicas.list_offset(
        topic,
        part.partition_index,
        timestamp=part.timestamp,
        current_leader_epoch=getattr(part, "current_leader_epoch", -1),
    )
    return {
        "partition_index": part.partition_index,
        "error_code": _known(ErrorCode(int(result.error)), context.version),
        "timestamp": result.timestamp,
        "offset": result.offset,
        "leader_epoch": result.leader_epoch,
    }
