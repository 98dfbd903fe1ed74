"""Heartbeat of a group's member."""

from typing import Any

from quorate.broker.apis.context import Broker, respond
from quorate.broker.groups import MemberRef
from quorate.broker.wire import Answer, RequestContext


def handle(broker: Broker, context: RequestContext, request: Any) -> Answer:
    ref = MemberRef(
        group_id=request.group_id,
        member_id=request.member_id,
        instance_id=getattr(request, "group_instance_id", None),
        generation=request.generation_id,
    )
    return respond(context, error_code=broker.groups.heartbeat(ref))
