"""AssignReplicasToDirs: a broker says which of its directories its replicas are in (KIP-858)."""

import uuid
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from kio.schema.errors import ErrorCode

from quorate.broker.apis.context import ServingNode, encoded_in_slices, respond
from quorate.broker.controller.operations import MAX_ASSIGNMENTS
from quorate.broker.controller.rpc import (
    AssignReplicasToDirsRequest,
    DirectoryAssignment,
    DirectoryAssignmentResult,
)
from quorate.broker.metadata import MIGRATING
from quorate.broker.wire import Answer, RequestContext, Response, wire_code
from quorate.error_code import ErrorCode as OwnErrorCode
from quorate.runtime import Slices

if TYPE_CHECKING:
    from kio.schema.assign_replicas_to_dirs.v0.request import AssignReplicasToDirsRequest as WireRequest

_TIMEOUT_SECONDS: Final = 30
"""The request names none."""
_NO_TOPIC: Final = uuid.UUID(int=0)
_Fields = dict[str, object]


def handle(node: ServingNode, context: RequestContext, request: "WireRequest") -> Answer:
    """Pass it on to the active controller, which checks and records each by itself."""
    return node.later(lambda: _assign(node, context, request))


async def _assign(node: ServingNode, context: RequestContext, request: "WireRequest") -> Response:
    assignments: list[DirectoryAssignment] = []
    slices = Slices()
    for directory in request.directories:
        for topic in directory.topics:
            for part in topic.partitions:
                assignments.append(
                    DirectoryAssignment(
                        topic_id=topic.topic_id or _NO_TOPIC,
                        partition_id=part.partition_index,
                        directory_id=directory.id_ or MIGRATING,
                    )
                )
                await slices.pause()
    if len(assignments) > MAX_ASSIGNMENTS:
        return respond(context, error_code=ErrorCode.invalid_request, directories=())
    answer = await node.channel.ask(
        AssignReplicasToDirsRequest(
            broker_id=request.broker_id,
            broker_epoch=request.broker_epoch,
            assignments=tuple(assignments),
        ),
        timeout_seconds=_TIMEOUT_SECONDS,
    )
    if answer.error is not OwnErrorCode.NONE:
        return respond(context, error_code=wire_code(answer.error), directories=())
    return await encoded_in_slices(
        context, error_code=ErrorCode.none, directories=_directories(request, answer.results)
    )


def _directories(request: "WireRequest", results: tuple[DirectoryAssignmentResult, ...]) -> Iterator[_Fields]:
    rest = iter(results)
    for directory in request.directories:
        yield {
            "id_": directory.id_,
            "topics": [
                {
                    "topic_id": topic.topic_id,
                    "partitions": [
                        {"partition_index": part.partition_index, "error_code": wire_code(next(rest).error)}
                        for part in topic.partitions
                    ],
                }
                for topic in directory.topics
            ],
        }
