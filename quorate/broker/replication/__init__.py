"""Replicas of partitions: logs, ISR, high watermark, fetchers."""

from quorate.broker.replication.foundation import (
    AllDirectoriesFailedError,
    DeleteRecordsItem,
    DeleteRecordsResult,
    DescribedProducer,
    DuplicateReplicaError,
    FetchItem,
    FetchOptions,
    FetchResult,
    PartitionError,
    ProduceItem,
    ProduceResult,
    Purgatory,
    ReplicaFailedError,
    ReplicationConfig,
    ReplicationStats,
    SessionRef,
)
from quorate.broker.replication.replica import PartitionLookups
from quorate.broker.replication.replica_manager import ReplicaManager
from quorate.broker.replication.serving import ParkedProduce
from quorate.broker.replication.wiring import ReplicaServices, ReplicationContext

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
    "PartitionLookups",
    "ProduceItem",
    "ProduceResult",
    "Purgatory",
    "ReplicaFailedError",
    "ReplicaManager",
    "ReplicaServices",
    "ReplicationConfig",
    "ReplicationContext",
    "ReplicationStats",
    "SessionRef",
]
