"""Members of groups: JoinGroup, answered when the group has its next generation, SyncGroup, answered when the
leader's assignment is stored, Heartbeat and LeaveGroup."""

from collections.abc import Iterator
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from kio.schema.errors import ErrorCode

from quorate.broker.access.needs import of_group
from quorate.broker.apis import answers
from quorate.broker.apis.api_row import ApiRow, refuse_by_code
from quorate.broker.apis.context import Broker, encoded_in_slices, respond, respond_in_slices
from quorate.broker.groups.coordinator import MOST_NAME_CHARACTERS
from quorate.broker.groups.group_messages import (
    JoinRequest,
    JoinResult,
    MemberRef,
    Protocol,
    SyncRequest,
    SyncResult,
)
from quorate.broker.metadata.acls import AclOperation
from quorate.broker.wire.api import ApiKey
from quorate.broker.wire.exchanges import Answer, Deferred, Refusal, RequestContext, Response
from quorate.broker.wire.wire_errors import KafkaError
from quorate.runtime import Slices

if TYPE_CHECKING:
    from kio.schema.heartbeat.v4.request import HeartbeatRequest
    from kio.schema.join_group.v9.request import JoinGroupRequest
    from kio.schema.leave_group.v5.request import LeaveGroupRequest
    from kio.schema.sync_group.v5.request import SyncGroupRequest

_PROTOCOLS_MAX: Final = 100
"""The protocols that one member may offer. Clients offer one to three; each rebalance compares all members'
protocols."""
_AT_ONCE: Final = 100
"""Members that an answer has in one piece."""


def handle_join_group(broker: Broker, context: RequestContext, request: "JoinGroupRequest") -> Answer:
    if len(request.protocols) > _PROTOCOLS_MAX:
        raise KafkaError(
            ErrorCode.inconsistent_group_protocol,
            f"the member offers {len(request.protocols)} protocols, more than {_PROTOCOLS_MAX}",
        )
    instance_id = request.group_instance_id
    if instance_id is not None and len(instance_id) > MOST_NAME_CHARACTERS:
        raise KafkaError(
            ErrorCode.invalid_request,
            f"the group instance id has {len(instance_id)} characters, more than {MOST_NAME_CHARACTERS}",
        )
    deferred = Deferred()
    session_ms = _ms(request.session_timeout)
    rebalance_ms = _ms(request.rebalance_timeout)
    joining = JoinRequest(
        group_id=request.group_id,
        member_id=request.member_id,
        instance_id=instance_id,
        client_id=context.client_id or "",
        client_host="/" + context.connection.peer.rpartition(":")[0],
        session_timeout_ms=session_ms,
        rebalance_timeout_ms=rebalance_ms if rebalance_ms >= 0 else session_ms,
        protocol_type=request.protocol_type,
        protocols=tuple(Protocol(each.name, bytes(each.metadata)) for each in request.protocols),
        needs_member_id=context.version >= 4,
        skips_assignment=context.version >= 9,
        reason=request.reason or "",
    )

    def reply(result: JoinResult) -> None:
        values = _joined(context, result)
        if len(result.members) <= _AT_ONCE:
            deferred.complete(respond(context, values))
        else:
            deferred.complete_with(lambda: encoded_in_slices(context, values))

    broker.groups.join(joining, reply)
    return deferred


def _ms(duration: timedelta) -> int:
    return round(duration.total_seconds() * 1000)


def _joined(context: RequestContext, result: JoinResult) -> answers.JoinGroupResponse:
    protocol = result.protocol
    if protocol is None and context.version < 7:
        protocol = ""
    return {
        "error_code": result.error,
        "generation_id": result.generation,
        "protocol_type": result.protocol_type,
        "protocol_name": protocol,
        "leader": result.leader,
        "skip_assignment": result.skip_assignment,
        "member_id": result.member_id,
        "members": (
            {"member_id": each.member_id, "group_instance_id": each.instance_id, "metadata": each.metadata}
            for each in result.members
        ),
    }


async def handle_sync_group(broker: Broker, context: RequestContext, request: "SyncGroupRequest") -> Answer:
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
    broker.groups.sync(syncing, lambda result: deferred.complete(_synced(context, result)))
    return deferred


def _synced(context: RequestContext, result: SyncResult) -> Response:
    return respond(
        context,
        answers.SyncGroupResponse(
            error_code=result.error,
            protocol_type=result.protocol_type,
            protocol_name=result.protocol,
            assignment=result.assignment,
        ),
    )


def handle_heartbeat(broker: Broker, context: RequestContext, request: "HeartbeatRequest") -> Answer:
    ref = MemberRef(
        group_id=request.group_id,
        member_id=request.member_id,
        instance_id=request.group_instance_id,
        generation=request.generation_id,
    )
    return respond(context, answers.HeartbeatResponse(error_code=broker.groups.heartbeat(ref)))


async def handle_leave_group(broker: Broker, context: RequestContext, request: "LeaveGroupRequest") -> Answer:
    if context.version < 3:
        (only,) = request.members
        return respond(
            context,
            answers.LeaveGroupResponse(
                error_code=broker.groups.leave(request.group_id, only.member_id, None)
            ),
        )
    error = broker.groups.check(request.group_id)
    if error is not ErrorCode.none:
        return respond(context, answers.LeaveGroupResponse(error_code=error))
    slices = Slices()
    left: list[ErrorCode] = []
    for each in request.members:
        left.append(
            broker.groups.leave(request.group_id, each.member_id, each.group_instance_id, each.reason or "")
        )
        await slices.pause()
    members: Iterator[answers.LeaveGroupMemberResponse] = (
        {
            "member_id": each.member_id,
            "group_instance_id": each.group_instance_id,
            "error_code": outcome,
        }
        for each, outcome in zip(request.members, left, strict=True)
    )
    if len(left) <= _AT_ONCE:
        return respond(context, answers.LeaveGroupResponse(error_code=ErrorCode.none, members=members))
    return respond_in_slices(context, answers.LeaveGroupResponse(error_code=ErrorCode.none, members=members))


def _refuse_join(request: "JoinGroupRequest", refusal: Refusal) -> answers.JoinGroupResponse:
    return {
        "error_code": refusal.code,
        "generation_id": -1,
        "member_id": request.member_id,
        "protocol_name": "",
    }


ROWS: Final = (
    ApiRow["JoinGroupRequest"](
        ApiKey.JOIN_GROUP.api, _refuse_join, needs=(of_group(AclOperation.READ),), brokers=handle_join_group
    ),
    ApiRow["SyncGroupRequest"](
        ApiKey.SYNC_GROUP.api, refuse_by_code, needs=(of_group(AclOperation.READ),), brokers=handle_sync_group
    ),
    ApiRow["HeartbeatRequest"](
        ApiKey.HEARTBEAT.api, refuse_by_code, needs=(of_group(AclOperation.READ),), brokers=handle_heartbeat
    ),
    ApiRow["LeaveGroupRequest"](
        ApiKey.LEAVE_GROUP.api,
        refuse_by_code,
        needs=(of_group(AclOperation.READ),),
        brokers=handle_leave_group,
    ),
)
