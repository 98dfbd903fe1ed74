"""Requests to the controller and its answers as bytes: the CBOR array [API key, version, {field: value}].

API keys are Kafka's for the same request, and 10,000 more for one of ours that stands beside it. What a
receiver doesn't know of a body it skips; an API or a version it doesn't know is refused.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, TypeVar, cast

from quorate.broker.controller.rpc import (
    election_rpc,
    feature_rpc,
    quota_rpc,
    reassignment_rpc,
    rpc,
    topics_rpc,
)
from quorate.broker.controller.rpc.controller_codes import CONTROLLER_CODES
from quorate.broker.metadata import (
    ConfigType,
    broker_id,
    features,
    leader_id,
    listeners,
    log_dirs,
    partition_id,
    rack,
    recovery_state,
    replicas,
)
from quorate.cbor import (
    RETIRED,
    Kind,
    Messages,
    Struct,
    boolean,
    identifier,
    integer,
    integers,
    number,
    one_of,
    optional,
    row,
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
class Refusal(rpc.ControllerResponse):
    """The answer to bytes that are no request."""

    error: ErrorCode  # pyright: ignore[reportGeneralTypeIssues]


R = TypeVar("R", bound=rpc.ControllerResponse)

_error = one_of(ErrorCode, only=CONTROLLER_CODES)
_epoch64 = integer(bits=64, low=-1)
_epoch = integer(low=-1)
_count = integer()
_name = text()
# Whatever a client may put there: the operation says what is wrong with it, on a node that leads as by way of
# one that doesn't. The size of the whole bounds them.
_topic_name = text()
_any_number = integer()
_any_replicas = integers(most=MAX_MESSAGE_BYTES)
_CLIENT_ITEMS: Final = MAX_MESSAGE_BYTES
_value = optional(text())


_throttle_ms = integer(low=0)
_requester = optional(
    Struct(rpc.Requester, user=text(most=32767), client_id=text(most=32767), strict=boolean).kind
)


_OUTCOME: Final[Mapping[str, Kind[object]]] = {"error": _error, "error_message": _value}


_directory_assignment = Struct(
    rpc.DirectoryAssignment, topic_id=identifier, partition_id=partition_id, directory_id=identifier
)
_directory_assignment_result = Struct(
    rpc.DirectoryAssignmentResult, error=_error, topic_id=identifier, partition_id=partition_id
)
_isr_member = Struct(rpc.IsrMember, broker_id=broker_id, broker_epoch=_epoch64)
_alter_partition_item = Struct(
    rpc.AlterPartitionItem,
    topic_id=identifier,
    partition_id=partition_id,
    leader_epoch=_epoch,
    partition_epoch=_epoch,
    new_isr=sequence(_isr_member.kind, most=1 << 10),
    leader_recovery_state=recovery_state,
)
_alter_partition_result = Struct(
    rpc.AlterPartitionResult,
    error=_error,
    topic_id=identifier,
    partition_id=partition_id,
    leader=leader_id,
    leader_epoch=_epoch,
    isr=replicas,
    leader_recovery_state=recovery_state,
    partition_epoch=_epoch,
    eligible_leader_replicas=replicas,
)
_assignment = Struct(rpc.Assignment, partition_id=_any_number, replicas=_any_replicas)
_config_entry = Struct(rpc.ConfigEntry, name=_name, value=_value)
_new_topic = Struct(
    rpc.NewTopic,
    name=_topic_name,
    num_partitions=_count,
    replication_factor=_count,
    assignments=sequence(_assignment.kind, most=_CLIENT_ITEMS),
    configs=sequence(_config_entry.kind, most=_CLIENT_ITEMS),
    topic_id=optional(identifier),
    earlier_ids=sequence(identifier, most=1 << 10),
)
_created_topic = Struct(
    rpc.CreatedTopic,
    **_OUTCOME,
    name=_topic_name,
    topic_id=optional(identifier),
    num_partitions=_count,
    replication_factor=_count,
)
_topic_ref = Struct(rpc.TopicRef, name=optional(_topic_name), topic_id=optional(identifier))
_deleted_topic = Struct(
    rpc.DeletedTopic, **_OUTCOME, name=optional(_topic_name), topic_id=optional(identifier)
)
_more_partitions = Struct(
    topics_rpc.MorePartitions,
    name=_topic_name,
    count=_count,
    assignments=optional(sequence(_any_replicas, most=_CLIENT_ITEMS)),
    may_be_done=boolean,
)
_extended_topic = Struct(topics_rpc.ExtendedTopic, **_OUTCOME, name=_topic_name)
_fewer_partitions = Struct(topics_rpc.FewerPartitions, name=_topic_name, count=_count)
_shrunk_topic = Struct(topics_rpc.ShrunkTopic, **_OUTCOME, name=_topic_name)
_alteration = Struct(rpc.ConfigAlteration, name=_name, operation=one_of(rpc.ConfigOperation), value=_value)
_alter_configs_item = Struct(
    rpc.AlterConfigsItem,
    resource_type=one_of(ConfigType),
    resource_name=_topic_name,
    alterations=sequence(_alteration.kind, most=1 << 10),
)
_alter_configs_result = Struct(
    rpc.AlterConfigsResult, **_OUTCOME, resource_type=one_of(ConfigType), resource_name=_topic_name
)

_elect_leaders_item = Struct(election_rpc.ElectLeadersItem, topic=_topic_name, partition_id=_any_number)
_elect_leaders_result = Struct(
    election_rpc.ElectLeadersResult, **_OUTCOME, topic=_topic_name, partition_id=_any_number
)
_feature_update = Struct(
    feature_rpc.FeatureUpdate,
    name=_name,
    level=integer(bits=16),
    upgrade_type=one_of(feature_rpc.UpgradeType),
)
_reassignment_item = Struct(
    reassignment_rpc.ReassignmentItem,
    topic=_topic_name,
    partition_id=_any_number,
    replicas=optional(_any_replicas),
)
_reassignment_result = Struct(
    reassignment_rpc.ReassignmentResult, **_OUTCOME, topic=_topic_name, partition_id=_any_number
)

_MAX_IN_ENTITY: Final = 1 << 10
_quota_part = Struct(quota_rpc.QuotaEntityPart, type=text(most=32767), name=optional(text(most=32767)))
_quota_operation = Struct(quota_rpc.QuotaOperation, key=text(most=32767), value=optional(number))
_quota_alteration = Struct(
    quota_rpc.QuotaAlteration,
    entity=sequence(_quota_part.kind, most=_MAX_IN_ENTITY),
    operations=sequence(_quota_operation.kind, most=_MAX_IN_ENTITY),
)
_quota_result = Struct(quota_rpc.QuotaAlterationResult, **_OUTCOME)

_REQUESTS: Final[Messages[rpc.ControllerRequest[rpc.ControllerResponse]]] = Messages(
    "request to the controller",
    row(
        62,
        0,
        rpc.RegisterBrokerRequest,
        broker_id=broker_id,
        cluster_id=_name,
        incarnation_id=identifier,
        listeners=listeners,
        features=features,
        rack=rack,
        log_dirs=log_dirs,
        previous_broker_epoch=_epoch64,
        previous_log_dirs=log_dirs,
    ),
    row(
        63,
        0,
        rpc.BrokerHeartbeatRequest,
        broker_id=broker_id,
        broker_epoch=_epoch64,
        current_metadata_offset=_epoch64,
        want_fence=boolean,
        want_shut_down=boolean,
        offline_replicas=RETIRED,
        offline_log_dirs=log_dirs,
        completed_metadata_offset=optional(_epoch64),
        pending_changes=integer(low=0),
    ),
    row(64, 0, rpc.UnregisterBrokerRequest, broker_id=_any_number),
    row(
        56,
        0,
        rpc.AlterPartitionRequest,
        broker_id=broker_id,
        broker_epoch=_epoch64,
        partitions=sequence(_alter_partition_item.kind, most=_MAX_ITEMS),
    ),
    row(
        73,
        0,
        rpc.AssignReplicasToDirsRequest,
        broker_id=broker_id,
        broker_epoch=_epoch64,
        assignments=sequence(_directory_assignment.kind, most=_MAX_ITEMS),
    ),
    row(
        19,
        0,
        rpc.CreateTopicsRequest,
        topics=sequence(_new_topic.kind, most=_MAX_ITEMS),
        validate_only=boolean,
        who=_requester,
    ),
    row(
        37,
        0,
        topics_rpc.CreatePartitionsRequest,
        topics=sequence(_more_partitions.kind, most=_MAX_ITEMS),
        validate_only=boolean,
        who=_requester,
    ),
    row(
        10_037,
        0,
        topics_rpc.ShrinkTopicsRequest,
        topics=sequence(_fewer_partitions.kind, most=_MAX_ITEMS),
        validate_only=boolean,
    ),
    row(20, 0, rpc.DeleteTopicsRequest, topics=sequence(_topic_ref.kind, most=_MAX_ITEMS), who=_requester),
    row(67, 0, rpc.AllocateProducerIdsRequest, broker_id=broker_id, broker_epoch=_epoch64),
    row(
        44,
        0,
        rpc.AlterConfigsRequest,
        resources=sequence(_alter_configs_item.kind, most=_MAX_ITEMS),
        validate_only=boolean,
        replace_all=boolean,
    ),
    row(
        49,
        0,
        quota_rpc.AlterClientQuotasRequest,
        alterations=sequence(_quota_alteration.kind, most=_MAX_ITEMS),
        validate_only=boolean,
    ),
    row(
        43,
        0,
        election_rpc.ElectLeadersRequest,
        election_type=one_of(election_rpc.ElectionType),
        partitions=sequence(_elect_leaders_item.kind, most=_MAX_ITEMS),
    ),
    row(
        57,
        0,
        feature_rpc.UpdateFeaturesRequest,
        updates=sequence(_feature_update.kind, most=1 << 10),
        validate_only=boolean,
    ),
    row(
        45,
        0,
        reassignment_rpc.AlterPartitionReassignmentsRequest,
        partitions=sequence(_reassignment_item.kind, most=_MAX_ITEMS),
        allow_factor_change=boolean,
    ),
    error=RpcDecodeError,
    max_bytes=MAX_MESSAGE_BYTES,
)
_RESPONSES: Final[Messages[rpc.ControllerResponse]] = Messages(
    "response of the controller",
    row(_REFUSED, 0, Refusal, **_OUTCOME),
    row(62, 0, rpc.RegisterBrokerResponse, **_OUTCOME, broker_epoch=_epoch64),
    row(
        63,
        0,
        rpc.BrokerHeartbeatResponse,
        **_OUTCOME,
        is_caught_up=boolean,
        is_fenced=boolean,
        should_shut_down=boolean,
    ),
    row(64, 0, rpc.UnregisterBrokerResponse, **_OUTCOME),
    row(
        56,
        0,
        rpc.AlterPartitionResponse,
        **_OUTCOME,
        partitions=sequence(_alter_partition_result.kind, most=_MAX_ITEMS),
    ),
    row(
        73,
        0,
        rpc.AssignReplicasToDirsResponse,
        **_OUTCOME,
        results=sequence(_directory_assignment_result.kind, most=_MAX_ITEMS),
    ),
    row(
        19,
        0,
        rpc.CreateTopicsResponse,
        **_OUTCOME,
        topics=sequence(_created_topic.kind, most=_MAX_ITEMS),
        throttle_ms=_throttle_ms,
    ),
    row(
        37,
        0,
        topics_rpc.CreatePartitionsResponse,
        **_OUTCOME,
        topics=sequence(_extended_topic.kind, most=_MAX_ITEMS),
        throttle_ms=_throttle_ms,
    ),
    row(
        10_037,
        0,
        topics_rpc.ShrinkTopicsResponse,
        **_OUTCOME,
        topics=sequence(_shrunk_topic.kind, most=_MAX_ITEMS),
    ),
    row(
        20,
        0,
        rpc.DeleteTopicsResponse,
        **_OUTCOME,
        topics=sequence(_deleted_topic.kind, most=_MAX_ITEMS),
        throttle_ms=_throttle_ms,
    ),
    row(67, 0, rpc.AllocateProducerIdsResponse, **_OUTCOME, first_producer_id=_epoch64, count=integer(low=0)),
    row(
        44,
        0,
        rpc.AlterConfigsResponse,
        **_OUTCOME,
        metadata_offset=_epoch64,
        resources=sequence(_alter_configs_result.kind, most=_MAX_ITEMS),
    ),
    row(
        43,
        0,
        election_rpc.ElectLeadersResponse,
        **_OUTCOME,
        results=sequence(_elect_leaders_result.kind, most=_MAX_ITEMS),
    ),
    row(57, 0, feature_rpc.UpdateFeaturesResponse, **_OUTCOME),
    row(
        49,
        0,
        quota_rpc.AlterClientQuotasResponse,
        **_OUTCOME,
        results=sequence(_quota_result.kind, most=_MAX_ITEMS),
    ),
    row(
        45,
        0,
        reassignment_rpc.AlterPartitionReassignmentsResponse,
        **_OUTCOME,
        partitions=sequence(_reassignment_result.kind, most=_MAX_ITEMS),
    ),
    error=RpcDecodeError,
    max_bytes=MAX_MESSAGE_BYTES,
)

ANSWERS: Final = {request: _RESPONSES.types[number] for number, request in _REQUESTS.types.items()}
"""What each request is answered with."""

encode_request: Final = _REQUESTS.encode
decode_request: Final = _REQUESTS.decode
encode_response: Final = _RESPONSES.encode
decode_response: Final = _RESPONSES.decode


def refused(request: rpc.ControllerRequest[R], error: ErrorCode, why: str) -> R:
    """Return the answer to a request of which nothing was done."""
    return cast("type[R]", ANSWERS[type(request)])(error=error, error_message=why)


def decode_answer(request: rpc.ControllerRequest[R], data: bytes) -> R:
    """Decode the controller's answer to `request`. Its refusal of the bytes is an answer with that error: it
    has done nothing, and never will. Raises `RpcDecodeError`."""
    response, asked = decode_response(data), type(request)
    if isinstance(response, Refusal):
        why = f"the controller did not understand {asked.__name__}: {response.error_message}"
        return refused(request, response.error, why)
    if not isinstance(response, ANSWERS[asked]):
        raise RpcDecodeError(f"{asked.__name__} was answered with {type(response).__name__}")
    return cast(R, response)
