"""AlterPartitionReassignments, passed on to the controller (KIP-455)."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import trio

from quorate.broker.apis.context import Broker, encoded_in_slices
from quorate.broker.controller.rpc import (
    AlterPartitionReassignmentsRequest,
    ReassignmentItem,
    ReassignmentResult,
)
from quorate.broker.metadata import MetadataImage
from quorate.broker.wire import Answer, RequestContext, Response, wire_code
from quorate.error_code import ErrorCode
from quorate.runtime import Slices

if TYPE_CHECKING:
    from kio.schema.alter_partition_reassignments.v1.request import (
        AlterPartitionReassignmentsRequest as WireRequest,
    )

_AT_ONCE: Final = 5000
"""Partitions in one request to the controller, which takes no more than 10,000."""
_OWN_METADATA_SECONDS: Final = 1.0
"""The wait for this broker's own metadata, so that who asks it next sees what was begun."""


def handle(broker: Broker, context: RequestContext, request: "WireRequest") -> Answer:
    """Begin, replace or cancel reassignments. The answer does not wait for their end."""
    return broker.later(lambda: _alter(broker, context, request))


async def _alter(broker: Broker, context: RequestContext, request: "WireRequest") -> Response:
    timeout = max(request.timeout.total_seconds(), 0)
    deadline = trio.current_time() + timeout
    slices = Slices()
    items: list[ReassignmentItem] = []
    for topic in request.topics:
        for part in topic.partitions:
            replicas = None if part.replicas is None else tuple(map(int, part.replicas))
            items.append(
                ReassignmentItem(topic=topic.name, partition_id=part.partition_index, replicas=replicas)
            )
            await slices.pause()
    results: list[ReassignmentResult] = []
    for start in range(0, max(len(items), 1), _AT_ONCE):
        portion = tuple(items[start : start + _AT_ONCE])
        answer = await broker.channel.ask(
            AlterPartitionReassignmentsRequest(
                partitions=portion, allow_factor_change=request.allow_replication_factor_change
            ),
            timeout_seconds=max(deadline - trio.current_time(), 0),
        )
        if answer.error is not ErrorCode.NONE:
            results += [
                ReassignmentResult(
                    topic=each.topic,
                    partition_id=each.partition_id,
                    error=answer.error,
                    error_message=answer.error_message,
                )
                for each in portion
            ]
            if not start:
                return await encoded_in_slices(
                    context,
                    allow_replication_factor_change=request.allow_replication_factor_change,
                    error_code=wire_code(answer.error),
                    error_message=answer.error_message,
                    responses=(),
                )
        else:
            results += answer.partitions
    begun = [item for item, result in zip(items, results, strict=True) if result.error is ErrorCode.NONE]
    with trio.move_on_at(min(deadline, trio.current_time() + _OWN_METADATA_SECONDS)):
        await broker.metadata.wait_until(lambda image: all(_known(image, item) for item in begun[-1:]))
    return await encoded_in_slices(
        context,
        allow_replication_factor_change=request.allow_replication_factor_change,
        error_code=wire_code(ErrorCode.NONE),
        error_message=None,
        responses=_topics(request, results),
    )


def _known(image: MetadataImage, item: ReassignmentItem) -> bool:
    topic = image.topic(item.topic)
    state = None if topic is None else image.partition(topic.topic_id, item.partition_id)
    if state is None:
        return True  # deleted meanwhile
    return not state.is_reassigning if item.replicas is None else state.target_replicas == item.replicas


def _topics(request: "WireRequest", results: list[ReassignmentResult]) -> Iterator[dict[str, object]]:
    rest = iter(results)
    for topic in request.topics:
        yield {"name": topic.name, "partitions": (_partition(next(rest)) for _ in topic.partitions)}


def _partition(result: ReassignmentResult) -> dict[str, object]:
    return {
        "partition_index": result.partition_id,
        "error_code": wire_code(result.error),
        "error_message": result.error_message,
    }
