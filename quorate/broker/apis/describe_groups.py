"""DescribeGroups: state, protocol and members of classic groups."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from kio.schema.errors import ErrorCode

from quorate.broker.apis.authorized_operations import ALL_OF_A_GROUP, NOT_ASKED
from quorate.broker.apis.context import Broker, respond_in_slices
from quorate.broker.groups import MemberDescription
from quorate.broker.wire import Answer, RequestContext

if TYPE_CHECKING:
    from kio.schema.describe_groups.v6.request import DescribeGroupsRequest

_Fields = dict[str, object]
_DEAD: Final = "Dead"


def handle(broker: Broker, context: RequestContext, request: "DescribeGroupsRequest") -> Answer:
    """Describe each group as it is when its part of the answer is made."""
    operations = ALL_OF_A_GROUP if request.include_authorized_operations else NOT_ASKED
    return respond_in_slices(
        context,
        groups=(
            {"group_id": group_id} | _group(broker, context.version, group_id, operations)
            for group_id in request.groups
        ),
    )


def _group(broker: Broker, version: int, group_id: str, operations: int) -> _Fields:
    """A group that is not there is dead; from version 6 on that is an error too (KIP-1043)."""
    nothing: _Fields = {"protocol_type": "", "protocol_data": "", "members": ()}
    found = broker.groups.administration.describe(group_id)
    if found is ErrorCode.group_id_not_found:
        if version < 6:
            dead: _Fields = {"error_code": ErrorCode.none, "group_state": _DEAD}
            return nothing | dead | {"authorized_operations": operations}
        message = f"Group {group_id} not found."
        return nothing | {"error_code": found, "error_message": message, "group_state": _DEAD}
    if isinstance(found, ErrorCode):
        return nothing | {"error_code": found, "group_state": ""}
    return {
        "error_code": ErrorCode.none,
        "group_state": found.state,
        "protocol_type": found.protocol_type,
        "protocol_data": found.protocol,
        "members": _members(found.members),
        "authorized_operations": operations,
    }


def _members(members: tuple[MemberDescription, ...]) -> Iterator[_Fields]:
    for each in members:
        yield {
            "member_id": each.member_id,
            "group_instance_id": each.instance_id,
            "client_id": each.client_id,
            "client_host": each.client_host,
            "member_metadata": each.metadata,
            "member_assignment": each.assignment,
        }
