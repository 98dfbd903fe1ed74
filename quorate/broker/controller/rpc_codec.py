"""Requests to the controller and its answers as bytes: the CBOR array [API key, version, {field: value}].

API keys are Kafka's for the same request, and 10,000 more for one of ours that stands beside it. A receiver
skips unknown fields of a body, and refuses an unknown API or version.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Final, TypeVar, cast

from quorate.bounds import Bound, Most, Only
from quorate.broker.access.asker import Asker
from quorate.broker.controller import rpc
from quorate.broker.controller.rpc import (
    CONTROLLER_CODES,
    MAX_MESSAGE_BYTES,
    ControllerRequest,
    ControllerResponse,
)
from quorate.broker.metadata.metadata_records import BrokerId
from quorate.broker.wire.principals import Principal
from quorate.cbor import Messages
from quorate.error_code import ErrorCode
from quorate.types import SecretBytes

_MOST_NAME: Final = 1 << 15


class RpcDecodeError(ValueError):
    """Bytes that are no request or response this version knows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal(ControllerResponse):
    """The answer to bytes that are no request."""

    error: ErrorCode  # pyright: ignore[reportGeneralTypeIssues]


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvelopeRequest(ControllerRequest[ControllerResponse]):
    """Another request, and the client for whom a node passes it on (KIP-590). It has the other's answer."""

    request: Annotated[SecretBytes, Most(MAX_MESSAGE_BYTES)]
    """May hold passwords."""
    principal_type: Annotated[str, Most(_MOST_NAME)]
    principal_name: Annotated[str, Most(_MOST_NAME)]
    client_host: Annotated[str, Most(_MOST_NAME)]
    node_id: BrokerId
    """The node that passes the request on."""


R = TypeVar("R", bound=ControllerResponse)
_Row = tuple[int, int, type[ControllerRequest[ControllerResponse]], type[ControllerResponse]]

_APIS: Final[tuple[_Row, ...]] = (
    (62, 0, rpc.RegisterBrokerRequest, rpc.RegisterBrokerResponse),
    (63, 0, rpc.BrokerHeartbeatRequest, rpc.BrokerHeartbeatResponse),
    (56, 0, rpc.AlterPartitionRequest, rpc.AlterPartitionResponse),
    (73, 0, rpc.AssignReplicasToDirsRequest, rpc.AssignReplicasToDirsResponse),
    (67, 0, rpc.AllocateProducerIdsRequest, rpc.AllocateProducerIdsResponse),
    (64, 0, rpc.UnregisterBrokerRequest, rpc.UnregisterBrokerResponse),
    (19, 0, rpc.CreateTopicsRequest, rpc.CreateTopicsResponse),
    (20, 0, rpc.DeleteTopicsRequest, rpc.DeleteTopicsResponse),
    (37, 0, rpc.CreatePartitionsRequest, rpc.CreatePartitionsResponse),
    (10_037, 0, rpc.ShrinkTopicsRequest, rpc.ShrinkTopicsResponse),
    (45, 0, rpc.AlterPartitionReassignmentsRequest, rpc.AlterPartitionReassignmentsResponse),
    (43, 0, rpc.ElectLeadersRequest, rpc.ElectLeadersResponse),
    (44, 0, rpc.AlterConfigsRequest, rpc.AlterConfigsResponse),
    (30, 0, rpc.CreateAclsRequest, rpc.CreateAclsResponse),
    (31, 0, rpc.DeleteAclsRequest, rpc.DeleteAclsResponse),
    (49, 0, rpc.AlterClientQuotasRequest, rpc.AlterClientQuotasResponse),
    (51, 0, rpc.AlterUserScramCredentialsRequest, rpc.AlterUserScramCredentialsResponse),
    (10_051, 0, rpc.SealAgainRequest, rpc.SealAgainResponse),
    (57, 0, rpc.UpdateFeaturesRequest, rpc.UpdateFeaturesResponse),
)
"""API key, version, request and answer."""
_REFUSED: Final = -1
"""The API key of an answer to bytes that are no request."""
_BOUNDS: Final[Mapping[object, Bound]] = {ErrorCode: Only(CONTROLLER_CODES)}

_REQUESTS: Final[Messages[ControllerRequest[ControllerResponse]]] = Messages(
    "request to the controller",
    (58, 0, EnvelopeRequest),
    *((key, version, request) for key, version, request, _ in _APIS),
    error=RpcDecodeError,
    max_bytes=MAX_MESSAGE_BYTES,
    bounds=_BOUNDS,
)
_RESPONSES: Final[Messages[ControllerResponse]] = Messages(
    "response of the controller",
    (_REFUSED, 0, Refusal),
    *((key, version, response) for key, version, _, response in _APIS),
    error=RpcDecodeError,
    max_bytes=MAX_MESSAGE_BYTES,
    bounds=_BOUNDS,
)
ANSWERS: Final[Mapping[type[object], type[ControllerResponse]]] = {
    request: response for _, _, request, response in _APIS
}
"""The answer to each request."""

encode_request: Final = _REQUESTS.encode
decode_request: Final = _REQUESTS.decode
encode_response: Final = _RESPONSES.encode
decode_response: Final = _RESPONSES.decode


def encode_for(asker: Asker, request: ControllerRequest[R]) -> bytes:
    """Encode a request that is passed on for a client."""
    return encode_request(
        EnvelopeRequest(
            request=SecretBytes(encode_request(request)),
            principal_type=asker.principal.kind,
            principal_name=asker.principal.name,
            client_host=asker.host,
            node_id=asker.node_id,
        )
    )


def decode_asked(data: bytes) -> tuple[ControllerRequest[ControllerResponse], Asker | None]:
    """Decode a request, and the client that it was passed on for; None: the sender asks for itself. Raises
    `RpcDecodeError`."""
    request = decode_request(data)
    if not isinstance(request, EnvelopeRequest):
        return request, None
    inner = decode_request(request.request)
    if isinstance(inner, EnvelopeRequest):
        raise RpcDecodeError("a request that is passed on is passed on once")
    who = Principal(request.principal_type, request.principal_name)
    return inner, Asker(who, request.client_host, request.node_id)


def refused(request: ControllerRequest[R], error: ErrorCode, why: str) -> R:
    """Return the answer to a request that was not carried out."""
    return cast("type[R]", ANSWERS[type(request)])(error=error, error_message=why)


def decode_answer(request: ControllerRequest[R], data: bytes) -> R:
    """Decode the controller's answer to `request`. Its refusal of the bytes is an answer with that error: it
    has done nothing, and never will. Raises `RpcDecodeError`."""
    response, asked = decode_response(data), type(request)
    if isinstance(response, Refusal):
        why = f"the controller did not understand {asked.__name__}: {response.error_message}"
        return refused(request, response.error, why)
    if not isinstance(response, ANSWERS[asked]):
        raise RpcDecodeError(f"{asked.__name__} was answered with {type(response).__name__}")
    return cast(R, response)
