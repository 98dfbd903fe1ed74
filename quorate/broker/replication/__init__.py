"""Replicas of partitions: logs, ISR, high watermark, fetchers."""

from quorate.broker.replication.purgatory import Purgatory
from quorate.broker.replication.replica_assembly import ReplicaServices, ReplicationContext
from quorate.broker.replication.replica_manager import ReplicaManager
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
from quorate.broker.replication.serving import ParkedProduce, PartitionLookups
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
