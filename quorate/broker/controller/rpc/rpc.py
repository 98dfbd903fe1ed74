"""The requests of brokers to the active controller, and its answers.

Field meanings are those of Kafka's messages of the same names; `rpc_codec` has the bytes.
"""

import enum
import uuid
from dataclasses import dataclass, replace
from typing import ClassVar, Generic, Self, TypeVar

from quorate.broker.metadata import NO_LEADER, BrokerEndpoint, ConfigType, FeatureRange, LeaderRecoveryState
from quorate.error_code import ErrorCode
from quorate.runtime import Entropy


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerResponse:
    """The common fields of all answers."""

    error: ErrorCode = ErrorCode.NONE
    error_message: str | None = None


R_co = TypeVar("R_co", bound=ControllerResponse, covariant=True)


class ControllerRequest(Generic[R_co]):
    """A request that is answered with an `R_co`."""

    __slots__ = ()
    repeatable: ClassVar[bool] = True
    """Whether it may be sent again when it is not known whether it was carried out."""

    def attempt(self, entropy: Entropy) -> Self:
        """The request as it is sent next."""
        return self

    def after_unknown_outcome(self) -> Self:
        """The request that follows this attempt."""
        return self


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisterBrokerRequest(ControllerRequest["RegisterBrokerResponse"]):
    broker_id: int
    cluster_id: str
    incarnation_id: uuid.UUID
    listeners: tuple[BrokerEndpoint, ...]
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
class RegisterBrokerResponse(ControllerResponse):
    broker_epoch: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerHeartbeatRequest(ControllerRequest["BrokerHeartbeatResponse"]):
    broker_id: int
    broker_epoch: int
    current_metadata_offset: int
    """The last offset (inclusive) that the broker has applied; -1: none."""
    want_fence: bool = False
    want_shut_down: bool = False
    offline_log_dirs: tuple[uuid.UUID, ...] = ()
    """The directories that have failed since the broker started, in every heartbeat (KIP-858)."""
    completed_metadata_offset: int | None = None
    """Ours: the last offset (inclusive) up to which the broker has completed all changes of its replicas; -1:
    none, None: it is of a version that doesn't say."""
    pending_changes: int = 0
    """Ours: changes of its replicas that the broker has begun and not ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerHeartbeatResponse(ControllerResponse):
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
class AlterPartitionRequest(ControllerRequest["AlterPartitionResponse"]):
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
class AlterPartitionResponse(ControllerResponse):
    partitions: tuple[AlterPartitionResult, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectoryAssignment:
    """The directory that the sender's replica of a partition is in."""

    topic_id: uuid.UUID
    partition_id: int
    directory_id: uuid.UUID


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignReplicasToDirsRequest(ControllerRequest["AssignReplicasToDirsResponse"]):
    broker_id: int
    broker_epoch: int
    assignments: tuple[DirectoryAssignment, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectoryAssignmentResult:
    topic_id: uuid.UUID
    partition_id: int
    error: ErrorCode = ErrorCode.NONE


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignReplicasToDirsResponse(ControllerResponse):
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
class Requester:
    """The client that a broker asks for. Its rate of changes is bounded (KIP-599)."""

    user: str
    client_id: str
    strict: bool
    """True if its version of the request has THROTTLING_QUOTA_EXCEEDED. For an older one, what it wants is
    done, and it waits afterwards."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateTopicsRequest(ControllerRequest["CreateTopicsResponse"]):
    topics: tuple[NewTopic, ...]
    validate_only: bool = False
    who: Requester | None = None
    """None: a broker asks for itself."""

    def attempt(self, entropy: Entropy) -> Self:
        """Return the request with new ids."""
        return replace(self, topics=tuple(replace(topic, topic_id=entropy.uuid()) for topic in self.topics))

    def after_unknown_outcome(self) -> Self:
        """The topics that this attempt has created, if it has, are known by their ids."""
        return replace(self, topics=tuple(map(_with_earlier_id, self.topics)))


def _with_earlier_id(topic: NewTopic) -> NewTopic:
    return replace(
        topic, topic_id=None, earlier_ids=topic.earlier_ids + ((topic.topic_id,) if topic.topic_id else ())
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class CreatedTopic:
    name: str
    error: ErrorCode = ErrorCode.NONE
    error_message: str | None = None
    topic_id: uuid.UUID | None = None
    num_partitions: int = -1
    replication_factor: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateTopicsResponse(ControllerResponse):
    topics: tuple[CreatedTopic, ...] = ()
    throttle_ms: int = 0
    """The time that the client has to wait."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicRef:
    """A topic by name or by id: exactly one."""

    name: str | None = None
    topic_id: uuid.UUID | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteTopicsRequest(ControllerRequest["DeleteTopicsResponse"]):
    repeatable: ClassVar[bool] = False
    """Another topic may have the name by then."""
    topics: tuple[TopicRef, ...]
    who: Requester | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletedTopic:
    name: str | None
    topic_id: uuid.UUID | None
    error: ErrorCode = ErrorCode.NONE
    error_message: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteTopicsResponse(ControllerResponse):
    topics: tuple[DeletedTopic, ...] = ()
    throttle_ms: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class AllocateProducerIdsRequest(ControllerRequest["AllocateProducerIdsResponse"]):
    broker_id: int
    broker_epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AllocateProducerIdsResponse(ControllerResponse):
    first_producer_id: int = -1
    count: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class UnregisterBrokerRequest(ControllerRequest["UnregisterBrokerResponse"]):
    broker_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class UnregisterBrokerResponse(ControllerResponse):
    """Nothing beside the error."""


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
class AlterConfigsRequest(ControllerRequest["AlterConfigsResponse"]):
    resources: tuple[AlterConfigsItem, ...]
    validate_only: bool = False
    replace_all: bool = False
    """Keys of a resource that aren't named lose their values: AlterConfigs, not IncrementalAlterConfigs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterConfigsResult:
    resource_type: ConfigType
    resource_name: str
    error: ErrorCode = ErrorCode.NONE
    error_message: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterConfigsResponse(ControllerResponse):
    metadata_offset: int = -1
    """What was answered is in the metadata from this offset (inclusive) on; -1: unknown."""
    resources: tuple[AlterConfigsResult, ...] = ()
