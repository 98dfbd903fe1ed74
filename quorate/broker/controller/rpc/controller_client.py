"""A broker's side of the conversation with the controller."""

from collections.abc import Awaitable, Callable
from typing import TypeVar

from quorate.broker.controller.rpc.rpc import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
    AlterConfigsRequest,
    AlterConfigsResponse,
    AlterPartitionRequest,
    AlterPartitionResponse,
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    RegisterBrokerRequest,
    RegisterBrokerResponse,
    Request,
    UnregisterBrokerRequest,
    UnregisterBrokerResponse,
)
from quorate.broker.controller.rpc.rpc_codec import Refusal, RpcDecodeError, decode_response, encode_request

R = TypeVar("R")


class ControllerClient:
    """Typed requests over `send`, which takes a request's bytes to the active controller and returns the
    answer's. What `send` raises goes through; an answer that doesn't fit raises `RpcDecodeError`."""

    def __init__(self, send: Callable[[bytes], Awaitable[bytes]]) -> None:
        self._send = send

    async def register_broker(self, request: RegisterBrokerRequest) -> RegisterBrokerResponse:
        return await self._ask(request, RegisterBrokerResponse)

    async def heartbeat(self, request: BrokerHeartbeatRequest) -> BrokerHeartbeatResponse:
        return await self._ask(request, BrokerHeartbeatResponse)

    async def unregister_broker(self, request: UnregisterBrokerRequest) -> UnregisterBrokerResponse:
        return await self._ask(request, UnregisterBrokerResponse)

    async def alter_partition(self, request: AlterPartitionRequest) -> AlterPartitionResponse:
        return await self._ask(request, AlterPartitionResponse)

    async def assign_replicas_to_dirs(
        self, request: AssignReplicasToDirsRequest
    ) -> AssignReplicasToDirsResponse:
        return await self._ask(request, AssignReplicasToDirsResponse)

    async def create_topics(self, request: CreateTopicsRequest) -> CreateTopicsResponse:
        return await self._ask(request, CreateTopicsResponse)

    async def delete_topics(self, request: DeleteTopicsRequest) -> DeleteTopicsResponse:
        return await self._ask(request, DeleteTopicsResponse)

    async def allocate_producer_ids(self, request: AllocateProducerIdsRequest) -> AllocateProducerIdsResponse:
        return await self._ask(request, AllocateProducerIdsResponse)

    async def alter_configs(self, request: AlterConfigsRequest) -> AlterConfigsResponse:
        return await self._ask(request, AlterConfigsResponse)

    async def _ask(self, request: Request, expected: type[R]) -> R:
        response = decode_response(await self._send(encode_request(request)))
        if isinstance(response, Refusal):
            raise RpcDecodeError(
                f"the controller did not understand {type(request).__name__}: {response.error_message}"
            )
        if not isinstance(response, expected):
            raise RpcDecodeError(f"{type(request).__name__} was answered with {type(response).__name__}")
        return response
