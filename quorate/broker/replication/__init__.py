"""Replicas of partitions: logs, ISR, high watermark, fetchers."""

from quorate.broker.replication.purgatory import Purgatory
from quorate.broker.replication.replica_manager import ParkedProduce, ReplicaManager
from quorate.broker.replication.replication_config import ReplicationConfig
from quorate.broker.replication.replication_errors import (
    AllDirectoriesFailedError,
    DuplicateReplicaError,
    PartitionError,
    ReplicaFailedError,
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
from quorate.broker.replication.stats import ReplicationStats

__all__ = [
    "AllDirectoriesFailedError",
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
    "Purgatory",
    "ReplicaFailedError",
    "ReplicaManager",
    "ReplicationConfig",
    "ReplicationStats",
    "SessionRef",
]
