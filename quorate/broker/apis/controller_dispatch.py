"""The part of Kafka's protocol on the controller listener, for tools and clients that are given
`bootstrap.controllers` (KIP-919)."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final, Never, cast

from quorate.broker.apis import (
    add_raft_voter,
    assign_replicas_to_dirs,
    describe_cluster,
    describe_quorum,
    fetch,
    list_offsets,
    offset_for_leader_epoch,
    remove_raft_voter,
    unregister_broker,
    update_features,
    update_raft_voter,
)
from quorate.broker.apis.context import ServingNode
from quorate.broker.wire import Answer, ApiKey, Request, RequestContext

_Handler = Callable[[ServingNode, RequestContext, Never], Answer]
_HANDLERS: Final[Mapping[int, _Handler]] = MappingProxyType(
    {
        ApiKey.FETCH: fetch.handle_controllers,
        ApiKey.LIST_OFFSETS: list_offsets.handle,
        ApiKey.OFFSET_FOR_LEADER_EPOCH: offset_for_leader_epoch.handle,
        ApiKey.ASSIGN_REPLICAS_TO_DIRS: assign_replicas_to_dirs.handle,
        ApiKey.DESCRIBE_CLUSTER: describe_cluster.handle_controllers,
        ApiKey.DESCRIBE_QUORUM: describe_quorum.handle,
        ApiKey.ADD_RAFT_VOTER: add_raft_voter.handle,
        ApiKey.REMOVE_RAFT_VOTER: remove_raft_voter.handle,
        ApiKey.UPDATE_RAFT_VOTER: update_raft_voter.handle,
        ApiKey.UPDATE_FEATURES: update_features.handle,
        ApiKey.UNREGISTER_BROKER: unregister_broker.handle,
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
