"""Requests to the controller and its answers as bytes: the CBOR array [API key, version, {field: value}].

API keys are Kafka's for the same request. What a receiver doesn't know of a body it skips; an API or a
version it doesn't know is refused.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, TypeVar, cast

from quorate.broker.controller.rpc.controller_codes import CONTROLLER_CODES
from quorate.broker.controller.rpc.rpc import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
    AlterConfigsItem,
    AlterConfigsRequest,
    AlterConfigsResponse,
    AlterConfigsResult,
    AlterPartitionItem,
    AlterPartitionRequest,
    AlterPartitionResponse,
    AlterPartitionResult,
    Assignment,
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
    ConfigAlteration,
    ConfigEntry,
    ConfigOperation,
    CreatedTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeletedTopic,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DirectoryAssignment,
    DirectoryAssignmentResult,
    IsrMember,
    NewTopic,
    RegisterBrokerRequest,
    RegisterBrokerResponse,
    Request,
    Response,
    TopicRef,
    UnregisterBrokerRequest,
    UnregisterBrokerResponse,
)
from quorate.broker.metadata import (
    ConfigType,
    Field,
    SchemaError,
    Struct,
    boolean,
    broker_id,
    dump,
    features,
    field,
    identifier,
    integer,
    leader_id,
    listeners,
    load,
    log_dirs,
    one_of,
    optional,
    partition_id,
    rack,
    recovery_state,
    replicas,
    sequence,
    text,
)
from quorate.error_code import ErrorCode

MAX_MESSAGE_BYTES: Final = 8 << 20
_MAX_ITEMS: Final = 10_000
_REFUSED: Final = -1
"""In an API key's place: the request was not understood."""


class RpcDecodeError(ValueError):
    """Bytes that are no request or response this version knows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal(Response):
    """The answer to bytes that are no request."""

    error: ErrorCode


R = TypeVar("R", bound=Response)


_error = one_of(ErrorCode, only=CONTROLLER_CODES)
_epoch64 = integer(bits=64, low=-1)
_epoch = integer(low=-1)
_count = integer()
_name = text()
# Whatever a client may put there: the operation says what is wrong with it.
_topic_name = text(most=1 << 12)
_value = optional(text())


def _outcome_fields() -> tuple[Field, Field]:
    return field(0, "error", _error), field(1, "error_message", _value)


_directory_assignment = Struct(
    DirectoryAssignment,
    field(0, "topic_id", identifier),
    field(1, "partition_id", partition_id),
    field(2, "directory_id", identifier),
)
_directory_assignment_result = Struct(
    DirectoryAssignmentResult,
    field(0, "error", _error),
    field(1, "topic_id", identifier),
    field(2, "partition_id", partition_id),
)
_isr_member = Struct(IsrMember, field(0, "broker_id", broker_id), field(1, "broker_epoch", _epoch64))
_alter_partition_item = Struct(
    AlterPartitionItem,
    field(0, "topic_id", identifier),
    field(1, "partition_id", partition_id),
    field(2, "leader_epoch", _epoch),
    field(3, "partition_epoch", _epoch),
    field(4, "new_isr", sequence(_isr_member.kind, most=1 << 10)),
    field(5, "leader_recovery_state", recovery_state),
)
_alter_partition_result = Struct(
    AlterPartitionResult,
    field(0, "error", _error),
    field(1, "topic_id", identifier),
    field(2, "partition_id", partition_id),
    field(3, "leader", leader_id),
    field(4, "leader_epoch", _epoch),
    field(5, "isr", replicas),
    field(6, "leader_recovery_state", recovery_state),
    field(7, "partition_epoch", _epoch),
    field(8, "eligible_leader_replicas", replicas),
)
_assignment = Struct(Assignment, field(0, "partition_id", integer()), field(1, "replicas", replicas))
_config_entry = Struct(ConfigEntry, field(0, "name", _name), field(1, "value", _value))
_new_topic = Struct(
    NewTopic,
    field(0, "name", _topic_name),
    field(1, "num_partitions", _count),
    field(2, "replication_factor", _count),
    field(3, "assignments", sequence(_assignment.kind, most=1 << 16)),
    field(4, "configs", sequence(_config_entry.kind, most=1 << 10)),
    field(5, "topic_id", optional(identifier)),
    field(6, "earlier_ids", sequence(identifier, most=1 << 10)),
)
_created_topic = Struct(
    CreatedTopic,
    *_outcome_fields(),
    field(2, "name", _topic_name),
    field(3, "topic_id", optional(identifier)),
    field(4, "num_partitions", _count),
    field(5, "replication_factor", _count),
)
_topic_ref = Struct(
    TopicRef, field(0, "name", optional(_topic_name)), field(1, "topic_id", optional(identifier))
)
_deleted_topic = Struct(
    DeletedTopic,
    *_outcome_fields(),
    field(2, "name", optional(_topic_name)),
    field(3, "topic_id", optional(identifier)),
)
_alteration = Struct(
    ConfigAlteration,
    field(0, "name", _name),
    field(1, "operation", one_of(ConfigOperation)),
    field(2, "value", _value),
)
_alter_configs_item = Struct(
    AlterConfigsItem,
    field(0, "resource_type", one_of(ConfigType)),
    field(1, "resource_name", _topic_name),
    field(2, "alterations", sequence(_alteration.kind, most=1 << 10)),
)
_alter_configs_result = Struct(
    AlterConfigsResult,
    *_outcome_fields(),
    field(2, "resource_type", one_of(ConfigType)),
    field(3, "resource_name", _topic_name),
)

_APIS: Final = cast(
    "tuple[tuple[int, int, type[object], Struct[object], type[object], Struct[object]], ...]",
    (
        (
            62,
            0,
            RegisterBrokerRequest,
            Struct(
                RegisterBrokerRequest,
                field(0, "broker_id", broker_id),
                field(1, "cluster_id", _name),
                field(2, "incarnation_id", identifier),
                field(3, "listeners", listeners),
                field(4, "features", features),
                field(5, "rack", rack),
                field(6, "log_dirs", log_dirs),
                field(7, "previous_broker_epoch", _epoch64),
                field(8, "previous_log_dirs", log_dirs),
            ),
            RegisterBrokerResponse,
            Struct(RegisterBrokerResponse, *_outcome_fields(), field(2, "broker_epoch", _epoch64)),
        ),
        (
            63,
            0,
            BrokerHeartbeatRequest,
            Struct(
                BrokerHeartbeatRequest,
                field(0, "broker_id", broker_id),
                field(1, "broker_epoch", _epoch64),
                field(2, "current_metadata_offset", _epoch64),
                field(3, "want_fence", boolean),
                field(4, "want_shut_down", boolean),
                # 5 was offline_replicas.
                field(6, "offline_log_dirs", log_dirs),
            ),
            BrokerHeartbeatResponse,
            Struct(
                BrokerHeartbeatResponse,
                *_outcome_fields(),
                field(2, "is_caught_up", boolean),
                field(3, "is_fenced", boolean),
                field(4, "should_shut_down", boolean),
            ),
        ),
        (
            64,
            0,
            UnregisterBrokerRequest,
            Struct(UnregisterBrokerRequest, field(0, "broker_id", broker_id)),
            UnregisterBrokerResponse,
            Struct(UnregisterBrokerResponse, *_outcome_fields()),
        ),
        (
            56,
            0,
            AlterPartitionRequest,
            Struct(
                AlterPartitionRequest,
                field(0, "broker_id", broker_id),
                field(1, "broker_epoch", _epoch64),
                field(2, "partitions", sequence(_alter_partition_item.kind, most=_MAX_ITEMS)),
            ),
            AlterPartitionResponse,
            Struct(
                AlterPartitionResponse,
                *_outcome_fields(),
                field(2, "partitions", sequence(_alter_partition_result.kind, most=_MAX_ITEMS)),
            ),
        ),
        (
            73,
            0,
            AssignReplicasToDirsRequest,
            Struct(
                AssignReplicasToDirsRequest,
                field(0, "broker_id", broker_id),
                field(1, "broker_epoch", _epoch64),
                field(2, "assignments", sequence(_directory_assignment.kind, most=_MAX_ITEMS)),
            ),
            AssignReplicasToDirsResponse,
            Struct(
                AssignReplicasToDirsResponse,
                *_outcome_fields(),
                field(2, "results", sequence(_directory_assignment_result.kind, most=_MAX_ITEMS)),
            ),
        ),
        (
            19,
            0,
            CreateTopicsRequest,
            Struct(
                CreateTopicsRequest,
                field(0, "topics", sequence(_new_topic.kind, most=_MAX_ITEMS)),
                field(1, "validate_only", boolean),
            ),
            CreateTopicsResponse,
            Struct(
                CreateTopicsResponse,
                *_outcome_fields(),
                field(2, "topics", sequence(_created_topic.kind, most=_MAX_ITEMS)),
            ),
        ),
        (
            20,
            0,
            DeleteTopicsRequest,
            Struct(DeleteTopicsRequest, field(0, "topics", sequence(_topic_ref.kind, most=_MAX_ITEMS))),
            DeleteTopicsResponse,
            Struct(
                DeleteTopicsResponse,
                *_outcome_fields(),
                field(2, "topics", sequence(_deleted_topic.kind, most=_MAX_ITEMS)),
            ),
        ),
        (
            67,
            0,
            AllocateProducerIdsRequest,
            Struct(
                AllocateProducerIdsRequest,
                field(0, "broker_id", broker_id),
                field(1, "broker_epoch", _epoch64),
            ),
            AllocateProducerIdsResponse,
            Struct(
                AllocateProducerIdsResponse,
                *_outcome_fields(),
                field(2, "first_producer_id", _epoch64),
                field(3, "count", integer(low=0)),
            ),
        ),
        (
            44,
            0,
            AlterConfigsRequest,
            Struct(
                AlterConfigsRequest,
                field(0, "resources", sequence(_alter_configs_item.kind, most=_MAX_ITEMS)),
                field(1, "validate_only", boolean),
            ),
            AlterConfigsResponse,
            Struct(
                AlterConfigsResponse,
                *_outcome_fields(),
                field(2, "resources", sequence(_alter_configs_result.kind, most=_MAX_ITEMS)),
            ),
        ),
    ),
)
_refusal = Struct(Refusal, *_outcome_fields())

_Entry = tuple[int, int, Struct[object]]
_BY_TYPE: Final[Mapping[type[object], _Entry]] = {
    **{request: (key, version, struct) for key, version, request, struct, _, _ in _APIS},
    **{response: (key, version, struct) for key, version, _, _, response, struct in _APIS},
}
_REQUESTS: Final[Mapping[int, tuple[int, Struct[object]]]] = {
    key: (version, struct) for key, version, _, struct, _, _ in _APIS
}
_RESPONSES: Final[Mapping[int, tuple[int, Struct[object]]]] = {
    key: (version, struct) for key, version, _, _, _, struct in _APIS
}
ANSWERS: Final[Mapping[type[object], type[object]]] = {
    request: response for _, _, request, _, response, _ in _APIS
}


def encode_request(request: Request[Response]) -> bytes:
    return _encode(request)


def encode_response(response: Response) -> bytes:
    if isinstance(response, Refusal):
        return dump([_REFUSED, 0, _refusal.encode(response)])
    return _encode(response)


def _encode(message: object) -> bytes:
    key, version, struct = _BY_TYPE[type(message)]
    return dump([key, version, struct.encode(message)])


def decode_request(data: bytes) -> Request[Response]:
    """Raises `RpcDecodeError`."""
    key, version, body = _envelope(data)
    return cast("Request[Response]", _body(_REQUESTS, key, version, body))


def decode_answer(request: Request[R], data: bytes) -> R:
    """What the controller answers to `request`. Raises `RpcDecodeError`, also if it refused the bytes."""
    response, asked = decode_response(data), type(request)
    if isinstance(response, Refusal):
        raise RpcDecodeError(f"the controller did not understand {asked.__name__}: {response.error_message}")
    if not isinstance(response, ANSWERS[asked]):
        raise RpcDecodeError(f"{asked.__name__} was answered with {type(response).__name__}")
    return cast(R, response)


def decode_response(data: bytes) -> Response:
    """Raises `RpcDecodeError`."""
    key, version, body = _envelope(data)
    if key == _REFUSED:
        try:
            return _refusal.decode(body)
        except SchemaError as error:
            raise RpcDecodeError(str(error)) from error
    return cast(Response, _body(_RESPONSES, key, version, body))


def _envelope(data: bytes) -> tuple[int, int, object]:
    try:
        raw = load(data, max_bytes=MAX_MESSAGE_BYTES)
    except SchemaError as error:
        raise RpcDecodeError(str(error)) from error
    if type(raw) is not list or len(raw) != 3:
        raise RpcDecodeError("a message is [API key, version, fields]")
    key, version, body = raw
    if type(key) is not int or type(version) is not int:
        raise RpcDecodeError("a message's API key and version are integers")
    return key, version, body


def _body(known: Mapping[int, tuple[int, Struct[object]]], key: int, version: int, body: object) -> object:
    entry = known.get(key)
    if entry is None or not 0 <= version <= entry[0]:
        raise RpcDecodeError(f"API key {key} version {version} is not known to this version of quorate")
    try:
        return entry[1].decode(body)
    except SchemaError as error:
        raise RpcDecodeError(str(error)) from error
