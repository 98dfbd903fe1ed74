"""What the core knows of its own log: ends, epochs, voter sets, a snapshot on its way in."""

from quorate.raft.core.replica_log.incoming_snapshot import Arrival, IncomingSnapshot
from quorate.raft.core.replica_log.replica_log import ReplicaLog
from quorate.raft.core.replica_log.voter_history import VoterHistory

__all__ = ["Arrival", "IncomingSnapshot", "ReplicaLog", "VoterHistory"]
