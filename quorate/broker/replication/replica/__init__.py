"""The replica of a partition, as leader and as follower."""

from quorate.broker.replication.replica.follower_state import FollowerState
from quorate.broker.replication.replica.isr import IsrProposal
from quorate.broker.replication.replica.leader_state import Eligible
from quorate.broker.replication.replica.partition_replica import Cutting, PartitionReplica, RoleChange

__all__ = ["Cutting", "Eligible", "FollowerState", "IsrProposal", "PartitionReplica", "RoleChange"]
