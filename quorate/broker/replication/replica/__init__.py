"""The replica of a partition, as leader and as follower."""

from quorate.broker.replication.replica.compaction_gate import (
    CompactionGate,
    CompactionPass,
    CompactionSettings,
    CompactionStoppedError,
)
from quorate.broker.replication.replica.eligibility import may_join
from quorate.broker.replication.replica.follower_state import FollowerState
from quorate.broker.replication.replica.isr import IsrProposal
from quorate.broker.replication.replica.isr_question import isr_question, settle_isr
from quorate.broker.replication.replica.leader_state import Eligible, LeaderState
from quorate.broker.replication.replica.mirror import Mirror
from quorate.broker.replication.replica.partition_replica import PartitionReplica, RoleChange
from quorate.broker.replication.replica.remote_replica import FetchClock
from quorate.broker.replication.replica.replication_quota import (
    ReplicationQuota,
    ReplicationQuotas,
    is_throttled,
)

__all__ = [
    "CompactionGate",
    "CompactionPass",
    "CompactionSettings",
    "CompactionStoppedError",
    "Eligible",
    "FetchClock",
    "FollowerState",
    "IsrProposal",
    "LeaderState",
    "Mirror",
    "PartitionReplica",
    "ReplicationQuota",
    "ReplicationQuotas",
    "RoleChange",
    "is_throttled",
    "isr_question",
    "may_join",
    "settle_isr",
]
