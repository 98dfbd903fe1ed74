"""The requests to the active controller: those that a broker makes for itself, those that it passes on for
its clients, and the controller's answers.

Field meanings are those of Kafka's messages of the same names. A field has the bounds that its type says,
else 32 bits or 32,767 characters. A client may write anything into the fields that only pass through its
broker. Therefore these are as wide as the message, and the operation refuses what does not fit. It gives the
same refusal on a node that leads and by way of one that doesn't.
"""

import enum
import uuid
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar, Final, Generic, Self, TypeAlias, TypeVar

from quorate.bounds import Integer, Most, Numbered
from quorate.broker.metadata.acls import Acl
from quorate.broker.metadata.metadata_records import (
    NO_LEADER,
    BrokerId,
    BrokerIds,
    ConfigType,
    Features,
    LeaderId,
    LeaderRecoveryState,
    Listeners,
    LogDirs,
    PartitionId,
    RegisteredName,
)
from quorate.error_code import ErrorCode
from quorate.runtime import Entropy
from quorate.types import SecretBytes

MAX_MESSAGE_BYTES: Final = 8 << 20
MAX_ITEMS: Final = 10_000
"""The number of topics, partitions or resources in one message."""

MAX_SCRAM_ALTERATIONS: Final = 500
"""The number of passwords that one message sets or removes: they are one batch."""

Epoch32: TypeAlias = Annotated[int, Integer(low=-1)]
"""The epoch of a leader or of a partition; -1: unknown."""
Position64: TypeAlias = Annotated[int, Integer(bits=64, low=-1)]
"""The epoch of a broker, which is an offset, or an offset; -1: unknown."""
Count: TypeAlias = Annotated[int, Integer(low=0)]

CONTROLLER_CODES: Final = frozenset(
    {
        ErrorCode.UNKNOWN_SERVER_ERROR,
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.INVALID_TOPIC_EXCEPTION,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.TOPIC_ALREADY_EXISTS,
        ErrorCode.INVALID_PARTITIONS,
        ErrorCode.INVALID_REPLICATION_FACTOR,
        ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        ErrorCode.INVALID_CONFIG,
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ErrorCode.NOT_CONTROLLER,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.POLICY_VIOLATION,
        ErrorCode.UNSUPPORTED_SASL_MECHANISM,
        ErrorCode.UNSUPPORTED_VERSION,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.NO_REASSIGNMENT_IN_PROGRESS,
        ErrorCode.STALE_BROKER_EPOCH,
        ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
        ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE,
        ErrorCode.ELECTION_NOT_NEEDED,
        ErrorCode.THROTTLING_QUOTA_EXCEEDED,
        ErrorCode.RESOURCE_NOT_FOUND,
        ErrorCode.DUPLICATE_RESOURCE,
        ErrorCode.UNACCEPTABLE_CREDENTIAL,
        ErrorCode.INVALID_UPDATE_VERSION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.DUPLICATE_BROKER_REGISTRATION,
        ErrorCode.BROKER_ID_NOT_REGISTERED,
        ErrorCode.INCONSISTENT_CLUSTER_ID,
        ErrorCode.INELIGIBLE_REPLICA,
        ErrorCode.NEW_LEADER_ELECTED,
        ErrorCode.INVALID_REGISTRATION,
    }
)
"""The codes of Kafka that a controller answers with. A broker takes no other code from it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The success of a request, or of one part of it."""

    error: ErrorCode = ErrorCode.NONE
    error_message: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerResponse(Outcome):
    """The common fields of all answers."""


R_co = TypeVar("R_co", bound=ControllerResponse, covariant=True)


class ControllerRequest(Generic[R_co]):
    """A request that is answered with an `R_co`."""

    __slots__ = ()
    repeatable: ClassVar[bool] = True
    """True if it may be sent again after an attempt with an unknown outcome."""

    def attempt(self, entropy: Entropy) -> Self:
        """Return the request as it is sent next."""
        return self

    def after_unknown_outcome(self) -> Self:
        """Return the request that follows this attempt."""
        return self


# Requests of a broker for itself


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisterBrokerRequest(ControllerRequest["RegisterBrokerResponse"]):
    broker_id: BrokerId
    cluster_id: str
    incarnation_id: uuid.UUID
    listeners: Listeners
    features: Features = ()
    rack: RegisteredName | None = None
    log_dirs: LogDirs = ()
    """The directories that are online, by id (KIP-858)."""
    previous_broker_epoch: Position64 = -1
    """The epoch of this broker's earlier life that it has all data of, because it shut down in order or its
    host has run on since (KIP-966); -1: it can't tell."""
    previous_log_dirs: LogDirs = ()
    """The directories that the broker had in that life. A directory that is not in `log_dirs` too is missing
    now, with the replicas that were in it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisterBrokerResponse(ControllerResponse):
    broker_epoch: Position64 = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerHeartbeatRequest(ControllerRequest["BrokerHeartbeatResponse"]):
    broker_id: BrokerId
    broker_epoch: Position64
    current_metadata_offset: Position64
    """The last offset (inclusive) that the broker has applied; -1: none."""
    want_fence: bool = False
    want_shut_down: bool = False
    # 5 was `offline_replicas`.
    offline_log_dirs: Annotated[LogDirs, Numbered(6)] = ()
    """The directories that have failed since the broker started, in every heartbeat (KIP-858)."""
    completed_metadata_offset: Position64 | None = None
    """Ours: the last offset (inclusive) up to which the broker has completed all changes of its replicas; -1:
    none, None: it is of a version that doesn't say."""
    pending_changes: Count = 0
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

    broker_id: BrokerId
    broker_epoch: Position64 = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterPartitionItem:
    topic_id: uuid.UUID
    partition_id: PartitionId
    leader_epoch: Epoch32
    partition_epoch: Epoch32
    new_isr: Annotated[tuple[IsrMember, ...], Most(1 << 10)]
    leader_recovery_state: LeaderRecoveryState = LeaderRecoveryState.RECOVERED


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterPartitionRequest(ControllerRequest["AlterPartitionResponse"]):
    broker_id: BrokerId
    broker_epoch: Position64
    partitions: Annotated[tuple[AlterPartitionItem, ...], Most(MAX_ITEMS)]


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterPartitionResult:
    error: ErrorCode = ErrorCode.NONE
    topic_id: uuid.UUID
    partition_id: PartitionId
    leader: LeaderId = NO_LEADER
    leader_epoch: Epoch32 = -1
    isr: BrokerIds = ()
    leader_recovery_state: LeaderRecoveryState = LeaderRecoveryState.RECOVERED
    partition_epoch: Epoch32 = -1
    eligible_leader_replicas: BrokerIds = ()
    """Committed with `isr`: the leader commits nothing while there are any."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterPartitionResponse(ControllerResponse):
    partitions: Annotated[tuple[AlterPartitionResult, ...], Most(MAX_ITEMS)] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectoryAssignment:
    """The directory that the sender's replica of a partition is in."""

    topic_id: uuid.UUID
    partition_id: PartitionId
    directory_id: uuid.UUID


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignReplicasToDirsRequest(ControllerRequest["AssignReplicasToDirsResponse"]):
    broker_id: BrokerId
    broker_epoch: Position64
    assignments: Annotated[tuple[DirectoryAssignment, ...], Most(MAX_ITEMS)]


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectoryAssignmentResult:
    error: ErrorCode = ErrorCode.NONE
    topic_id: uuid.UUID
    partition_id: PartitionId


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignReplicasToDirsResponse(ControllerResponse):
    results: Annotated[tuple[DirectoryAssignmentResult, ...], Most(MAX_ITEMS)] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AllocateProducerIdsRequest(ControllerRequest["AllocateProducerIdsResponse"]):
    broker_id: BrokerId
    broker_epoch: Position64


@dataclass(frozen=True, slots=True, kw_only=True)
class AllocateProducerIdsResponse(ControllerResponse):
    first_producer_id: Position64 = -1
    count: Count = 0


# Requests of its clients

AnyReplicas: TypeAlias = Annotated[tuple[int, ...], Most(MAX_MESSAGE_BYTES)]
"""Broker ids as a client wrote them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Requester:
    """The client that a broker asks for. Its rate of changes is bounded (KIP-599)."""

    user: str
    client_id: str
    strict: bool
    """True if its version of the request has THROTTLING_QUOTA_EXCEEDED. The request of an older client is
    carried out, and the client waits afterwards."""


# Topics and their partitions.


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """A partition's replicas as the client wants them."""

    partition_id: int
    replicas: AnyReplicas


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
    assignments: Annotated[tuple[Assignment, ...], Most(MAX_MESSAGE_BYTES)] = ()
    configs: Annotated[tuple[ConfigEntry, ...], Most(MAX_MESSAGE_BYTES)] = ()
    topic_id: uuid.UUID | None = None
    """The id that it gets; None: the controller draws one."""
    earlier_ids: Annotated[tuple[uuid.UUID, ...], Most(1 << 10)] = ()
    """The ids in earlier attempts at this creation with an unknown outcome. A topic that has one of them is
    the topic of this request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateTopicsRequest(ControllerRequest["CreateTopicsResponse"]):
    topics: Annotated[tuple[NewTopic, ...], Most(MAX_ITEMS)]
    validate_only: bool = False
    who: Requester | None = None
    """None: a broker asks for itself."""

    def attempt(self, entropy: Entropy) -> Self:
        """Return the request with new ids."""
        return replace(self, topics=tuple(replace(topic, topic_id=entropy.uuid()) for topic in self.topics))

    def after_unknown_outcome(self) -> Self:
        """Know the topics that this attempt has created, if it has, by their ids."""
        return replace(self, topics=tuple(map(_with_earlier_id, self.topics)))


def _with_earlier_id(topic: NewTopic) -> NewTopic:
    return replace(
        topic, topic_id=None, earlier_ids=topic.earlier_ids + ((topic.topic_id,) if topic.topic_id else ())
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class CreatedTopic(Outcome):
    name: str
    topic_id: uuid.UUID | None = None
    num_partitions: int = -1
    replication_factor: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateTopicsResponse(ControllerResponse):
    topics: Annotated[tuple[CreatedTopic, ...], Most(MAX_ITEMS)] = ()
    throttle_ms: Count = 0
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
    topics: Annotated[tuple[TopicRef, ...], Most(MAX_ITEMS)]
    who: Requester | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletedTopic(Outcome):
    name: str | None
    topic_id: uuid.UUID | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteTopicsResponse(ControllerResponse):
    topics: Annotated[tuple[DeletedTopic, ...], Most(MAX_ITEMS)] = ()
    throttle_ms: Count = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class MorePartitions:
    """A topic that is to have more partitions."""

    name: str
    count: int
    """Partitions in all."""
    assignments: Annotated[tuple[AnyReplicas, ...], Most(MAX_MESSAGE_BYTES)] | None = None
    """The replicas of each new one; None: the controller places them."""
    may_be_done: bool = False
    """True after an attempt with an unknown outcome: a topic that has `count` partitions is a success."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CreatePartitionsRequest(ControllerRequest["CreatePartitionsResponse"]):
    topics: Annotated[tuple[MorePartitions, ...], Most(MAX_ITEMS)]
    validate_only: bool = False
    who: Requester | None = None

    def after_unknown_outcome(self) -> Self:
        """Take partitions that this attempt has added, if it has, for a success."""
        if self.validate_only:
            return self
        return replace(self, topics=tuple(replace(topic, may_be_done=True) for topic in self.topics))


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtendedTopic(Outcome):
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CreatePartitionsResponse(ControllerResponse):
    topics: Annotated[tuple[ExtendedTopic, ...], Most(MAX_ITEMS)] = ()
    throttle_ms: Count = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class FewerPartitions:
    """A topic that is to lose its last partitions, with their records."""

    name: str
    count: int
    """Partitions that stay."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShrinkTopicsRequest(ControllerRequest["ShrinkTopicsResponse"]):
    """Ours: Kafka's protocol has none."""

    repeatable: ClassVar[bool] = False
    """The topic may have grown again by then."""
    topics: Annotated[tuple[FewerPartitions, ...], Most(MAX_ITEMS)]
    validate_only: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ShrunkTopic(Outcome):
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ShrinkTopicsResponse(ControllerResponse):
    topics: Annotated[tuple[ShrunkTopic, ...], Most(MAX_ITEMS)] = ()


# Reassignments (KIP-455) and elections.


@dataclass(frozen=True, slots=True, kw_only=True)
class ReassignmentItem:
    """The replicas that a partition is to have. None: its reassignment is cancelled."""

    topic: str
    partition_id: int
    replicas: AnyReplicas | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterPartitionReassignmentsRequest(ControllerRequest["AlterPartitionReassignmentsResponse"]):
    partitions: Annotated[tuple[ReassignmentItem, ...], Most(MAX_ITEMS)]
    allow_factor_change: bool = True
    """False: a target that is longer or shorter than the present one is refused (KIP-860)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReassignmentResult(Outcome):
    topic: str
    partition_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterPartitionReassignmentsResponse(ControllerResponse):
    partitions: Annotated[tuple[ReassignmentResult, ...], Most(MAX_ITEMS)] = ()


class ElectionType(enum.IntEnum):
    """Kafka's numbers of the elections that an administrator may ask for."""

    PREFERRED = 0
    """The first replica leads again."""
    UNCLEAN = 1
    """A partition without a leader gets one, even without all committed records, whatever the topic's
    setting."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ElectLeadersItem:
    topic: str
    partition_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ElectLeadersRequest(ControllerRequest["ElectLeadersResponse"]):
    election_type: ElectionType
    partitions: Annotated[tuple[ElectLeadersItem, ...], Most(MAX_ITEMS)]


@dataclass(frozen=True, slots=True, kw_only=True)
class ElectLeadersResult(Outcome):
    topic: str
    partition_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ElectLeadersResponse(ControllerResponse):
    results: Annotated[tuple[ElectLeadersResult, ...], Most(MAX_ITEMS)] = ()
    """The results, in the order of the request."""


# Configurations, quotas, features and registrations.


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
    alterations: Annotated[tuple[ConfigAlteration, ...], Most(1 << 10)]


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterConfigsRequest(ControllerRequest["AlterConfigsResponse"]):
    resources: Annotated[tuple[AlterConfigsItem, ...], Most(MAX_ITEMS)]
    validate_only: bool = False
    replace_all: bool = False
    """Keys of a resource that aren't named lose their values: AlterConfigs, not IncrementalAlterConfigs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterConfigsResult(Outcome):
    resource_type: ConfigType
    resource_name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterConfigsResponse(ControllerResponse):
    metadata_offset: Position64 = -1
    """The metadata has the answered changes from this offset (inclusive) on; -1: unknown."""
    resources: Annotated[tuple[AlterConfigsResult, ...], Most(MAX_ITEMS)] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaEntityPart:
    """A part of an entity as the client wrote it. `name`: None for the default of its type."""

    type: str
    name: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaOperation:
    """`value`: None removes the quota."""

    key: str
    value: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaAlteration:
    entity: Annotated[tuple[QuotaEntityPart, ...], Most(1 << 10)]
    operations: Annotated[tuple[QuotaOperation, ...], Most(1 << 10)] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterClientQuotasRequest(ControllerRequest["AlterClientQuotasResponse"]):
    alterations: Annotated[tuple[QuotaAlteration, ...], Most(MAX_ITEMS)]
    validate_only: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaAlterationResult(Outcome):
    """The outcome of one alteration."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterClientQuotasResponse(ControllerResponse):
    results: Annotated[tuple[QuotaAlterationResult, ...], Most(MAX_ITEMS)] = ()
    """The results, in the order of the alterations."""


_AnyText: TypeAlias = Annotated[str, Most(MAX_MESSAGE_BYTES)]


@dataclass(frozen=True, slots=True, kw_only=True)
class AclCreation:
    """An ACL as the client wrote it, with Kafka's numbers."""

    resource_type: int
    name: _AnyText
    pattern: int
    principal: _AnyText
    host: _AnyText
    operation: int
    permission: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateAclsRequest(ControllerRequest["CreateAclsResponse"]):
    creations: Annotated[tuple[AclCreation, ...], Most(MAX_ITEMS)]


@dataclass(frozen=True, slots=True, kw_only=True)
class AclCreationResult(Outcome):
    """The outcome of one creation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateAclsResponse(ControllerResponse):
    results: Annotated[tuple[AclCreationResult, ...], Most(MAX_ITEMS)] = ()
    """The results, in the order of the creations."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AclFilterFields:
    """A filter as the client wrote it, with Kafka's numbers. None: any."""

    resource_type: int
    name: _AnyText | None = None
    pattern: int
    principal: _AnyText | None = None
    host: _AnyText | None = None
    operation: int
    permission: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteAclsRequest(ControllerRequest["DeleteAclsResponse"]):
    filters: Annotated[tuple[AclFilterFields, ...], Most(MAX_ITEMS)]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletedAcls(Outcome):
    """The ACLs that one filter took."""

    acls: Annotated[tuple[Acl, ...], Most(MAX_ITEMS)] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteAclsResponse(ControllerResponse):
    results: Annotated[tuple[DeletedAcls, ...], Most(MAX_ITEMS)] = ()
    """The results, in the order of the filters. An ACL that several filters take is in each."""


_Secret: TypeAlias = Annotated[SecretBytes, Most(1 << 12)]


@dataclass(frozen=True, slots=True, kw_only=True)
class ScramDeletion:
    """The removal of a user's password. `mechanism`: a number as the client wrote it."""

    name: str
    mechanism: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ScramUpsertion:
    """A password of a user, salted: it is as good as the password."""

    name: str
    mechanism: int
    iterations: int
    salt: _Secret
    salted_password: _Secret


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterUserScramCredentialsRequest(ControllerRequest["AlterUserScramCredentialsResponse"]):
    deletions: Annotated[tuple[ScramDeletion, ...], Most(MAX_SCRAM_ALTERATIONS)] = ()
    upsertions: Annotated[tuple[ScramUpsertion, ...], Most(MAX_SCRAM_ALTERATIONS)] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class UserScramResult(Outcome):
    """The outcome for one user."""

    user: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterUserScramCredentialsResponse(ControllerResponse):
    results: Annotated[tuple[UserScramResult, ...], Most(2 * MAX_SCRAM_ALTERATIONS)] = ()
    """One for each user, in the order of their first mention, deletions before the others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SealAgainRequest(ControllerRequest["SealAgainResponse"]):
    """Seal all passwords of users by the first key of the controller's file."""


_Count: TypeAlias = Annotated[int, Integer(low=0)]


@dataclass(frozen=True, slots=True, kw_only=True)
class SealAgainResponse(ControllerResponse):
    """The number of passwords that were sealed, and of the others."""

    sealed: _Count = 0
    kept: _Count = 0
    """Those that the first key had sealed already."""
    unopened: _Count = 0
    """Those that could not be opened, and are as they were."""
    missing_key: Annotated[str, Most(16)] = ""
    """The id of a key that sealed one of `unopened`."""


class UpgradeType(enum.IntEnum):
    """Kafka's numbers of the ways that a feature's level may go."""

    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class FeatureUpdate:
    """A level for a feature; 0 switches it off."""

    name: str
    level: Annotated[int, Integer(bits=16)]
    upgrade_type: UpgradeType = UpgradeType.UPGRADE


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateFeaturesRequest(ControllerRequest["UpdateFeaturesResponse"]):
    updates: Annotated[tuple[FeatureUpdate, ...], Most(1 << 10)]
    validate_only: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateFeaturesResponse(ControllerResponse):
    """Nothing beside the error."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnregisterBrokerRequest(ControllerRequest["UnregisterBrokerResponse"]):
    broker_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class UnregisterBrokerResponse(ControllerResponse):
    """Nothing beside the error."""
