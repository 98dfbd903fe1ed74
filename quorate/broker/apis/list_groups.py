"""ListGroups: the groups that this broker coordinates."""

from typing import TYPE_CHECKING

from kio.schema.errors import ErrorCode

from quorate.broker.apis.context import Broker, encoded_in_slices
from quorate.broker.groups import GroupFilter
from quorate.broker.wire import Answer, Deferred, RequestContext, Response
from quorate.runtime import in_slices

if TYPE_CHECKING:
    from kio.schema.list_groups.v5.request import ListGroupsRequest


def handle(broker: Broker, context: RequestContext, request: "ListGroupsRequest") -> Answer:
    """List the groups of the states and types asked for, when the answer is about to be sent."""
    deferred = Deferred()
    deferred.complete_with(lambda: _list(broker, context, request))
    return deferred


async def _list(broker: Broker, context: RequestContext, request: "ListGroupsRequest") -> Response:
    wanted = await in_slices(GroupFilter.steps(states=request.states_filter, types=request.types_filter))
    found = await broker.groups.administration.groups(wanted)
    if isinstance(found, ErrorCode):
        return await encoded_in_slices(context, error_code=found, groups=())
    return await encoded_in_slices(
        context,
        error_code=ErrorCode.none,
        groups=(
            {
                "group_id": each.group_id,
                "protocol_type": each.protocol_type,
                "group_state": each.state,
                "group_type": each.group_type,
            }
            for each in found
        ),
    )
