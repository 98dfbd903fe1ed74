"""Administration of groups: ListGroups, DescribeGroups, ConsumerGroupDescribe (KIP-848) and DeleteGroups."""

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Final

import trio
from kio.schema.errors import ErrorCode

from quorate.broker.access.needs import denied_message, left_out, of_each
from quorate.broker.apis import answers
from quorate.broker.apis.api_row import ApiRow, refuse_by_code
from quorate.broker.apis.authorized_operations import NOT_ASKED, operations_on
from quorate.broker.apis.context import Broker, answer_later, encoded_in_slices, respond_in_slices
from quorate.broker.groups.group_administration import GroupFilter
from quorate.broker.groups.group_messages import MemberDescription
from quorate.broker.metadata.acls import AclOperation, ResourceType
from quorate.broker.wire.api import ApiKey
from quorate.broker.wire.exchanges import Answer, Deferred, Refusal, RequestContext, Response
from quorate.runtime import Slices, in_slices

if TYPE_CHECKING:
    from kio.schema.consumer_group_describe.v1.request import ConsumerGroupDescribeRequest
    from kio.schema.delete_groups.v2.request import DeleteGroupsRequest
    from kio.schema.describe_groups.v6.request import DescribeGroupsRequest
    from kio.schema.list_groups.v5.request import ListGroupsRequest

_DEAD: Final = "Dead"
_DENIED: Final = denied_message(ErrorCode.group_authorization_failed)
_FEATURE: Final = "group.version"


def handle_list_groups(broker: Broker, context: RequestContext, request: "ListGroupsRequest") -> Answer:
    """List the groups of the states and types asked for, when the answer is about to be sent."""
    deferred = Deferred()
    deferred.complete_with(lambda: _list(broker, context, request))
    return deferred


async def _list(broker: Broker, context: RequestContext, request: "ListGroupsRequest") -> Response:
    wanted = await in_slices(GroupFilter.steps(states=request.states_filter, types=request.types_filter))
    found = await broker.groups.administration.groups(wanted)
    if isinstance(found, ErrorCode):
        return await encoded_in_slices(context, answers.ListGroupsResponse(error_code=found, groups=()))
    may_see_all = broker.may_on_cluster(context, AclOperation.DESCRIBE, audited=False)
    return await encoded_in_slices(
        context,
        answers.ListGroupsResponse(
            error_code=ErrorCode.none,
            groups=(
                {
                    "group_id": each.group_id,
                    "protocol_type": each.protocol_type,
                    "group_state": each.state,
                    "group_type": each.group_type,
                }
                for each in found
                if may_see_all
                or broker.may(
                    context, AclOperation.DESCRIBE, ResourceType.GROUP, each.group_id, audited=False
                )
            ),
        ),
    )


def handle_describe_groups(
    broker: Broker, context: RequestContext, request: "DescribeGroupsRequest"
) -> Answer:
    """Describe each group as it is when its part of the answer is made."""
    with_operations = request.include_authorized_operations

    def described(group_id: str) -> answers.DescribeGroupsDescribedGroup:
        if not broker.may(context, AclOperation.DESCRIBE, ResourceType.GROUP, group_id):
            return _no_group(
                group_id, ErrorCode.group_authorization_failed, _DENIED if context.version >= 6 else None
            )
        operations = NOT_ASKED
        if with_operations:
            operations = operations_on(broker, context, ResourceType.GROUP, group_id)
        return _group(broker, context.version, group_id, operations)

    return respond_in_slices(
        context,
        answers.DescribeGroupsResponse(groups=map(described, request.groups)),
    )


def _group(
    broker: Broker, version: int, group_id: str, operations: int
) -> answers.DescribeGroupsDescribedGroup:
    """A group that is not there is dead; from version 6 on that is an error too (KIP-1043)."""
    found = broker.groups.administration.describe(group_id)
    if found is ErrorCode.group_id_not_found:
        if version < 6:
            return {**_no_group(group_id, ErrorCode.none, state=_DEAD), "authorized_operations": operations}
        return _no_group(group_id, found, f"Group {group_id} not found.", state=_DEAD)
    if isinstance(found, ErrorCode):
        return _no_group(group_id, found)
    return {
        "group_id": group_id,
        "error_code": ErrorCode.none,
        "group_state": found.state,
        "protocol_type": found.protocol_type,
        "protocol_data": found.protocol,
        "members": _members(found.members),
        "authorized_operations": operations,
    }


def _no_group(
    group_id: str, error: ErrorCode, message: str | None = None, *, state: str = ""
) -> answers.DescribeGroupsDescribedGroup:
    return {
        "group_id": group_id,
        "error_code": error,
        "error_message": message,
        "group_state": state,
        "protocol_type": "",
        "protocol_data": "",
        "members": (),
    }


def _members(members: tuple[MemberDescription, ...]) -> Iterator[answers.DescribedGroupMember]:
    for each in members:
        yield {
            "member_id": each.member_id,
            "group_instance_id": each.instance_id,
            "client_id": each.client_id,
            "client_host": each.client_host,
            "member_metadata": each.metadata,
            "member_assignment": each.assignment,
        }


def handle_consumer_group_describe(
    broker: Broker, context: RequestContext, request: "ConsumerGroupDescribeRequest"
) -> Answer:
    return respond_in_slices(
        context,
        answers.ConsumerGroupDescribeResponse(
            groups=(_no_consumer_group(broker, context, each) for each in request.group_ids)
        ),
    )


def _no_consumer_group(
    broker: Broker, context: RequestContext, group_id: str
) -> answers.ConsumerGroupDescribeDescribedGroup:
    if not broker.may(context, AclOperation.DESCRIBE, ResourceType.GROUP, group_id):
        return _refused_consumer_group(group_id, ErrorCode.group_authorization_failed, _DENIED)
    error, message = _why_none(broker, group_id)
    return _refused_consumer_group(group_id, error, message)


def _refused_consumer_group(
    group_id: str, error: ErrorCode, message: str | None
) -> answers.ConsumerGroupDescribeDescribedGroup:
    return {
        "error_code": error,
        "error_message": message,
        "group_id": group_id,
        "group_state": "",
        "group_epoch": 0,
        "assignment_epoch": 0,
        "assignor_name": "",
        "members": (),
    }


def _why_none(broker: Broker, group_id: str) -> tuple[ErrorCode, str | None]:
    if not dict(broker.image.features).get(_FEATURE):
        return ErrorCode.unsupported_version, f"The new consumer group protocol is off ({_FEATURE} is 0)."
    if not group_id:
        return ErrorCode.invalid_group_id, "The group id is empty."
    found = broker.groups.administration.describe(group_id)
    if found is ErrorCode.group_id_not_found:
        return found, f"Group {group_id} not found."
    if isinstance(found, ErrorCode):
        return found, None
    return ErrorCode.group_id_not_found, f"Group {group_id} is not a consumer group."


@answer_later
async def handle_delete_groups(
    broker: Broker, context: RequestContext, request: "DeleteGroupsRequest"
) -> Response:
    """Delete each group once. One that can't be deleted does not keep the others."""
    outcomes: dict[str, ErrorCode] = {}
    all_known = trio.Event()
    wanted = dict.fromkeys(map(str, request.groups_names))

    def known(group_id: str, outcome: ErrorCode) -> None:
        outcomes[group_id] = outcome
        if len(outcomes) == len(wanted):
            all_known.set()

    slices = Slices()
    for group_id in wanted:
        if not broker.may(context, AclOperation.DELETE, ResourceType.GROUP, group_id):
            known(group_id, ErrorCode.group_authorization_failed)
            continue
        await broker.groups.administration.delete(group_id, partial(known, group_id))
        await slices.pause()
    if wanted:
        await all_known.wait()
    results: Iterator[answers.DeletableGroupResult] = (
        {"group_id": each, "error_code": outcomes[each]} for each in wanted
    )
    return await encoded_in_slices(context, answers.DeleteGroupsResponse(results=results))


def _refuse_described(request: "DescribeGroupsRequest", refusal: Refusal) -> answers.DescribeGroupsResponse:
    return {"groups": (_no_group(each, refusal.code, refusal.message) for each in request.groups)}


def _refuse_consumer_groups(
    request: "ConsumerGroupDescribeRequest", refusal: Refusal
) -> answers.ConsumerGroupDescribeResponse:
    return {
        "groups": (_refused_consumer_group(each, refusal.code, refusal.message) for each in request.group_ids)
    }


def _refuse_deleted(request: "DeleteGroupsRequest", refusal: Refusal) -> answers.DeleteGroupsResponse:
    return {"results": ({"group_id": each, "error_code": refusal.code} for each in request.groups_names)}


ROWS: Final = (
    ApiRow["ListGroupsRequest"](
        ApiKey.LIST_GROUPS.api,
        refuse_by_code,
        needs=(left_out(AclOperation.DESCRIBE, ResourceType.GROUP, or_on_cluster=AclOperation.DESCRIBE),),
        brokers=handle_list_groups,
    ),
    ApiRow["DescribeGroupsRequest"](
        ApiKey.DESCRIBE_GROUPS.api,
        _refuse_described,
        needs=(of_each(AclOperation.DESCRIBE, ResourceType.GROUP),),
        brokers=handle_describe_groups,
    ),
    ApiRow["ConsumerGroupDescribeRequest"](
        ApiKey.CONSUMER_GROUP_DESCRIBE.api,
        _refuse_consumer_groups,
        needs=(of_each(AclOperation.DESCRIBE, ResourceType.GROUP),),
        brokers=handle_consumer_group_describe,
    ),
    ApiRow["DeleteGroupsRequest"](
        ApiKey.DELETE_GROUPS.api,
        _refuse_deleted,
        needs=(of_each(AclOperation.DELETE, ResourceType.GROUP),),
        brokers=handle_delete_groups,
    ),
)
