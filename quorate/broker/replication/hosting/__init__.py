"""This broker hosts replicas: their logs are opened and removed, and their roles follow the metadata."""

from quorate.broker.replication.hosting.hosted_replicas import HeldReplica, HostedReplicas
from quorate.broker.replication.hosting.hosting import Hosting
from quorate.broker.replication.hosting.replica_opening import ReplicaOpening, configure, log_config

__all__ = ["HeldReplica", "HostedReplicas", "Hosting", "ReplicaOpening", "configure", "log_config"]
