"""The core's knowledge of its own log: ends, epochs, voter sets, an incoming snapshot."""

from quorate.raft.core.replica_log.incoming_snapshot import Arrival, IncomingSnapshot
from quorate.raft.core.replica_log.replica_log import ReplicaLog
from quorate.raft.core.replica_log.voter_history import VoterHistory

__all__ = ["Arrival", "IncomingSnapshot", "ReplicaLog", "VoterHistory"]
