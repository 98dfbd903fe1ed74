"""Replicas of partitions: logs, ISR, high watermark, fetchers."""

from quorate.broker.replication.replica_manager import ParkedProduce, ReplicaManager
from quorate.broker.replication.replication_config import ReplicationConfig
from quorate.broker.replication.replication_errors import (
    AllFoldersFailedError,
    DuplicateReplicaError,
    PartitionError,
)
from quorate.broker.replication.requests import (
    DeleteRecordsItem,
    DeleteRecordsResult,
    DescribedProducer,
    FetchItem,
    FetchOptions,
    FetchResult,
    ProduceItem,
    ProduceResult,
    SessionRef,
)

__all__ = [
    "AllFoldersFailedError",
    "DeleteRecordsItem",
    "DeleteRecordsResult",
    "DescribedProducer",
    "DuplicateReplicaError",
    "FetchItem",
    "FetchOptions",
    "FetchResult",
    "ParkedProduce",
    "PartitionError",
    "ProduceItem",
    "ProduceResult",
    "ReplicaManager",
    "ReplicationConfig",
    "SessionRef",
]
