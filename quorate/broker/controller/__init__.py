"""The KRaft controller: it appends metadata records and carries out requests and chores."""

from quorate.broker.controller.broker_watch import BrokerWatch
from quorate.broker.controller.controller import FENCING_THE_DEAD, Controller, ControllerSettings
from quorate.broker.controller.state_machines import (
    PARTITION_MOVES,
    REPLICA_MOVES,
    PartitionStatus,
    ReplicaStatus,
    deletion_status,
    illegal_move,
    partition_counts,
    partition_moves,
    partition_status,
    replica_moves,
    replica_status,
)

__all__ = [
    "FENCING_THE_DEAD",
    "PARTITION_MOVES",
    "REPLICA_MOVES",
    "BrokerWatch",
    "Controller",
    "ControllerSettings",
    "PartitionStatus",
    "ReplicaStatus",
    "deletion_status",
    "illegal_move",
    "partition_counts",
    "partition_moves",
    "partition_status",
    "replica_moves",
    "replica_status",
]
