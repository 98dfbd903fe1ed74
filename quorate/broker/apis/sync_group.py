"""SyncGroup: answered when the leader's assignment is stored."""

from typing import Any

from quorate.broker.apis.context import Broker, respond
from quorate.broker.groups import MemberRef, SyncRequest, SyncResult
from quorate.broker.wire import Answer, Deferred, RequestContext, Response
from quorate.runtime import Slices


async def handle(broker: Broker, context: RequestContext, request: Any) -> Answer:
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
            instance_id=getattr(request, "group_instance_id", None),
            generation=request.generation_id,
        ),
        protocol_type=getattr(request, "protocol_type", None),
        protocol=getattr(request, "protocol_name", None),
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
