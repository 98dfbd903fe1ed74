"""The requests that a broker makes for itself, and the controller's answers.

Field meanings are those of Kafka's messages of the same names.
"""

import uuid
from dataclasses import dataclass
from typing import Annotated

from quorate.bounds import Most, Numbered
from quorate.broker.controller.rpc.controller_message import (
    MAX_ITEMS,
    ControllerRequest,
    ControllerResponse,
    Count,
    Epoch32,
    Position64,
)
from quorate.broker.metadata import (
    NO_LEADER,
    BrokerId,
    BrokerIds,
    Features,
    LeaderId,
    LeaderRecoveryState,
    Listeners,
    LogDirs,
    PartitionId,
    RegisteredName,
)
from quorate.error_code import ErrorCode


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
    """The epoch of this broker's earlier life whose data it has in full: it shut down in order, or its host
    has run on since (KIP-966); -1: it can't tell."""
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
