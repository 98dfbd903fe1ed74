"""The replicas of this broker: the state of one partition, as leader and as follower, and where all of them
are found."""

from quorate.broker.replication.replica.directory_assignments import AssignDirectories, DirectoryAssignments
from quorate.broker.replication.replica.disk_failures import DiskFailures, remedy_for
from quorate.broker.replication.replica.hosted_replicas import HeldReplica, Hosted, HostedReplicas
from quorate.broker.replication.replica.isr_updater import (
    AlterPartition,
    IsrUpdater,
    isr_question,
    settle_isr,
)
from quorate.broker.replication.replica.log_starts import LogStarts
from quorate.broker.replication.replica.partition_lookups import PartitionLookups
from quorate.broker.replication.replica.partition_replica import (
    DamageRead,
    LogFailed,
    PartitionReplica,
    ReplicaContext,
    RoleChange,
)
from quorate.broker.replication.replica.replica_parts import (
    CompactionPass,
    CompactionSettings,
    CompactionStoppedError,
    Mirror,
)
from quorate.broker.replication.replica.roles import FetchClock, FollowerState, IsrProposal, LeaderState
from quorate.broker.replication.replica.topic_settings import configure, log_config

__all__ = [
    "AlterPartition",
    "AssignDirectories",
    "CompactionPass",
    "CompactionSettings",
    "CompactionStoppedError",
    "DamageRead",
    "DirectoryAssignments",
    "DiskFailures",
    "FetchClock",
    "FollowerState",
    "HeldReplica",
    "Hosted",
    "HostedReplicas",
    "IsrProposal",
    "IsrUpdater",
    "LeaderState",
    "LogFailed",
    "LogStarts",
    "Mirror",
    "PartitionLookups",
    "PartitionReplica",
    "ReplicaContext",
    "RoleChange",
    "configure",
    "isr_question",
    "log_config",
    "remedy_for",
    "settle_isr",
]
