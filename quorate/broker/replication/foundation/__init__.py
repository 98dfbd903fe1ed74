"""The parts that every room of replication uses: configuration, errors, requests, counts, quotas, waiting
requests, the metadata and failures."""

from quorate.broker.replication.foundation.current_metadata import CurrentMetadata, Eligible
from quorate.broker.replication.foundation.errors import (
    AllDirectoriesFailedError,
    DuplicateReplicaError,
    NotOpenedError,
    PartitionError,
    ReplicaFailedError,
)
from quorate.broker.replication.foundation.failures import (
    DamageFound,
    DirectoryFailed,
    Failure,
    Failures,
    OpeningFailed,
)
from quorate.broker.replication.foundation.purgatory import ParkedBatch, Purgatory, Waiter, Watchers
from quorate.broker.replication.foundation.replication_quota import (
    ReplicationQuota,
    ReplicationQuotas,
    is_throttled,
)
from quorate.broker.replication.foundation.requests import (
    DeleteRecordsItem,
    DeleteRecordsResult,
    DescribedProducer,
    EpochEndResult,
    FetchItem,
    FetchOptions,
    FetchResult,
    OffsetResult,
    ProduceItem,
    ProduceResult,
    SessionRef,
    TopicRef,
)
from quorate.broker.replication.foundation.stats import PartitionCounts, ReplicationStats

__all__ = [
    "AllDirectoriesFailedError",
    "CurrentMetadata",
    "DamageFound",
    "DeleteRecordsItem",
    "DeleteRecordsResult",
    "DescribedProducer",
    "DirectoryFailed",
    "DuplicateReplicaError",
    "Eligible",
    "EpochEndResult",
    "Failure",
    "Failures",
    "FetchItem",
    "FetchOptions",
    "FetchResult",
    "NotOpenedError",
    "OffsetResult",
    "OpeningFailed",
    "ParkedBatch",
    "PartitionCounts",
    "PartitionError",
    "ProduceItem",
    "ProduceResult",
    "Purgatory",
    "ReplicaFailedError",
    "ReplicationQuota",
    "ReplicationQuotas",
    "ReplicationStats",
    "SessionRef",
    "TopicRef",
    "Waiter",
    "Watchers",
    "is_throttled",
]
