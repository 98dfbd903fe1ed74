"""The APIs that nodes serve, and the way of a request to its handler."""

from collections.abc import Coroutine, Iterable, Mapping
from types import MappingProxyType
from typing import Final

from kio.schema.errors import ErrorCode

from quorate.broker.apis import (
    acls,
    alter_configs,
    cluster,
    describe_configs,
    features,
    fetch,
    find_coordinator,
    group_admin,
    group_membership,
    group_offsets,
    log_dirs,
    log_offsets,
    metadata,
    own_apis,
    produce,
    producers,
    quotas,
    raft_voters,
    reassignments,
    scram_credentials,
    topics,
)
from quorate.broker.apis.api_row import AnyRow
from quorate.broker.apis.context import Broker, ServingNode
from quorate.broker.controller_channel import ControllerTimedOutError
from quorate.broker.groups.group_messages import GroupMovedError
from quorate.broker.wire.exchanges import Answer, Request, RequestContext
from quorate.broker.wire.wire_errors import ErrorTable
from quorate.raft import NotLeaderError, QuorumStoppedError


def _by_key(rows: Iterable[AnyRow]) -> Mapping[int, AnyRow]:
    return MappingProxyType({row.api.key: row for row in rows})


ROWS: Final = _by_key(
    (
        *acls.ROWS,
        *alter_configs.ROWS,
        *cluster.ROWS,
        *describe_configs.ROWS,
        *features.ROWS,
        *fetch.ROWS,
        *find_coordinator.ROWS,
        *group_admin.ROWS,
        *group_membership.ROWS,
        *group_offsets.ROWS,
        *log_dirs.ROWS,
        *log_offsets.ROWS,
        *metadata.ROWS,
        *own_apis.ROWS,
        *produce.ROWS,
        *producers.ROWS,
        *quotas.ROWS,
        *raft_voters.ROWS,
        *reassignments.ROWS,
        *scram_credentials.ROWS,
        *topics.ROWS,
    )
)
"""The row of each API but `CONNECTION_APIS`, which the wire layer answers itself."""
BROKER_APIS: Final = _by_key(row for row in ROWS.values() if row.brokers is not None)
"""The APIs of a broker's listeners for clients."""
CONTROLLER_APIS: Final = _by_key(row for row in ROWS.values() if row.controllers is not None)
"""The APIs of the controller listener."""


def error_table() -> ErrorTable:
    """Return the error codes of quorate's exceptions for clients."""
    return ErrorTable(
        {
            ControllerTimedOutError: ErrorCode.request_timed_out,
            GroupMovedError: ErrorCode.not_coordinator,
            NotLeaderError: ErrorCode.not_controller,
            QuorumStoppedError: ErrorCode.broker_not_available,
        }
    )


class Dispatcher:
    """`RequestHandler` of a broker's listeners."""

    def __init__(self, broker: Broker, apis: Mapping[int, AnyRow] = BROKER_APIS) -> None:
        self._broker = broker
        self.apis = apis

    async def handle(self, context: RequestContext, request: Request) -> Answer:
        answer = self.apis[context.api.key].answer_on_broker(self._broker, context, request)
        return await answer if isinstance(answer, Coroutine) else answer


class ControllerDispatcher:
    """`RequestHandler` of the controller listener."""

    def __init__(self, node: ServingNode, apis: Mapping[int, AnyRow] = CONTROLLER_APIS) -> None:
        self._node = node
        self.apis = apis

    async def handle(self, context: RequestContext, request: Request) -> Answer:
        answer = self.apis[context.api.key].answer_on_controller(self._node, context, request)
        return await answer if isinstance(answer, Coroutine) else answer
