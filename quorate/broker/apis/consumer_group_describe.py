"""ConsumerGroupDescribe (KIP-848): there are no groups of that kind here, which clients must be told in the
way that makes them ask with DescribeGroups."""

from typing import TYPE_CHECKING, Final

from kio.schema.errors import ErrorCode

from quorate.broker.apis.context import Broker, respond_in_slices
from quorate.broker.wire import Answer, RequestContext

if TYPE_CHECKING:
    from kio.schema.consumer_group_describe.v1.request import ConsumerGroupDescribeRequest

_FEATURE: Final = "group.version"


def handle(broker: Broker, context: RequestContext, request: "ConsumerGroupDescribeRequest") -> Answer:
    return respond_in_slices(context, groups=(_group(broker, each) for each in request.group_ids))


def _group(broker: Broker, group_id: str) -> dict[str, object]:
    error, message = _refusal(broker, group_id)
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


def _refusal(broker: Broker, group_id: str) -> tuple[ErrorCode, str | None]:
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
