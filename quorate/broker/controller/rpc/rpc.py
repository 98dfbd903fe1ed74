"""What brokers ask the active controller, and its answers.

Field meanings are those of Kafka's messages of the same names; `rpc_codec` has the bytes.
"""

import enum
import uuid
from dataclasses import dataclass
from typing import TypeAlias

from quorate.broker.metadata import NO_LEADER, ConfigType, FeatureRange, LeaderRecoveryState, Listener
from quorate.error_code import ErrorCode


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisterBrokerRequest:
    broker_id: int
    cluster_id: str
    incarnation_id: uuid.UUID
    listeners: tuple[Listener, ...]
    features: tuple[FeatureRange, ...] = ()
    rack: str | None = None
    log_dirs: tuple[uuid.UUID, ...] = ()
    """The directories that are online, by id (KIP-858)."""
    previous_broker_epoch: int = -1
    """The epoch of this broker's earlier life whose data it has in full: it shut down in order, or its host
    has run on since (KIP-966); -1: it can't tell."""
    previous_log_dirs: tuple[uuid.UUID, ...] = ()
    """The directories that the broker had in that life. Those that aren't in `log_dirs` too are not here, and
    neither is what was in them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisterBrokerResponse:
    error: ErrorCode = ErrorCode.NONE
    error_message: str | None = None
    broker_epoch: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerHeartbeatRequest:
    broker_id: int
    broker_epoch: int
    current_metadata_offset: int
    """The last offset (inclusive) that the broker has applied; -1: none."""
    want_fence: bool = False
    want_shut_down: bool = False
    offline_log_dirs: tuple[uuid.UUID, ...] = ()
    """The directories that have failed since the broker started, in every heartbeat (KIP-858)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerHeartbeatResponse:
    error: ErrorCode = ErrorCode.NONE
    error_message: str | None = None
    is_caught_up: bool = False
    is_fenced: bool = True
    should_shut_down: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class IsrMember:
    """A broker proposed for the ISR, and its epoch as the leader saw it in the broker's fetches; -1: unknown,
    not checked (the leader itself, and members that were in already)."""

    broker_id: int
    broker_epoch: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterPartitionItem:
    topic_id: uuid.UUID
    partition_id: int
    leader_epoch: int
    partition_epoch: int
    new_isr: tuple[IsrMember, ...]
    leader_recovery_state: LeaderRecoveryState = LeaderRecoveryState.RECOVERED


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterPartitionRequest:
    broker_id: int
    broker_epoch: int
    partitions: tuple[AlterPartitionItem, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterPartitionResult:
    topic_id: uuid.UUID
    partition_id: int
    error: ErrorCode = ErrorCode.NONE
    leader: int = NO_LEADER
    leader_epoch: int = -1
    isr: tuple[int, ...] = ()
    leader_recovery_state: LeaderRecoveryState = LeaderRecoveryState.RECOVERED
    partition_epoch: int = -1
    eligible_leader_replicas: tuple[int, ...] = ()
    """Committed with `isr`: the leader commits nothing while there are any."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterPartitionResponse:
    error: ErrorCode = ErrorCode.NONE
    error_message: str | None = None
    partitions: tuple[AlterPartitionResult, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectoryAssignment:
    """The directory that the sender's replica of a partition is in."""

    topic_id: uuid.UUID
    partition_id: int
    directory_id: uuid.UUID


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignReplicasToDirsRequest:
    broker_id: int
    broker_epoch: int
    assignments: tuple[DirectoryAssignment, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectoryAssignmentResult:
    topic_id: uuid.UUID
    partition_id: int
    error: ErrorCode = ErrorCode.NONE


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignReplicasToDirsResponse:
    error: ErrorCode = ErrorCode.NONE
    error_message: str | None = None
    results: tuple[DirectoryAssignmentResult, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """A partition's replicas as the client wants them."""

    partition_id: int
    replicas: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigEntry:
    name: str
    value: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class NewTopic:
    name: str
    num_partitions: int = -1
    """-1: the default, or as many as `assignments` has."""
    replication_factor: int = -1
    assignments: tuple[Assignment, ...] = ()
    configs: tuple[ConfigEntry, ...] = ()
    topic_id: uuid.UUID | None = None
    """The id that it gets; None: the controller draws one."""
    earlier_ids: tuple[uuid.UUID, ...] = ()
    """Of attempts at this creation whose outcome is not known: a topic with one of them is what was asked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateTopicsRequest:
    topics: tuple[NewTopic, ...]
    validate_only: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CreatedTopic:
    name: str
    error: ErrorCode = ErrorCode.NONE
    error_message: str | None = None
    topic_id: uuid.UUID | None = None
    num_partitions: int = -1
    replication_factor: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateTopicsResponse:
    error: ErrorCode = ErrorCode.NONE
    error_message: str | None = None
    topics: tuple[CreatedTopic, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicRef:
    """A topic by name or by id: exactly one."""

    name: str | None = None
    topic_id: uuid.UUID | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteTopicsRequest:
    topics: tuple[TopicRef, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletedTopic:
    name: str | None
    topic_id: uuid.UUID | None
    error: ErrorCode = ErrorCode.NONE
    error_message: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteTopicsResponse:
    error: ErrorCode = ErrorCode.NONE
    error_message: str | None = None
    topics: tuple[DeletedTopic, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AllocateProducerIdsRequest:
    broker_id: int
    broker_epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AllocateProducerIdsResponse:
    error: ErrorCode = ErrorCode.NONE
    error_message: str | None = None
    first_producer_id: int = -1
    count: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class UnregisterBrokerRequest:
    broker_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class UnregisterBrokerResponse:
    error: ErrorCode = ErrorCode.NONE
    error_message: str | None = None


class ConfigOperation(enum.IntEnum):
    """Kafka's operation numbers in IncrementalAlterConfigs."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigAlteration:
    name: str
    operation: ConfigOperation
    value: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterConfigsItem:
    resource_type: ConfigType
    resource_name: str
    alterations: tuple[ConfigAlteration, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterConfigsRequest:
    resources: tuple[AlterConfigsItem, ...]
    validate_only: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterConfigsResult:
    resource_type: ConfigType
    resource_name: str
    error: ErrorCode = ErrorCode.NONE
    error_message: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterConfigsResponse:
    error: ErrorCode = ErrorCode.NONE
    error_message: str | None = None
    resources: tuple[AlterConfigsResult, ...] = ()


Request: TypeAlias = (
    RegisterBrokerRequest
    | BrokerHeartbeatRequest
    | AlterPartitionRequest
    | AssignReplicasToDirsRequest
    | CreateTopicsRequest
    | DeleteTopicsRequest
    | AllocateProducerIdsRequest
    | AlterConfigsRequest
    | UnregisterBrokerRequest
)
Response: TypeAlias = (
    RegisterBrokerResponse
    | BrokerHeartbeatResponse
    | AlterPartitionResponse
    | AssignReplicasToDirsResponse
    | CreateTopicsResponse
    | DeleteTopicsResponse
    | AllocateProducerIdsResponse
    | AlterConfigsResponse
    | UnregisterBrokerResponse
)
