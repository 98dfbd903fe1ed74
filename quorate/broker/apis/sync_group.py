"""SyncGroup: answered when the leader's assignment is stored."""

from typing import TYPE_CHECKING

from quorate.broker.apis.context import Broker, respond
from quorate.broker.groups import MemberRef, SyncRequest, SyncResult
from quorate.broker.wire import Answer, Deferred, RequestContext, Response
from quorate.runtime import Slices

if TYPE_CHECKING:
    from kio.schema.sync_group.v5.request import SyncGroupRequest


async def handle(broker: Broker, context: RequestContext, request: "SyncGroupRequest") -> Answer:
    deferred = Deferred()
    slices = Slices()
    assignments: list[tuple[str, bytes]] = []
    for each in request.assignments:
        assignments.append((each.member_id, bytes(each.assignment)))
        await slices.pause()
    syncing = SyncRequest(
        member=MemberRef(
            group_id=request.group_id,
            member_id=request.member_id,
            instance_id=request.group_instance_id,
            generation=request.generation_id,
        ),
        protocol_type=request.protocol_type,
        protocol=request.protocol_name,
        assignments=tuple(assignments),
    )
    broker.groups.sync(syncing, lambda result: deferred.complete(_response(context, result)))
    return deferred


def _response(context: RequestContext, result: SyncResult) -> Response:
    return respond(
        context,
        error_code=result.error,
        protocol_type=result.protocol_type,
        protocol_name=result.protocol,
        assignment=result.assignment,
    )
