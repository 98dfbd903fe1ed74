"""The KRaft controller: it appends metadata records and carries out requests and chores."""

from quorate.broker.controller.broker_tending import FENCING_THE_DEAD
from quorate.broker.controller.chores import Chore, Chores
from quorate.broker.controller.controller import Controller
from quorate.broker.controller.controller_settings import ControllerSettings
from quorate.broker.controller.liveness import BrokerProgress, BrokerWatch
from quorate.broker.controller.partition_walks import PartitionWalks
from quorate.broker.controller.portions import joined, portions
from quorate.broker.controller.state_machines import (
    PARTITION_MOVES,
    REPLICA_MOVES,
    PartitionPhase,
    ReplicaPhase,
    deletion_phase,
    illegal_change,
    partition_changes,
    partition_counts,
    partition_phase,
    replica_changes,
    replica_counts,
    replica_phase,
)

__all__ = [
    "FENCING_THE_DEAD",
    "PARTITION_MOVES",
    "REPLICA_MOVES",
    "BrokerProgress",
    "BrokerWatch",
    "Chore",
    "Chores",
    "Controller",
    "ControllerSettings",
    "PartitionPhase",
    "PartitionWalks",
    "ReplicaPhase",
    "deletion_phase",
    "illegal_change",
    "joined",
    "partition_changes",
    "partition_counts",
    "partition_phase",
    "portions",
    "replica_changes",
    "replica_counts",
    "replica_phase",
]
