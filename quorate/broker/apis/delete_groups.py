"""DeleteGroups: answered when the tombstones are on every replica in sync."""

from functools import partial
from typing import TYPE_CHECKING

import trio
from kio.schema.errors import ErrorCode

from quorate.broker.apis.context import Broker, encoded_in_slices
from quorate.broker.wire import Answer, RequestContext, Response
from quorate.runtime import Slices

if TYPE_CHECKING:
    from kio.schema.delete_groups.v2.request import DeleteGroupsRequest


def handle(broker: Broker, context: RequestContext, request: "DeleteGroupsRequest") -> Answer:
    return broker.later(lambda: _delete(broker, context, request))


async def _delete(broker: Broker, context: RequestContext, request: "DeleteGroupsRequest") -> Response:
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
        await broker.groups.administration.delete(group_id, partial(known, group_id))
        await slices.pause()
    if wanted:
        await all_known.wait()
    results = ({"group_id": each, "error_code": outcomes[each]} for each in wanted)
    return await encoded_in_slices(context, results=results)
