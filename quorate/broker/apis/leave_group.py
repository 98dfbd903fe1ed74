"""LeaveGroup: one member, or from version 3 on several."""

from typing import TYPE_CHECKING, Final

from kio.schema.errors import ErrorCode

from quorate.broker.apis.context import Broker, respond, respond_in_slices
from quorate.broker.wire import Answer, RequestContext
from quorate.runtime import Slices

if TYPE_CHECKING:
    from kio.schema.leave_group.v5.request import LeaveGroupRequest

_AT_ONCE: Final = 100
"""Members that are answered in one piece."""


async def handle(broker: Broker, context: RequestContext, request: "LeaveGroupRequest") -> Answer:
    if context.version < 3:
        (only,) = request.members
        return respond(context, error_code=broker.groups.leave(request.group_id, only.member_id, None))
    error = broker.groups.check(request.group_id)
    if error is not ErrorCode.none:
        return respond(context, error_code=error)
    slices = Slices()
    left: list[ErrorCode] = []
    for each in request.members:
        left.append(
            broker.groups.leave(request.group_id, each.member_id, each.group_instance_id, each.reason or "")
        )
        await slices.pause()
    members = (
        {
            "member_id": each.member_id,
            "group_instance_id": each.group_instance_id,
            "error_code": outcome,
        }
        for each, outcome in zip(request.members, left, strict=True)
    )
    if len(left) <= _AT_ONCE:
        return respond(context, error_code=ErrorCode.none, members=members)
    return respond_in_slices(context, error_code=ErrorCode.none, members=members)
