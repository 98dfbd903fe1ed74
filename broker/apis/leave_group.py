"""LeaveGroup: one member, or from version 3 on several."""

from typing import Any

from kio.schema.errors import ErrorCode

from quorate.broker.apis.context import Broker, respond
from quorate.broker.wire.messages import Answer, RequestContext


def handle(broker: Broker, context: RequestContext, request: Any) -> Answer:
    if context.version < 3:
        return respond(context, error_code=broker.groups.leave(request.group_id, request.member_id, None))
    error = broker.groups.check(request.group_id)
    if error is not ErrorCode.none:
        return respond(context, error_code=error)
    return respond(
        context,
        error_code=ErrorCode.none,
        members=[
            {
                "member_id": each.member_id,
                "group_instance_id": each.group_instance_id,
                "error_code": broker.groups.leave(request.group_id, each.member_id, each.group_instance_id),
            }
            for each in request.members
        ],
    )
