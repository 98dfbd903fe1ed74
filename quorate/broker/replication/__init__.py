"""Replicas of partitions: logs, ISR, high watermark, fetchers."""

from quorate.broker.replication.errors import AllFoldersFailedError, DuplicateReplicaError, PartitionError
from quorate.broker.replication.replica_manager import PendingAppends, ReplicaManager
from quorate.broker.replication.replication_config import ReplicationConfig
from quorate.broker.replication.requests import AppendItem, AppendResult, FetchItem, FetchOptions, FetchResult

__all__ = [
    "AllFoldersFailedError",
    "AppendItem",
    "AppendResult",
    "DuplicateReplicaError",
    "FetchItem",
    "FetchOptions",
    "FetchResult",
    "PartitionError",
    "PendingAppends",
    "ReplicaManager",
    "ReplicationConfig",
]
