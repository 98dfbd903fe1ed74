"""The part of Kafka's protocol on the controller listener, for tools and clients that are given
`bootstrap.controllers` (KIP-919)."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final, Never, cast

from quorate.broker.apis import (
    cluster,
    features,
    fetch,
    log_dirs,
    log_offsets,
    raft_voters,
)
from quorate.broker.apis.context import ServingNode
from quorate.broker.wire import Answer, ApiKey, Request, RequestContext

_Handler = Callable[[ServingNode, RequestContext, Never], Answer]
_HANDLERS: Final[Mapping[int, _Handler]] = MappingProxyType(
    {
        ApiKey.FETCH: fetch.handle_fetch_on_controller,
        ApiKey.LIST_OFFSETS: log_offsets.handle_list_offsets,
        ApiKey.OFFSET_FOR_LEADER_EPOCH: log_offsets.handle_offset_for_leader_epoch,
        ApiKey.ASSIGN_REPLICAS_TO_DIRS: log_dirs.handle_assign_replicas_to_dirs,
        ApiKey.DESCRIBE_CLUSTER: cluster.handle_describe_controllers,
        ApiKey.DESCRIBE_QUORUM: raft_voters.handle_describe_quorum,
        ApiKey.ADD_RAFT_VOTER: raft_voters.handle_add_raft_voter,
        ApiKey.REMOVE_RAFT_VOTER: raft_voters.handle_remove_raft_voter,
        ApiKey.UPDATE_RAFT_VOTER: raft_voters.handle_update_raft_voter,
        ApiKey.UPDATE_FEATURES: features.handle_update_features,
        ApiKey.UNREGISTER_BROKER: cluster.handle_unregister_broker,
    }
)
CONTROLLER_APIS: Final[frozenset[int]] = frozenset({ApiKey.API_VERSIONS, *_HANDLERS})
"""The keys that the controller listener serves. Any controller takes them, and asks the active one."""


class ControllerDispatcher:
    """`RequestHandler` of the controller listener."""

    def __init__(self, node: ServingNode) -> None:
        self._node = node

    async def handle(self, context: RequestContext, request: Request) -> Answer:
        return _HANDLERS[context.api_key](self._node, context, cast(Never, request))
