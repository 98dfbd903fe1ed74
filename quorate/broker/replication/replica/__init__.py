"""The replicas of this broker: the state of one partition, as leader and as follower, and where all of them
are found."""

from quorate.broker.replication.replica.disk_failures import DiskFailures, remedy_for
from quorate.broker.replication.replica.hosted_replicas import (
    DamageReport,
    HeldReplica,
    Hosted,
    HostedReplicas,
)
from quorate.broker.replication.replica.isr_updater import (
    AlterPartition,
    IsrUpdater,
    isr_question,
    settle_isr,
)
from quorate.broker.replication.replica.log_starts import LogStarts
from quorate.broker.replication.replica.partition_lookups import PartitionLookups
from quorate.broker.replication.replica.partition_replica import PartitionReplica, RoleChange
from quorate.broker.replication.replica.replica_parts import (
    CompactionPass,
    CompactionSettings,
    CompactionStoppedError,
    Mirror,
)
from quorate.broker.replication.replica.roles import (
    Eligible,
    FetchClock,
    FollowerState,
    IsrProposal,
    LeaderState,
    may_join,
)

__all__ = [
    "AlterPartition",
    "CompactionPass",
    "CompactionSettings",
    "CompactionStoppedError",
    "DamageReport",
    "DiskFailures",
    "Eligible",
    "FetchClock",
    "FollowerState",
    "HeldReplica",
    "Hosted",
    "HostedReplicas",
    "IsrProposal",
    "IsrUpdater",
    "LeaderState",
    "LogStarts",
    "Mirror",
    "PartitionLookups",
    "PartitionReplica",
    "RoleChange",
    "isr_question",
    "may_join",
    "remedy_for",
    "settle_isr",
]
