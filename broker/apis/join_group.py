"""JoinGroup: answered when the group has its next generation."""

from datetime import timedelta
from typing import Any

from quorate.broker.apis.context import Broker, respond
from quorate.broker.groups.messages import JoinRequest, JoinResult, Protocol
from quorate.broker.wire.messages import Answer, Deferred, RequestContext, Response


def handle(broker: Broker, context: RequestContext, request: Any) -> Answer:
    deferred = Deferred()
    session_ms = _ms(request.session_timeout)
    rebalance_ms = _ms(getattr(request, "rebalance_timeout", request.session_timeout))
    joining = JoinRequest(
        group_id=request.group_id,
        member_id=request.member_id,
        instance_id=getattr(request, "group_instance_id", None),
        client_id=context.client_id or "",
        client_host="/" + context.connection.peer.rpartition(":")[0],
        session_timeout_ms=session_ms,
        rebalance_timeout_ms=rebalance_ms if rebalance_ms >= 0 else session_ms,
        protocol_type=request.protocol_type,
        protocols=tuple(Protocol(each.name, bytes(each.metadata)) for each in request.protocols),
        needs_member_id=context.version >= 4,
    )
    broker.groups.join(joining, lambda result: deferred.complete(_response(context, result)))
    return deferred


def _ms(duration: timedelta) -> int:
    return round(duration.total_seconds() * 1000)


def _response(context: RequestContext, result: JoinResult) -> Response:
    protocol = result.protocol
    if protocol is None and context.version < 7:
        protocol = ""
    return respond(
        context,
        error_code=result.error,
        generation_id=result.generation,
        protocol_type=result.protocol_type,
        protocol_name=protocol,
        leader=result.leader,
        member_id=result.member_id,
        members=[
            {"member_id": each.member_id, "group_instance_id": each.instance_id, "metadata": each.metadata}
            for each in result.members
        ],
    )
