"""The controller's door: bytes of a request in, bytes of an answer out."""

from typing import assert_never

from quorate.broker.controller.controller import Controller
from quorate.broker.controller.rpc import (
    AllocateProducerIdsRequest,
    AlterConfigsRequest,
    AlterPartitionRequest,
    AssignReplicasToDirsRequest,
    BrokerHeartbeatRequest,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    Refusal,
    RegisterBrokerRequest,
    Request,
    Response,
    RpcDecodeError,
    UnregisterBrokerRequest,
    decode_request,
    encode_response,
)
from quorate.error_code import ErrorCode
from quorate.runtime import get_logger

log = get_logger(__name__)


class ControllerService:
    """Answers requests that came as bytes. Bytes that are none are answered with a `Refusal`."""

    def __init__(self, controller: Controller) -> None:
        self._controller = controller

    async def handle(self, payload: bytes) -> bytes:
        try:
            request = decode_request(payload)
        except RpcDecodeError as error:
            log.warning("refused a request to the controller", size=len(payload), reason=str(error))
            return encode_response(Refusal(error=ErrorCode.INVALID_REQUEST, error_message=str(error)[:1000]))
        return encode_response(await self._dispatch(request))

    async def _dispatch(self, request: Request) -> Response:
        controller = self._controller
        match request:
            case BrokerHeartbeatRequest():
                return await controller.heartbeat(request)
            case AlterPartitionRequest():
                return await controller.alter_partition(request)
            case AssignReplicasToDirsRequest():
                return await controller.assign_replicas_to_dirs(request)
            case RegisterBrokerRequest():
                return await controller.register_broker(request)
            case CreateTopicsRequest():
                return await controller.create_topics(request)
            case DeleteTopicsRequest():
                return await controller.delete_topics(request)
            case AllocateProducerIdsRequest():
                return await controller.allocate_producer_ids(request)
            case AlterConfigsRequest():
                return await controller.alter_configs(request)
            case UnregisterBrokerRequest():
                return await controller.unregister_broker(request)
            case _:
                assert_never(request)
