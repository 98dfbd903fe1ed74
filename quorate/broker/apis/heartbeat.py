"""Heartbeat of a group's member."""

from typing import TYPE_CHECKING

from quorate.broker.apis.context import Broker, respond
from quorate.broker.groups import MemberRef
from quorate.broker.wire import Answer, RequestContext

if TYPE_CHECKING:
    from kio.schema.heartbeat.v4.request import HeartbeatRequest


def handle(broker: Broker, context: RequestContext, request: "HeartbeatRequest") -> Answer:
    ref = MemberRef(
        group_id=request.group_id,
        member_id=request.member_id,
        instance_id=request.group_instance_id,
        generation=request.generation_id,
    )
    return respond(context, error_code=broker.groups.heartbeat(ref))
